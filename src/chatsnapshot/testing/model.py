"""The pure model of a ledger: what any store must answer, decided with lists and dictionaries from the promises alone.

It shares no code with the stores: comparison of contents, header, commitment, leaf and root are written here anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.stores.base import Row
from chatsnapshot.testing.expecting import expect, expect_equal

__all__ = ["Known", "Large", "Model", "Refusal", "Said", "root_of"]

COLUMNS = LedgerEntry.__struct_fields__
RECORD_OF_ERASURE = "ledger.payload_erased"


class Large(bytes):
    """Bytes that are stored beside the payload; printed in few words."""

    def __repr__(self) -> str:
        return f"{len(self)} bytes {self[:1].hex()}"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller says of one event; ``None`` is left out, and the ledger fills it in or leaves it unset."""

    event_id: str | None
    event_type: str
    correlation_id: str
    payload: Mapping[str, Any]
    timestamp: str | None = None
    source: Mapping[str, str] | None = None
    causation_id: str | None = None
    attributes: Mapping[str, Any] | None = None
    schema_version: int | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``record``."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        given["payload"] = {
            key: bytes(value) if isinstance(value, Large) else value for key, value in self.payload.items()
        }
        return {name: value for name, value in given.items() if value is not None}


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing of a call is stored: the name of the error and what it tells."""

    error: str
    facts: Mapping[str, Any] = {}


class Known:
    """An entry as the model knows it: what was said, where it stands, and the row once it was seen."""

    def __init__(self, said: Said, position: int, sequence: int) -> None:
        self.said = said
        self.position = position
        self.sequence = sequence
        self.erased = False
        self.row: Row | None = None
        """The columns as they were seen first; every later sight is compared with them."""

    @property
    def source(self) -> Mapping[str, str]:
        """Who said it; by the domain of the type when it was left out."""
        if self.said.source is not None:
            return self.said.source
        domain = self.said.event_type.partition(".")[0]
        origins = {"execution": "agent", "ui": "ui", "integration": "integration"}
        return {"origin": origins.get(domain, "system"), "runtime": "none"}

    @property
    def timestamp(self) -> str | None:
        """When it happened; ``None`` as long as the ledger has filled it in and nobody has seen it."""
        return self.said.timestamp if self.row is None else self.row[5]

    @property
    def event_id(self) -> str | None:
        """The id; ``None`` as long as the ledger has made it and nobody has seen it."""
        return self.said.event_id if self.row is None else uuid_text(self.row[3])

    def blobs(self) -> dict[bytes, bytes]:
        """Digest and bytes of what of its payload is too large to stand inside."""
        values = [value for value in self.said.payload.values() if isinstance(value, Large)]
        return {hashlib.sha256(data).digest(): data for data in values}

    def sight(self) -> Row | None:
        """The row as it must be seen now."""
        if self.row is None or not self.erased:
            return self.row
        gone: list[Any] = list(self.row)
        gone[9] = gone[13] = None
        return tuple(gone)

    def see(self, row: Row, recorded_at: str) -> None:
        """Fail unless ``row`` is this entry; the first sight fixes what the ledger was free to choose.

        ``recorded_at`` is that of the entry in front of it.
        """
        where = f"position {self.position}"
        if self.row is not None:
            for name, found, wanted in zip(COLUMNS, row, self.sight() or (), strict=False):
                expect_equal(found, wanted, f"{name} at {where}")
            return
        said = self.said
        expect_equal(row[:2], (self.position, self.sequence), "position and sequence of a new entry")
        expect(row[2] >= recorded_at, f"recorded_at goes back at {where}")
        expect_equal(uuid_text(row[3]), said.event_id or uuid_text(row[3]), f"event_id at {where}")
        expect_equal(
            (row[4], row[7]), (said.event_type, said.correlation_id), f"type and correlation at {where}"
        )
        expect_equal(row[5], said.timestamp or row[5], f"timestamp at {where}")
        expect_equal(json.loads(row[6]), self.source, f"source at {where}")
        expect_equal(None if row[8] is None else uuid_text(row[8]), said.causation_id, f"cause at {where}")
        expect_equal(row[10] or 1, said.schema_version or 1, f"schema_version at {where}")
        expect_equal(json.loads(row[11] or "{}"), dict(said.attributes or {}), f"attributes at {where}")
        payload, salt = row[9], row[13]
        if payload is None or salt is None or len(salt) != 16:
            expect(False, f"payload and 16 bytes of salt at {where}: found {payload!r:.80} and {salt!r}")
            return
        if not self.blobs():
            expect_equal(_text(json.loads(payload)), _text(said.payload), f"payload at {where}")
        expect_equal(row[15], len(payload), f"payload_bytes at {where}")
        expect_equal(row[14], hashlib.sha256(b"\x02" + salt + payload).digest(), f"commitment at {where}")
        expect_equal(row[12], hashlib.sha256(b"\x00" + _header(row)).digest(), f"leaf at {where}")
        self.row = row


def _header(row: Row) -> bytes:
    """The RFC 8785 bytes of a row's header; right for texts without control characters."""
    whole: dict[str, Any] = {
        "v": 1,
        "event_id": uuid_text(row[3]),
        "event_type": row[4],
        "timestamp": row[5],
        "source": json.loads(row[6]),
        "correlation_id": row[7],
        "recorded_at": row[2],
        "payload": {"alg": "salted-sha256", "commit": base64.b64encode(row[14]).decode(), "len": row[15]},
    }
    if row[8] is not None:
        whole["causation_id"] = uuid_text(row[8])
    if row[10] is not None and row[10] != 1:
        whole["schema_version"] = row[10]
    if row[11] is not None:
        whole["attributes"] = json.loads(row[11])
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree over leaf hashes, by the recursive definition of RFC 6962, section 2.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


