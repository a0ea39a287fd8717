"""The memory store: a ledger that lives as long as its process; the same promises but durability and processes."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, islice, takewhile

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerClosed, StoreUnavailable
from chatsnapshot.integrity import Tree
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import (
    CAUSATION_ID,
    CORRELATION_ID,
    EVENT_ID,
    PAYLOAD,
    SALT,
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
from chatsnapshot.stores.clockwatch import ClockWatch
from chatsnapshot.stores.hanging import hangs_late
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.imports import check_rows, named_positions
from chatsnapshot.stores.matching import matcher
from chatsnapshot.stores.planning import Plan, known_ids, plan

__all__ = ["MemoryStore"]


class MemoryStore:
    """A ledger in lists and dictionaries, behind one lock."""

    traits = Traits(name="memory", durable=False, processes=False, guarded=False, erases_in_commit=True)

    def __init__(
        self, url: str, *, clock: Clock, entropy: Entropy, limits: Limits, identity: str = ""
    ) -> None:
        self.url = url
        self.ledger_id = new_identity(identity)
        self._clock = clock
        self._watch = ClockWatch(clock, entropy)
        self._limits = limits
        self._lock = threading.Lock()
        self._closed = False
        self._gone, self._instead = "was closed and its events are gone", "open a new one"
        self._rows: list[Row] = []
        self._tree = Tree()
        self._recorded_at = ""
        self._places: dict[bytes, int] = {}
        self._correlations: dict[str, list[int]] = {}
        self._tiles: dict[tuple[int, int], bytes] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._blob_users: dict[bytes, set[int]] = {}
        self._checkpoints: dict[tuple[str, int], Checkpoint] = {}
        self._states: dict[tuple[str, int], dict[str, bytes]] = {}
        self._ordered: dict[tuple[str, int], list[str]] = {}

    def head(self) -> Head:
        """The committed head."""
        with self._lock:
            self._open()
            size, frontier = self._tree.head()
            return Head(size, frontier, self._recorded_at)

    def watch(self, wake: Callable[[], None]) -> None:
        """Gives no hints: no other process can commit."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        with self._lock:
            self._open()
            made = self._plan(groups)
            self._take(made)
            return made.outcomes[: len(groups)]

    def _plan(self, groups: Sequence[Group]) -> Plan:
        recorded_at, groups = self._watch.stamp(self._recorded_at, groups)
        known = {key: self._rows[self._places[key] - 1] for key in known_ids(groups) if key in self._places}
        return plan(groups, self._tree, recorded_at, known, self._last_sequence, {})

    def _take(self, made: Plan) -> None:
        for row, draft in zip(made.rows, made.drafts, strict=False):
            self._add(row)
            for blob in draft.blobs:
                self._blobs.setdefault(blob.digest, blob.data)
                self._blob_users.setdefault(blob.digest, set()).add(row[0])
        if made.rows:
            self._recorded_at = made.recorded_at
        self._tiles.update(((tile.level, tile.index), tile.data) for tile in made.tiles)
        self._tree = made.tree
        self._watch.committed()

    def _add(self, row: Row) -> None:
        self._rows.append(row)
        self._places[row[EVENT_ID]] = row[0]
        self._correlations.setdefault(row[CORRELATION_ID], []).append(row[0])

    def _last_sequence(self, correlation_id: str) -> int:
        return len(self._correlations.get(correlation_id, ()))

    def _open(self) -> None:
        if self._closed:
            raise LedgerClosed(f"this memory: ledger {self._gone}; {self._instead}")

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""
        with self._lock:
            self._open()
            last = min(until, len(self._rows))
            places: Sequence[int]
            if query.correlation_id is not None:
                known = self._correlations.get(query.correlation_id, [])
                places = known[bisect_right(known, after) : bisect_right(known, last)]
            else:
                places = range(max(after, 0) + 1, last + 1)
            rows = self._rows
            matches = matcher(query)
            found: list[Row] = []
            size = 0
            scan_max = self._limits.scan_entries_max if query.scans else len(rows) + 1
            scanned_to = until if reverse else after
            for scanned, place in enumerate(reversed(places) if reverse else places):
                if len(found) >= limit or size >= self._limits.page_bytes_max or scanned >= scan_max:
                    return Page(found, scanned_to, False)
                scanned_to = place - 1 if reverse else place
                row = rows[place - 1]
                if matches(row):
                    found.append(row)
                    size += len(row[PAYLOAD] or b"")
            return Page(found, after if reverse else max(last, after), True)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        with self._lock:
            self._open()
            return {key: self._rows[self._places[key] - 1] for key in event_ids if key in self._places}

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        with self._lock:
            self._open()
            return self._last_sequence(correlation_id)

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        with self._lock:
            self._open()
            mine = {self._rows[place - 1][EVENT_ID] for place in self._correlations.get(correlation_id, ())}
            every = sorted(self._correlations.items(), key=lambda pair: pair[1][0])
            return [one for one, places in every if one != correlation_id and self._hangs_by(places) in mine]

    def _hangs_by(self, places: Sequence[int]) -> bytes | None:
        """The id of the event by which a correlation hangs under another; ``None`` where no event tells."""
        first = self._rows[places[0] - 1]
        cause: bytes | None = first[CAUSATION_ID]
        if cause is None:
            return None
        at = self._places.get(cause)
        if at is None or self._rows[at - 1][CORRELATION_ID] != first[CORRELATION_ID]:
            return cause
        rows = (self._rows[place - 1] for place in places)
        return next((row[8] for row in rows if hangs_late(row[4], row[1], row[8])), None)

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        return self._tiles.get((level, index))

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The blob as one part."""
        with self._lock:
            found = self._blobs.get(digest)
        return None if found is None else [found]

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob with its size and the number of entries that name it."""
        with self._lock:
            return [(key, len(data), len(self._blob_users.get(key, ()))) for key, data in self._blobs.items()]

    def examine(self) -> Iterable[Finding]:
        """Lists and dictionaries have nothing beyond their rows that could be wrong."""
        return ()

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        with self._lock:
            self._open()
            if rows and rows[0][0] != self._tree.size + 1:
                raise StoreUnavailable(
                    f"the next position is {self._tree.size + 1}, not {rows[0][0]}; import from the head on"
                )
            users = check_rows(rows, self._recorded_at, self._last_sequence, lambda _: self._places)
            tree = self._tree.copy()
            tiles = tree.extend([row[12] for row in rows])
            for row in rows:
                self._add(row)
            for position, digests in users.items():
                for digest in digests:
                    self._blob_users.setdefault(digest, set()).add(position)
            self._blobs.update(blobs)
            self._tiles.update(((tile.level, tile.index), tile.data) for tile in tiles)
            self._tree = tree
            if rows:
                self._recorded_at = rows[-1][2]
            self._remove([position for row in rows for position in named_positions(row)])

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record, then remove payload and salt."""
        with self._lock:
            self._open()
            made = self._plan([Group([record])])
            outcome = made.outcomes[0]
            if not isinstance(outcome, list):
                raise outcome
            self._take(made)
            self._remove(positions)
            return outcome[0]

    def _remove(self, positions: Sequence[int]) -> None:
        if not positions:
            return
        for position in positions:
            row = list(self._rows[position - 1])
            row[PAYLOAD] = row[SALT] = None
            self._rows[position - 1] = tuple(row)  # type: ignore[assignment]
        gone = set(positions)
        for digest, users in list(self._blob_users.items()):
            users -= gone
            if not users:
                del self._blob_users[digest]
                self._blobs.pop(digest, None)

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        with self._lock:
            return self._checkpoints.get((name, version))

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        with self._lock:
            return self._states.get((name, version), {}).get(key)

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        with self._lock:
            # Sorted anew only when a key was added or removed since.
            ordered = self._ordered.get((name, version))
            if ordered is None:
                ordered = self._ordered[name, version] = sorted(self._states.get((name, version), ()))
            low, high = bisect_left(ordered, prefix), len(ordered)
            if reverse:
                high = bisect_left(ordered, after) if after else high
                places = range(high - 1, low - 1, -1)
            else:
                places = range(max(low, bisect_right(ordered, after)) if after else low, high)
            listed: Iterator[str] = (ordered[place] for place in places)
            if reverse:
                listed = dropwhile(lambda key: not key.startswith(prefix), listed)
            return list(islice(takewhile(lambda key: key.startswith(prefix), listed), limit))

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""
        with self._lock:
            self._open()
            if self._checkpoints.get((name, version)) != before:
                return False
            self._checkpoints[name, version] = after
            kept = self._states.setdefault((name, version), {})
            for key, state in states.items():
                if (state is None) == (key in kept):
                    self._ordered.pop((name, version), None)
                if state is None:
                    kept.pop(key, None)
                else:
                    kept[key] = state
            return True

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states."""
        with self._lock:
            self._checkpoints.pop((name, version), None)
            self._states.pop((name, version), None)
            self._ordered.pop((name, version), None)

    def after_fork(self) -> None:
        """A forked child has a copy, not the ledger: it must not use it."""
        self._lock = threading.Lock()
        self._closed = True
        self._gone = "does not follow a fork: its events are in the parent"
        self._instead = "give both processes a path such as runs.db"

    def close(self) -> None:
        """Let go of the events."""
        with self._lock:
            self._closed = True
