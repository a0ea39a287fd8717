"""The store of ``mode="spool"``: recording is durable here at once and sent on by itself; reading asks the service."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from chatsnapshot.clock import Clock, uuid_text
from chatsnapshot.errors import (
    EventConflict,
    InvalidEvent,
    LedgerClosed,
    LedgerError,
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
    Traits,
)
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.address import read_address
from chatsnapshot.stores.http.errors import error_of
from chatsnapshot.stores.http.store import HttpStore
from chatsnapshot.stores.open import Location
from chatsnapshot.stores.planning import differences
from chatsnapshot.stores.spool.file import SpoolFile
from chatsnapshot.stores.spool.forwarder import Forwarder
from chatsnapshot.stores.spool.place import spool_path

__all__ = ["SpoolBehind", "SpooledStore"]

T = TypeVar("T")

SPOOL_BYTES_MAX = 1024 * 1024 * 1024
"""Bytes that a spool holds before recording is refused (``StoreFull``); another number with ``spool_bytes_max=``."""
READ_SECONDS_MAX = 2.0
"""So long a read waits for what is recorded and not sent yet."""
FLUSH_SECONDS = 30.0
"""So long a flush waits that was given no time."""
CLOSE_SECONDS_MAX = 5.0
"""So long a close sends on what waits; the rest stays for the next start."""
OPEN_SECONDS_MAX = 2.0
"""So long the first opening of a ledger waits for the service."""


class SpoolBehind(UserWarning):
    """A read did not see events that are recorded and could not be sent yet."""


class SpooledStore:
    """A ledger on a service, with a spool in front of it.

    ``behind`` says whether the last read could not wait for everything that was recorded here.
    """

    traits = Traits(
        name="http-spool",
        durable=True,
        processes=True,
        guarded=False,
        erases_in_commit=False,
        look_seconds=1.0,
    )

    def __init__(self, location: Location, *, create: bool, clock: Clock, limits: Limits) -> None:
        self.url = location.url
        self.behind = False
        self._location, self._create, self._clock, self._limits = location, create, clock, limits
        self._mutex = threading.RLock()
        self._http: HttpStore | None = None
        self._closed = False
        self._told = 0
        address = read_address(location)
        self._file = SpoolFile(spool_path(location, address), location.url, _bytes_max(location))
        self._forwarder = Forwarder(self._file, self._remote, self.url)
        try:
            self._first_look()
        except BaseException:
            self._file.close()
            raise

    def _first_look(self) -> None:
        """Ask the service which ledger it is, if that is not known yet; it need not be there."""
        self._known = self._file.facts().get("ledger_id", "")
        if not self._known:
            try:
                self._remote(OPEN_SECONDS_MAX)
            except StoreUnavailable:
                pass
        if not self._file.empty():
            self._forwarder.wake()

    @property
    def ledger_id(self) -> str:
        """The id of the ledger; empty as long as the service has never answered."""
        return self._known

    @property
    def spool(self) -> str:
        """The file of the spool."""
        return self._file.path

    def _remote(self, seconds: float | None = None) -> HttpStore:
        """The store on the service, opened at the first use that it answers."""
        with self._mutex:
            if self._closed:
                raise LedgerClosed(f"the ledger {self.url} was closed; open it again to use it")
            if self._http is None:
                self._http = HttpStore(
                    self._location,
                    create=self._create,
                    read_only=False,
                    clock=self._clock,
                    limits=self._limits,
                    open_seconds=seconds,
                )
                if self._http.ledger_id != self._known:
                    self._known = self._http.ledger_id
                    self._file.learn("ledger_id", self._known)
            return self._http

    # --- recording ---

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Make groups durable in the spool; their rows have no position, sequence, time or leaf yet."""
        if self._closed:
            raise LedgerClosed(f"the ledger {self.url} was closed; open it again to use it")
        outcomes: list[Outcome] = []
        added: list[tuple[list[bytes], bytes]] = []
        with self._file.writing():
            here: dict[bytes, Row] = {}
            for group in groups:
                outcome, new = self._decide(group, here)
                outcomes.append(outcome)
                if new:
                    here.update((draft.columns[0], _row(draft)) for draft in new)
                    data = wire.encode(wire.WireGroup([wire.sent(draft) for draft in new], None))
                    added.append(([draft.columns[0] for draft in new], data))
            if added:
                self._file.add(added)
        if added:
            self._forwarder.wake()
        return outcomes

    def _decide(self, group: Group, here: Mapping[bytes, Row]) -> tuple[Outcome, list[Draft]]:
        """The rows of a group and what is new of it; ids that wait in the spool are known."""
        if group.expected_sequence is not None:
            return InvalidEvent(
                "expected_sequence needs the answer of the service, and a spool does not wait for it; open the ledger "
                "with mode=direct",
                path="expected_sequence",
            ), []
        known = dict(here)
        given = [draft.columns[0] for draft in group.drafts if not draft.fresh]
        for data in self._file.holding(given):
            for one in wire.decode(data, type=wire.WireGroup).drafts:
                known.setdefault(one.event_id, _row(wire.draft_from(one)))
        rows: list[Row] = []
        new: list[Draft] = []
        for draft in group.drafts:
            row = known.get(draft.columns[0])
            if row is None:
                row = known[draft.columns[0]] = _row(draft)
                new.append(draft)
            elif fields := differences(draft, row):
                return EventConflict(uuid_text(draft.columns[0]), fields), []
            rows.append(row)
        return rows, new

    def settle(self, timeout: float | None) -> list[tuple[Draft, LedgerError]]:
        """Wait until everything recorded before this call is sent; gives what was refused since the last such call.

        Raises ``TimeoutError`` after ``timeout`` seconds (30 without it): what waits is durable in the spool.
        """
        seconds = FLUSH_SECONDS if timeout is None else timeout
        if not self._forwarder.settled(self._file.last(), seconds, True):
            why = self._forwarder.failing
            raise TimeoutError(
                f"{self._file.counted().waiting} events wait in the spool of {self.url} after {seconds:g} s"
                f"{f' ({why})' if why else ''}; they are durable there and are sent when the service answers"
            )
        found: list[tuple[Draft, LedgerError]] = []
        for one in self._file.refused(self._told):
            self._told = one.number
            error = error_of(msgspec.json.decode(one.problem), self.url)
            found += [
                (wire.draft_from(draft), error) for draft in wire.decode(one.data, type=wire.WireGroup).drafts
            ]
        return found

    # --- reading ---

    def _asked(self, ask: Callable[[HttpStore], T]) -> T:
        """What the service says once what was recorded here is there; tells when that could not be sent in time."""
        self.behind = not self._forwarder.settled(self._file.last(), READ_SECONDS_MAX, False)
        found = ask(self._remote())
        if self.behind:
            warnings.warn(
                f"{self._file.counted().waiting} events wait in the spool of {self.url}; reads are without them",
                SpoolBehind,
                stacklevel=4,
            )
        return found

    def head(self) -> Head:
        """The committed head on the service."""
        return self._asked(lambda http: http.head())

    def watch(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called when the head of the service's ledger moves."""
        try:
            self._remote().watch(wake)
        except StoreUnavailable:
            pass  # the follower finds that out by itself

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows from the service."""
        return self._asked(
            lambda http: http.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        )

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids, from the service."""
        return self._asked(lambda http: http.get(event_ids))

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        return self._asked(lambda http: http.last_sequence(correlation_id))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        return self._asked(lambda http: http.children(correlation_id))

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        return self._remote().tile(level, index)

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The blob as one part; of an event that waits here too."""
        return self._asked(lambda http: http.blob(digest))

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob on the service."""
        return self._asked(lambda http: http.blobs())

    def examine(self) -> Iterable[Finding]:
        """What the store of the service finds wrong with itself."""
        return self._remote().examine()

    # --- what only the service can do ---

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries; nothing may wait in the spool."""
        self._settled("import entries").import_rows(rows, blobs)

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Erase on the service; nothing may wait in the spool."""
        return self._settled("erase").erase(positions, record)

    def _settled(self, what: str) -> HttpStore:
        if not self._forwarder.settled(self._file.last(), READ_SECONDS_MAX, False):
            raise StoreUnavailable(
                f"events wait in the spool of {self.url}, so it cannot {what} now; nothing was done, flush() first"
            )
        return self._remote()

    def bring_up(self, projections: Sequence[tuple[str, int]], whole: bool) -> None:
        """Have the service store what is new of these views."""
        self._asked(lambda http: http.bring_up(projections, whole))

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        return self._remote().checkpoint(name, version)

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        return self._remote().load_state(name, version, key)

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        return self._remote().keys(name, version, prefix=prefix, after=after, limit=limit, reverse=reverse)

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint on the service."""
        return self._remote().save_states(name, version, before, after, states)

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states."""
        self._remote().drop_states(name, version)

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: connections of its own; the parent's thread goes on sending for both."""
        self._mutex = threading.RLock()
        self._file.after_fork()
        self._forwarder.after_fork()
        if self._http is not None:
            self._http.after_fork()

    def close(self) -> None:
        """Send what waits for a while, then let go; the rest stays in the spool for the next start."""
        if self._closed:
            return
        self._forwarder.close(CLOSE_SECONDS_MAX, self._abort)
        self._closed = True
        if self._http is not None:
            self._http.close()
        self._file.close()

    def _abort(self) -> None:
        http = self._http
        if http is not None:
            http.abort()


def _row(draft: Draft) -> Row:
    """The row of an event that has no place yet."""
    return cast(
        Row,
        (None, None, None, *draft.columns, None, draft.salt, draft.commitment, draft.payload_bytes),
    )


def _bytes_max(location: Location) -> int:
    text: Any = dict(location.options).get("spool_bytes_max")
    if text is None:
        return SPOOL_BYTES_MAX
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**50):
        raise LedgerError("spool_bytes_max is a number of bytes")
    return int(text)