class Model:
    """A ledger in a list."""

    def __init__(self) -> None:
        self.entries: list[Known] = []

    def sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        return sum(known.said.correlation_id == correlation_id for known in self.entries)

    def find(self, event_id: str | None) -> Known | None:
        """The entry of an id."""
        return next((known for known in self.entries if event_id and known.event_id == event_id), None)

    def record(
        self, batch: Sequence[Said], expected: int | None = None, scope: Mapping[str, Any] | None = None
    ) -> list[Known] | Refusal:
        """What one call stores and answers: the entry of each event in order, or why nothing is stored.

        ``scope`` fills in what is left out.
        """

        def whole(said: Said) -> Said:
            fill = {name: value for name, value in (scope or {}).items() if getattr(said, name) is None}
            return msgspec.structs.replace(said, **fill)

        answer: list[Known | None] = []
        new: list[Said] = []
        places: list[int] = []
        for said in batch:
            known = self.find(said.event_id)
            twin = next(
                (at for at, one in enumerate(new) if said.event_id and one.event_id == said.event_id), None
            )
            if known is None and twin is not None:
                known = Known(whole(new[twin]), 0, 0)
            fields = () if known is None else _differences(said, known)
            if known is not None and fields:
                facts = {"event_id": said.event_id, "fields": fields, "position": known.position or None}
                return Refusal("EventConflict", facts)
            answer.append(known if twin is None else None)
            if known is None:
                new.append(said)
            places.append(len(new) - 1 if twin is None else twin)
        if expected is not None and new:
            if len({said.correlation_id for said in new}) > 1:
                return Refusal("InvalidEvent")
            found = self.sequence(new[0].correlation_id)
            if found != expected:
                facts = {"correlation_id": new[0].correlation_id, "wanted": expected, "found": found}
                return Refusal("SequenceConflict", facts)
        made = [self._add(whole(said)) for said in new]
        return [known or made[place] for known, place in zip(answer, places, strict=True)]

    def _add(self, said: Said) -> Known:
        known = Known(said, len(self.entries) + 1, self.sequence(said.correlation_id) + 1)
        self.entries.append(known)
        return known

    def erase(self, positions: Sequence[int], reason: str) -> Known | Refusal:
        """What an erasure answers: its record, or why it is refused."""
        wanted = sorted(set(positions))
        if not all(1 <= position <= len(self.entries) for position in wanted):
            return Refusal("NotFound")
        chosen = [self.entries[position - 1] for position in wanted]
        if not chosen or any(known.said.event_type.startswith("ledger.") for known in chosen):
            return Refusal("InvalidEvent")
        for known in chosen:
            known.erased = True
        payload = {"positions": wanted, "reason": reason}
        return self._add(
            Said(event_id=None, event_type=RECORD_OF_ERASURE, correlation_id="ledger", payload=payload)
        )

    def select(
        self,
        filters: Mapping[str, Any],
        *,
        after: int = 0,
        until: int | str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Known]:
        """The entries that a read gives; arguments as for ``Ledger.read``."""
        last = len(self.entries) if until is None else until
        if isinstance(last, str):
            last = sum(known.row is not None and known.row[2] <= last for known in self.entries)
        found = [known for known in self.entries[max(after, 0) : max(last, 0)] if _matches(known, filters)]
        return (found[::-1] if reverse else found)[:limit]

    def children(self, correlation_id: str) -> list[str]:
        """Other correlations that hang under this one, by their first position."""
        where = {known.event_id: known.said.correlation_id for known in self.entries}
        firsts = [known for known in self.entries if known.sequence == 1]
        return [
            known.said.correlation_id
            for known in firsts
            if known.said.correlation_id != correlation_id
            and where.get(self._hangs_by(known, where)) == correlation_id
        ]

    def _hangs_by(self, first: Known, where: Mapping[str | None, str]) -> str | None:
        """The event by which a correlation hangs: its first event's cause, or that of its first start after it."""
        cause, correlation = first.said.causation_id, first.said.correlation_id
        if cause is None or where.get(cause) != correlation:
            return cause
        starts = (
            known.said.causation_id
            for known in self.entries
            if known.said.correlation_id == correlation
            and known.sequence > 1
            and known.said.event_type == "execution.run_started"
            and known.said.causation_id is not None
        )
        return next(starts, None)

    def root(self) -> bytes:
        """The root over the leaves seen."""
        return root_of([known.row[12] for known in self.entries if known.row is not None])


