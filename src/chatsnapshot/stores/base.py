"""The Store contract: what every backend promises, and the values that cross it.

A store keeps one ledger. It decides order: positions, sequences, duplicates, conflicts and the tree are settled inside
its own transaction (with :func:`chatsnapshot.stores.planning.plan` where that happens in the client). Stores share this
contract and its tests, no code of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from chatsnapshot.errors import LedgerError
from chatsnapshot.jsonvalue import Blob

__all__ = [
    "Checkpoint",
    "Draft",
    "Finding",
    "Group",
    "Head",
    "Outcome",
    "Page",
    "Query",
    "Row",
    "Store",
    "Traits",
]

Row = tuple[
    int,  # 0 position
    int,  # 1 sequence
    str,  # 2 recorded_at
    bytes,  # 3 event_id, 16 bytes
    str,  # 4 event_type
    str,  # 5 timestamp
    str,  # 6 source, canonical JSON
    str,  # 7 correlation_id
    bytes | None,  # 8 causation_id, 16 bytes
    bytes | None,  # 9 payload; None when erased
    int | None,  # 10 schema_version; None for 1
    str | None,  # 11 attributes, canonical JSON
    bytes,  # 12 leaf
    bytes | None,  # 13 salt; None when erased
    bytes,  # 14 commitment
    int,  # 15 payload_bytes, also of an erased payload
]
"""A whole entry as it is stored, column by column, in the order of the fields of ``LedgerEntry``."""

POSITION: Final = 0
SEQUENCE: Final = 1
RECORDED_AT: Final = 2
EVENT_ID: Final = 3
EVENT_TYPE: Final = 4
TIMESTAMP: Final = 5
SOURCE: Final = 6
CORRELATION_ID: Final = 7
CAUSATION_ID: Final = 8
PAYLOAD: Final = 9
SCHEMA_VERSION: Final = 10
ATTRIBUTES: Final = 11
LEAF: Final = 12
SALT: Final = 13
COMMITMENT: Final = 14
PAYLOAD_BYTES: Final = 15

Columns = tuple[bytes, str, str, str, str, bytes | None, bytes | None, int | None, str | None]


class Draft(msgspec.Struct, gc=False):
    """An event made ready: all but position, sequence, recorded_at and leaf.

    ``columns`` are columns 3 to 11 of a :data:`Row`. ``fresh`` says that the id was just made and cannot be known. What
    commits to the event is added by :func:`chatsnapshot.stores.draft.seal` before it comes to a store: ``salt`` and
    ``commitment``, and the canonical header, which is ``head + recorded_at + tail``.
    """

    columns: Columns
    payload_bytes: int
    fresh: bool
    filled: tuple[str, ...] = ()
    blobs: tuple[Blob, ...] = ()
    salt: bytes = b""
    commitment: bytes = b""
    head: bytes = b""
    tail: bytes = b""


class Group(msgspec.Struct, frozen=True, gc=False):
    """Events that one caller wants recorded whole or not at all."""

    drafts: Sequence[Draft]
    expected_sequence: int | None = None


Outcome = list[Row] | LedgerError
"""For each group: the rows of its events in order (also of those known before), or why none was stored."""


class Head(NamedTuple):
    """The state that an append advances: size (= last position), frontier, last recorded_at ("" when empty)."""

    size: int
    frontier: bytes
    recorded_at: str


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a read; ``None`` is no filter. ``start`` (inclusive) and ``end`` (exclusive) bound ``timestamp``."""

    correlation_id: str | None = None
    event_types: tuple[str, ...] | None = None
    type_prefixes: tuple[str, ...] | None = None
    origin: str | None = None
    runtime: str | None = None
    name: str | None = None
    attributes: tuple[tuple[str, str | bool | int], ...] = ()
    causation_id: bytes | None = None
    start: str | None = None
    end: str | None = None

    @property
    def unfiltered(self) -> bool:
        """Whether every entry matches."""
        return self == _EVERYTHING

    @property
    def scans(self) -> bool:
        """Whether entries must be looked at one by one, because no index leads to the matches."""
        return self.correlation_id is None and not self.unfiltered


_EVERYTHING = Query()


