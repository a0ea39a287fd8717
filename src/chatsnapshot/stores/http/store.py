"""The HTTP store: a ledger behind ``chatsnapshot serve``, which decides each commit; all promises hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.clock import Clock
from chatsnapshot.errors import (
    CommitUncertain,
    LedgerError,
    LimitExceeded,
    NotFound,
    ReadOnly,
    StoreUnavailable,
)
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import (
    Checkpoint,
    Draft,
    Finding,
    Group,
    Head,
    Outcome,
    Page,
    Query,
    Row,
)
from chatsnapshot.stores.http import parts, wire
from chatsnapshot.stores.http.address import read_address
from chatsnapshot.stores.http.anchor import Anchor
from chatsnapshot.stores.http.asking import Asking
from chatsnapshot.stores.http.connection import Lost
from chatsnapshot.stores.http.errors import Unclear, error_of, problem_of
from chatsnapshot.stores.http.waiting import Waiter
from chatsnapshot.stores.open import Location

__all__ = ["HttpStore"]

_log = logging.getLogger("chatsnapshot")

_ROOM_BYTES = 1024 * 1024
"""What a request holds beside payloads and blobs."""
_LOOK_SECONDS = 1.0
_FOLD_FACTOR = 6
"""Folding views on the service may take so many times the seconds of a read."""
_LONG_SECONDS = 600.0
"""An examination reads the whole ledger on the server, and large blobs are looked through for secrets there."""


class HttpStore:
    """A ledger on a service. Commits are decided there; a leaf that comes back is checked against the event sent."""

    def __init__(
        self,
        location: Location,
        *,
        create: bool,
        read_only: bool,
        clock: Clock,
        limits: Limits,
        open_seconds: float | None = None,
    ) -> None:
        """``open_seconds`` is how long opening may wait for the service, where that is less than for other calls."""
        self.url = location.url
        self._read_only = read_only
        self._clock = clock
        self._limits = limits
        self._asking = Asking(read_address(location), location.url)
        self._anchor = Anchor(self._asking)
        self._waiter = Waiter(self._asking)
        self._open_seconds = min(self._asking.address.seconds, open_seconds or _LONG_SECONDS)
        try:
            self._opened = self._open(create and not read_only, location.identity)
        except BaseException:
            self._asking.close()
            raise
        self.ledger_id = self._opened.ledger_id
        there = self._opened.traits
        self.traits = msgspec.structs.replace(there, name="http", processes=True, look_seconds=_LOOK_SECONDS)

    def _open(self, create: bool, identity: str) -> wire.Opened:
        opened: wire.Opened
        try:
            opened = self._asking.read("open", None, self._open_seconds, wire.Opened)
            return opened
        except NotFound:
            ledger = self._asking.address.ledger
            if not create or ledger is None:
                raise
        try:
            answer = self._asking.call(
                "PUT",
                "",
                msgspec.json.encode({"identity": identity} if identity else {}),
                self._asking.address.seconds,
                media_type="application/json",
            )
        except Lost as error:
            raise StoreUnavailable(
                f"{self.url} does not answer ({error}); open it again, which makes it if it was not made"
            ) from None
        if answer.status not in (200, 201):
            raise error_of(problem_of(answer), self.url)
        opened = self._asking.read("open", None, self._open_seconds, wire.Opened)
        return opened

    # --- writing ---

    def watch(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called when the head of the service's ledger moves."""
        self._waiter.want(wake)

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        self._writable()
        request = wire.Append([wire.sent_group(group) for group in groups], self._clock_value())
        answers = self._append(request, 0.0)
        outcomes: list[Outcome] = []
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, dict):
                error = error_of(answer, self.url)
                if isinstance(error, (CommitUncertain, Unclear)):
                    raise self._asking.uncertain(error)
                outcomes.append(error)
            else:
                outcomes.append(wire.rows_from(answer, group.drafts, self.url))
        return outcomes

    def append_raw(self, groups: Sequence[bytes], seconds: float) -> list[Any]:
        """Commit groups that are encoded already, and give what the service answers for each."""
        if sum(map(len, groups)) > self._opened.store_bytes_max - _ROOM_BYTES:
            return self._append(
                wire.Append([wire.decode(one, type=wire.WireGroup) for one in groups], None), seconds
            )
        body = self._body([[msgspec.Raw(one) for one in groups], None])
        answers: list[Any] = self._asking.write("append", body, list[Any], again=True, seconds=seconds)
        return answers

    def _append(self, request: wire.Append, seconds: float) -> list[Any]:
        """Send groups; blobs that are too large for one request go ahead of it in parts."""
        ahead: dict[bytes, bytes] = {}
        if parts.size_of(request) > self._opened.store_bytes_max - _ROOM_BYTES:
            ahead = parts.taken_out(request)
        answers: list[Any] = parts.after(
            self._asking,
            ahead,
            lambda: self._asking.write(
                "append",
                self._body(request),
                list[Any],
                again=True,
                seconds=_LONG_SECONDS if ahead else seconds,
            ),
        )
        return answers

    def _clock_value(self) -> int | None:
        """The clock of the client, where the service stamps with it and it is not the system's own."""
        return self._clock() if self._opened.client_clock and self._clock is not time.time_ns else None

    def _body(self, request: Any) -> bytes:
        body = wire.encode(request)
        if len(body) > self._opened.store_bytes_max:
            raise LimitExceeded(
                "store_bytes_max", self._opened.store_bytes_max, len(body), "record less at a time"
            )
        return body

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Have the record stored and the payloads removed."""
        self._writable()
        request = wire.Erase(list(positions), wire.sent(record), self._clock_value())
        answer = self._asking.write("erase", self._body(request), list[Any], again=True)
        return wire.rows_from([answer], [record], self.url)[0]

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        self._writable()
        if not rows:
            return
        request = wire.Import(list(rows), dict(blobs))

        def settled() -> bool | None:
            last = rows[-1]
            return self.get([last[3]]).get(last[3]) == last or None

        ahead: dict[bytes, bytes] = {}
        if sum(map(len, blobs.values())) > self._opened.store_bytes_max // 2:
            ahead = {digest: data for digest, data in blobs.items() if len(data) >= parts.LEAST_BYTES}
            request.blobs.update(dict.fromkeys(ahead, b""))
        parts.after(
            self._asking,
            ahead,
            lambda: self._asking.write(
                "import",
                self._body(request),
                again=False,
                settled=settled,
                seconds=_LONG_SECONDS if ahead else 0.0,
            ),
        )

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""
        self._writable()
        request = wire.Save(name, version, before, after, dict(states))

        def settled() -> bool | None:
            return self.checkpoint(name, version) == after or None

        return bool(self._asking.write("save_states", self._body(request), bool, again=True, settled=settled))

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        self._writable()
        self._asking.write("drop_states", wire.Named(name, version), again=True)

    def _writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"{self.url} was opened read-only; open it with read_only=False to record")

    # --- reading ---

    def head(self) -> Head:
        """The committed head; it extends every head that was seen before."""
        before = self._anchor.seen()
        found: Head = self._read("head", type=Head)
        self._anchor.check(before, found)
        return found

    def _read(self, operation: str, request: Any = None, type: Any = Any, seconds: float = 0.0) -> Any:
        return self._asking.read(operation, request, seconds, type)

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""
        rows, scanned_to, done = self._read(
            "read", wire.Asked(query, after, until, limit, reverse, hint), tuple[list[Row], int, bool]
        )
        return Page(rows, scanned_to, done)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        found: list[Row] = self._read("get", list(event_ids), list[Row])
        return {row[3]: row for row in found}

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        return int(self._read("last_sequence", correlation_id, int))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        found: list[str] = self._read("children", correlation_id, list[str])
        return found

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        found: bytes | None = self._read("tile", (level, index), bytes | None)
        return found

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The blob as one part; the service sends it bit by bit."""
        data = parts.fetched(self._asking, digest)
        return None if data is None else [data]

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        found: list[tuple[bytes, int, int]] = self._read("blobs", type=list[tuple[bytes, int, int]])
        return found

    def examine(self) -> Iterable[Finding]:
        """What the store of the service finds wrong with itself."""
        found: list[Finding] = self._read("examine", type=list[Finding], seconds=_LONG_SECONDS)
        return found

    def bring_up(self, projections: Sequence[tuple[str, int]], whole: bool) -> None:
        """Have the service store what is new of these views; where it does not, they are folded here."""
        try:
            self._read(
                "bring_up",
                wire.Bring(list(projections), whole),
                seconds=self._asking.address.seconds * _FOLD_FACTOR,
            )
        except LedgerError as error:
            _log.info("views of %s are folded here: %s", self.url, error)

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        found: Checkpoint | None = self._read("checkpoint", wire.Named(name, version), Checkpoint | None)
        return found

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        found: bytes | None = self._read("load_state", wire.Named(name, version, key), bytes | None)
        return found

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        found: list[str] = self._read(
            "keys", wire.Keys(name, version, prefix, after, limit, reverse), list[str]
        )
        return found

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: other connections, made at the next use."""
        self._asking.after_fork()
        self._anchor.after_fork()
        self._waiter.after_fork()

    def abort(self) -> None:
        """Cut off the calls that are under way."""
        self._asking.connections.abort()

    def close(self) -> None:
        """End the connections."""
        self._asking.close()
        self._waiter.close()