def _differences(said: Said, known: Known) -> tuple[str, ...]:
    """The fields in which what is said differs from what is known; what was left out is not compared."""
    before = known.said
    differ = {
        "event_type": said.event_type != before.event_type,
        "timestamp": said.timestamp is not None and said.timestamp != known.timestamp,
        "source": said.source is not None and said.source != known.source,
        "correlation_id": said.correlation_id != before.correlation_id,
        "causation_id": said.causation_id is not None and said.causation_id != before.causation_id,
        "schema_version": (said.schema_version or 1) != (before.schema_version or 1),
        "attributes": _text(said.attributes or {}) != _text(before.attributes or {}),
        "payload": not known.erased and _text(said.payload) != _text(before.payload),
    }
    return tuple(sorted(field for field, truth in differ.items() if truth))


def _text(value: Mapping[str, Any]) -> str:
    """JSON text that tells apart what JSON tells apart, whatever the order of the keys."""
    return json.dumps(value, sort_keys=True, default=repr)


def _matches(known: Known, filters: Mapping[str, Any]) -> bool:
    said, timestamp = known.said, known.timestamp or ""
    tests: dict[str, Callable[[Any], bool]] = {
        "correlation_id": lambda wanted: said.correlation_id == wanted,
        "event_type": lambda wanted: any(
            said.event_type.startswith(one[:-1]) if one.endswith(".*") else said.event_type == one
            for one in wanted
        ),
        "origin": lambda wanted: known.source["origin"] == wanted,
        "runtime": lambda wanted: known.source["runtime"] == wanted,
        "name": lambda wanted: known.source.get("name") == wanted,
        "attributes": lambda wanted: all(
            _has(said.attributes or {}, key, value) for key, value in wanted.items()
        ),
        "causation_id": lambda wanted: said.causation_id == wanted,
        "start": lambda wanted: timestamp >= wanted,
        "end": lambda wanted: timestamp < wanted,
    }
    return all(tests[name](wanted) for name, wanted in filters.items())


def _has(attributes: Mapping[str, Any], key: str, wanted: Any) -> bool:
    found = attributes.get(key)
    if isinstance(found, list):
        return wanted in found
    return type(found) is type(wanted) and found == wanted