class Page(NamedTuple):
    """One page of a read: rows in order, the position scanned to, and whether the range is exhausted."""

    rows: Sequence[Row]
    scanned_to: int
    done: bool


class Finding(NamedTuple):
    """A fault that a store found in itself; ``position`` is ``None`` when it concerns the whole."""

    position: int | None
    what: str
    expected: str
    found: str


class Checkpoint(NamedTuple):
    """Where a projection stands: ``leaf`` is that of ``position``; ``digest`` is of the state."""

    position: int
    leaf: bytes
    digest: bytes


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a store claims; the conformance report prints it and tests what is claimed."""

    name: str
    durable: bool
    """Acknowledged events survive kill -9 and power loss."""
    processes: bool
    """Several processes may use the ledger at once."""
    guarded: bool
    """The store itself refuses to change or remove an entry."""
    erases_in_commit: bool
    """Removal of a payload is in the transaction of its record."""
    group_events_max: int = 1_000
    """Events that fit into one commit."""
    batch_events_max: int = 10_000
    """Events of one batch that can land together, whatever the limits of the ledger allow."""
    look_seconds: float = 0.05
    """A tail that nobody wakes looks at the head this often; longer where :meth:`Store.watch` gives hints."""


class Store(Protocol):
    """One ledger on one backend. Methods are safe to call from any thread.

    Errors raised are those of :mod:`chatsnapshot.errors`; a driver's own errors never come through.
    """

    @property
    def url(self) -> str:
        """Where the ledger is."""

    @property
    def traits(self) -> Traits:
        """What the store claims."""

    @property
    def ledger_id(self) -> str:
        """What it was made with: UUID text that names this history; of a copy ``+`` and the UUID of the copy follow.

        See :mod:`chatsnapshot.stores.identity`. It is kept with the ledger itself and never changes.
        """

    def head(self) -> Head:
        """The committed head."""

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake``, from any thread, when another process may have committed: a hint, never relied on.

        Called again and again with the same function while somebody waits; a store without hints does nothing.
        """

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups together, each whole or not at all; durable when it returns.

        A group that cannot be stored has its error as outcome and does not touch the others. Raises
        ``CommitUncertain`` when the commit itself failed, ``StoreFull``, ``StoreUnavailable`` or ``StorePoisoned`` when
        nothing was stored.
        """

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """Rows that match with after < position <= until, at most ``limit``, in one short read transaction.

        ``reverse`` goes down from ``until``. ``hint`` may be the sequence of the last row of the page before, when
        the query has a correlation. A page may end early (bytes, entries scanned): then ``done`` is false and the next
        page goes on from ``scanned_to``.
        """

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of those ids that are known."""

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation; 0 when it has no event."""

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one, by their first position.

        Those whose first event was caused by an event of this one; and those whose first event was caused by one of
        their own, and whose first later ``execution.run_started`` with a cause was caused by an event of this one.
        """

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile of 256 hashes."""

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob in order, or ``None``."""

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""

    def examine(self) -> Iterable[Finding]:
        """What is wrong with the store beyond what its rows, tiles and head show; nothing when it is sound."""

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries as they are, at head + 1 and on; used by copy and restore.

        A record of an erasure among them removes the payloads that it names, in the same transaction or, where a store
        cannot, again and again until it is done; so does what no longer has a user among the blobs.
        Raises ``Corrupt`` when a leaf does not follow from its columns or an id is known already, ``StoreUnavailable``
        when the first is not at head + 1; nothing is stored then.
        """

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store ``record``, then remove payload and salt of these positions, and blobs that nobody names any more."""

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """The stored state of a projection for one key."""

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys that have a state and begin with ``prefix``, at most ``limit``, in the order of their code points.

        They follow ``after``; ``reverse`` goes down, from in front of ``after`` where that is given.
        """

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together if the checkpoint is still ``before``; false when another was faster."""

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""

    def after_fork(self) -> None:
        """Called in a forked child: let go of connections without closing them."""

    def close(self) -> None:
        """Release connections and locks; a second close does nothing."""


NewDraft = Callable[[str, Mapping[str, object]], Draft]
"""Makes a draft of one of the ledger's own facts: event type, payload."""
