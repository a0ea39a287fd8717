"""Derives a ledger anew from its stored columns and reports what is proven and what is not.

Levels (``docs/format.md``): A0, every stored row is well formed and keeps the rules of order; A1, every payload matches
its commitment, every leaf its header, and the tree over the leaves is the one the head states.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt, LedgerError
from chatsnapshot.events.normaliser import call_id_of
from chatsnapshot.examining import Examining
from chatsnapshot.integrity import (
    Tree,
    commit,
    encode_frontier,
    is_canonical_object,
    leaf_hash,
    stored_leaf_input,
)
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.limits import Limits
from chatsnapshot.report import Problem, Report, noted_facts, summary_text, unproven_facts
from chatsnapshot.stores.base import Query, Row, Store
from chatsnapshot.stores.imports import row_header

__all__ = ["Problem", "Report", "verify"]

_PROBLEMS_MAX = 1_000
_TEXTS_KEPT = 4_096
_IDS_KEPT = 2_000_000
"""Ids held in memory (about 100 bytes each); beyond, causes are looked up and the store's index answers for ids."""

_READ_TYPES = frozenset({"ledger.payload_erased", "execution.tool_call", "execution.tool_result"})
"""Types whose payloads are read."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


_Tools = dict[tuple[str, str, str], tuple[int, list[tuple[str, str, str]], bool]]
"""Tool events without their other half, under each of their names: position, all names, whether it has a call id."""


class _Examination:
    """The state of one pass."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.problems: list[Problem] = []
        self.count = 0
        self.rows_sound = True
        self.hashes_sound = True
        self.tree = Tree()
        self.entries = 0
        self.payload_bytes = 0
        self.recorded_at = ""
        self.texts: set[str] = set()
        self.sequences: dict[str, int] = {}
        self.ids: set[bytes] = set()
        self.causes: dict[bytes, int] = {}
        self.erased: set[int] = set()
        self.erasures: set[int] = set()
        self.calls: _Tools = {}
        self.answers: _Tools = {}
        self.blobs: dict[bytes, int] = {}

    def problem(
        self, position: int | None, what: str, expected: object, found: object, code: int = 3
    ) -> None:
        """Note a fault and go on."""
        self.count += 1
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(Problem(position, what, _text(expected), _text(found), code))

    def row_fault(
        self, position: int | None, what: str, expected: object, found: object, code: int = 3
    ) -> None:
        """A fault of level A0."""
        self.rows_sound = False
        self.problem(position, what, expected, found, code)

    def hash_fault(
        self, position: int | None, what: str, expected: object, found: object, code: int = 3
    ) -> None:
        """A fault of level A1."""
        self.hashes_sound = False
        self.problem(position, what, expected, found, code)

    # --- rows ---

    def page(self, rows: Sequence[Row], after: int) -> int:
        """Check rows in order; gives the last position.

        What is sound and ordinary, as nearly every row is, is seen to be so in one pass; all else goes through
        :meth:`row`, which asks the same questions one by one and names what is wrong.
        """
        leaves: list[bytes] = []
        texts, ids, sha, data_of, stamped = self.texts, self.ids, sha256, stored_leaf_input, _STAMP.fullmatch
        sequences, last_of, add_id, add_leaf = self.sequences, self.sequences.get, self.ids.add, leaves.append
        many, now, bytes_seen, seen = self.entries >= _IDS_KEPT, self.recorded_at, 0, 0
        for row in rows:
            (
                position, sequence, recorded_at, event_id, event_type, timestamp, source, correlation,
                cause, payload, version, attributes, leaf, salt, commitment, size,
            ) = row  # fmt: skip
            if (
                position == after + 1
                and (recorded_at == now or (recorded_at > now and stamped(recorded_at) is not None))
                and last_of(correlation, 0) + 1 == sequence
                and payload is not None
                and len(payload) == size
                and salt is not None
                and len(salt) == 16
                and sha(b"\x02" + salt + payload).digest() == commitment
                and event_type not in _READ_TYPES
                and source in texts
                and (attributes is None or attributes in texts)
                and b"$blob" not in payload
                and event_id not in ids
                and (cause is None or cause in ids)
                and sha(
                    data_of(
                        event_id, event_type, timestamp, source, correlation, cause, version, attributes,
                        commitment, size, recorded_at,
                    )
                ).digest()
                == leaf
            ):  # fmt: skip
                after = position
                now = recorded_at
                sequences[correlation] = sequence
                if not many:
                    add_id(event_id)
                bytes_seen += size
                seen += 1
                add_leaf(leaf)
                continue
            if position != after + 1:
                self.row_fault(after + 1, "positions are missing", after + 1, position, 4)
            after = position
            self.recorded_at = now
            add_leaf(self.row(row))
            now = self.recorded_at
        self.recorded_at = now
        self.entries += seen
        self.payload_bytes += bytes_seen
        self.tiles(leaves)
        return after

    def row(self, row: Row) -> bytes:
        """Check one row; gives the leaf that its columns lead to."""
        position = row[0]
        if row[2] < self.recorded_at:
            self.row_fault(position, "recorded_at goes back", f"{self.recorded_at} or later", row[2])
        if not _STAMP.fullmatch(row[2]):
            self.row_fault(position, "recorded_at is no timestamp", "YYYY-MM-DDTHH:MM:SS.ffffffZ", row[2])
        self.recorded_at = max(self.recorded_at, row[2])
        expected = self.sequences.get(row[7], 0) + 1
        if row[1] != expected:
            self.row_fault(position, f"sequence of {row[7]!r}", expected, row[1])
        self.sequences[row[7]] = max(row[1], expected)
        if row[3] in self.ids:
            self.row_fault(position, "event id is recorded twice", "an id of its own", uuid_text(row[3]))
        if self.entries < _IDS_KEPT:
            self.ids.add(row[3])
        if row[8] is not None and row[8] not in self.ids:
            self.causes.setdefault(row[8], position)
        self.payload(row)
        self.canonical(row)
        leaf = self.leaf(row)
        self.entries += 1
        return leaf

    def canonical(self, row: Row) -> None:
        """Source and attributes are canonical: text moved between columns would leave the header the same."""
        for name, text in (("source", row[6]), ("attributes", row[11])):
            if text is None or text in self.texts:
                continue
            if not is_canonical_object(text):
                self.row_fault(
                    row[0], f"{name} is not in its canonical form", "one canonical JSON object", text
                )
            elif len(self.texts) < _TEXTS_KEPT:
                self.texts.add(text)

    def leaf(self, row: Row) -> bytes:
        try:
            leaf = leaf_hash(row_header(row))
        except (LedgerError, ValueError, TypeError, AttributeError) as error:
            self.hash_fault(row[0], "header cannot be built from the columns", "readable columns", error)
            return bytes(row[12])
        if leaf != row[12]:
            self.hash_fault(row[0], "leaf does not follow from the columns", row[12], leaf)
        return leaf

    def payload(self, row: Row) -> None:
        """Commitment, blobs named, and what the ledger's own records and tool events say."""
        position, payload, salt = row[0], row[9], row[13]
        if payload is None:
            self.erased.add(position)
            if salt is not None:
                self.row_fault(position, "payload is gone and its salt is not", "both erased", "a salt")
            return
        self.payload_bytes += len(payload)
        if len(payload) != row[15]:
            self.hash_fault(position, "length of the payload", row[15], len(payload))
        if salt is None or len(salt) != 16:
            self.row_fault(position, "salt", "16 bytes", "none" if salt is None else f"{len(salt)} bytes")
        elif commit(salt, payload) != row[14]:
            self.hash_fault(position, "payload does not match its commitment", row[14], commit(salt, payload))
        event_type = row[4]
        try:
            if b"$blob" in payload:
                for digest in blob_digests(payload):
                    self.blobs.setdefault(digest, position)
            if event_type == "ledger.payload_erased" and row[7] == "ledger":
                self.erasures.update(msgspec.json.decode(payload).get("positions", ()))
            elif event_type in ("execution.tool_call", "execution.tool_result"):
                self.tool(row, event_type, msgspec.json.decode(payload))
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as error:
            self.row_fault(position, "payload cannot be read", "a JSON object", error)

    def tool(self, row: Row, event_type: str, payload: Any) -> None:
        """Pair tool calls with their results, by call id, else by cause; either of the two may come first."""
        calls = event_type == "execution.tool_call"
        call_id = call_id_of(payload)
        event_id = row[3] if calls else row[8]
        event = uuid_text(event_id) if event_id is not None else ""
        names = [("id", call_id)] if call_id else []
        names += [("cause", event)] if event else []
        names += [("id", event)] if calls else []
        keys = [(row[7], *name) for name in names]
        mine, others = (self.calls, self.answers) if calls else (self.answers, self.calls)
        for key in keys:
            # Of two that have ids, a cause joins nothing: the ids say that they are not one call.
            if key in others and (key[1] == "id" or not (call_id and others[key][2])):
                for name in others[key][1]:
                    others.pop(name, None)
                return
        mine.update((key, (row[0], keys, bool(call_id))) for key in keys)

    # --- the whole ---

    def pages(self, head: int, progress: Callable[[int, int], None] | None) -> None:
        """Walk over every row in order; a missing position is named and its place in the tree taken as it is."""
        read, limit, after = self.store.read, self.limits.page_entries_max, 0
        while after < head:
            try:
                page = read(Query(), after=after, until=head, limit=limit, reverse=False, hint=None)
            except Corrupt as error:
                if error.position is None or error.position <= after:
                    raise
                self.row_fault(error.position, "the entry cannot be read", "a readable entry", error)
                after = error.position
                continue
            after = self.page(page.rows, after)
            if not page.rows:
                self.row_fault(after + 1, "entries up to the head are missing", head, after, 4)
                return
            if progress is not None:
                progress(after, head)

    def tiles(self, leaves: Sequence[bytes]) -> None:
        """Grow the tree and compare the tiles that become full with the stored ones."""
        for tile in self.tree.extend(leaves):
            stored = self.store.tile(tile.level, tile.index)
            if stored is None:
                self.hash_fault(None, f"tile {tile.index} of level {tile.level}", "256 hashes", "missing")
            elif stored != tile.data:
                differing = next(
                    i for i in range(256) if stored[32 * i : 32 * i + 32] != tile.data[32 * i : 32 * i + 32]
                )
                position = (tile.index * 256 + differing) * 256**tile.level + 1
                self.hash_fault(
                    position,
                    f"hash {differing} of tile {tile.index} of level {tile.level}",
                    stored[32 * differing : 32 * differing + 32],
                    tile.data[32 * differing : 32 * differing + 32],
                )

    def head(self, size: int, frontier: bytes, recorded_at: str) -> None:
        """The stored head states the tree over these leaves."""
        derived = encode_frontier(self.tree.frontier())
        if self.tree.size != size or derived != frontier:
            self.hash_fault(
                None,
                "tree of the head",
                f"{size} leaves, {frontier.hex()}",
                f"{self.tree.size} leaves, {derived.hex()}",
            )
        if recorded_at != self.recorded_at:
            self.row_fault(size, "recorded_at of the head", recorded_at, self.recorded_at)

    def erasure(self) -> None:
        """Payloads are missing exactly where a record says so."""
        for position in sorted(self.erased - self.erasures):
            self.hash_fault(
                position, "payload is missing without a record", "a payload or a record", "neither", 7
            )
        for position in sorted(self.erasures - self.erased):
            if isinstance(position, int) and position <= self.tree.size:
                self.row_fault(
                    position, "payload is there though its erasure is recorded", "no payload", "a payload"
                )

    def dangling(self) -> list[int]:
        """Positions that name a cause which is nowhere in the ledger."""
        missing = {cause: place for cause, place in self.causes.items() if cause not in self.ids}
        if self.entries > _IDS_KEPT:
            keys = list(missing)
            for start in range(0, len(keys), 1_000):
                for found in self.store.get(keys[start : start + 1_000]):
                    del missing[found]
        return list(missing.values())

    def blob_bytes(self) -> int:
        """Every blob that is named is there and hashes to its name."""
        for digest, position in self.blobs.items():
            parts = self.store.blob(digest)
            if parts is None:
                self.hash_fault(position, "blob is missing", f"sha256:{digest.hex()}", "nothing", 7)
                continue
            found = hashlib.sha256()
            for part in parts:
                found.update(part)
            if found.digest() != digest:
                self.hash_fault(position, "blob does not hash to its name", digest, found.digest())
        return len(self.blobs)


def verify(store: Store, limits: Limits, progress: Callable[[int, int], None] | None = None) -> Report:
    """Examine a whole ledger; never raises because of what it finds."""
    examined = _Examination(store, limits)
    try:
        head = store.head()
    except Corrupt as error:
        problem = Problem(error.position, "the head cannot be read", "a readable head", str(error))
        return Report(
            ok=False, level="", head=0, root="", entries=0, payload_bytes=0, erased=0, blobs=0,
            problems=(problem,), problem_count=1, summary=str(error),
        )  # fmt: skip
    beside = Examining(store)
    try:
        examined.pages(head.size, progress)
        examined.head(*head)
        examined.erasure()
        blobs = examined.blob_bytes()
        for finding in beside.findings():
            examined.row_fault(finding.position, finding.what, finding.expected, finding.found)
    except (Corrupt, TypeError, ValueError, AttributeError) as error:
        # Not only what a store finds: a changed byte can give a column another type than any code expects.
        position = getattr(error, "position", None) or examined.entries + 1
        examined.row_fault(position, "the store cannot be read on", "readable pages", error)
        blobs = len(examined.blobs)
    dangling = sorted(examined.dangling())
    calls = sorted({position for position, _, _ in examined.calls.values()})
    level = "A1" if examined.rows_sound and examined.hashes_sound else "A0" if examined.rows_sound else ""
    ok = not examined.count
    if not head.size and ok:
        level = ""
    return Report(
        ok=ok,
        level=level,
        head=head.size,
        root=examined.tree.root().hex(),
        entries=examined.entries,
        payload_bytes=examined.payload_bytes,
        erased=len(examined.erased),
        blobs=blobs,
        problems=tuple(examined.problems),
        problem_count=examined.count,
        unproven=unproven_facts(head.size, len(examined.erased)),
        notes=noted_facts(dangling, calls, len(examined.erased)),
        dangling_causes=tuple(dangling),
        open_tool_calls=tuple(calls),
        summary=summary_text(head.size, examined.count, examined.problems),
    )


def _text(value: object) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
