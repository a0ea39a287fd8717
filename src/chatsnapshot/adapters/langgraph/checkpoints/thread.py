"""One thread of checkpoints in a ledger: kept up with, read and added to."""

from __future__ import annotations

import contextvars
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from chatsnapshot.adapters.langgraph.checkpoints.index import Index, Place, SavedAt, Version
from chatsnapshot.adapters.langgraph.checkpoints.shapes import REWRITTEN, correlation_of
from chatsnapshot.adapters.langgraph.checkpoints.values import Part, Value, patched, size
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, NotFound

__all__ = ["Cache", "Loaded", "Thread", "Threads", "Write"]

_ONE_BY_ONE_MAX = 16
"""So many entries are fetched by their ids; more are read through from the first to the last."""


class Write(NamedTuple):
    """One pending write as it is stored."""

    task_path: str
    task_id: str
    number: int
    channel: str
    part: Part


class Loaded(NamedTuple):
    """A checkpoint as it is stored, with its values and what tasks wrote after it."""

    ns: str
    checkpoint_id: str
    at: SavedAt
    payload: Mapping[str, Any]
    values: dict[str, Value]
    writes: list[Write]


class Thread:
    """The checkpoints of one thread, in every namespace. Safe to use from threads."""

    def __init__(self, ledger: Any, thread_id: str, cache: Cache) -> None:
        self.ledger = ledger
        self.thread_id = thread_id
        self.correlation_id = correlation_of(thread_id)
        self.index = Index()
        self._cache = cache
        self._lock = threading.RLock()
        self._cold = True

    # --- keeping up ---------------------------------------------------------------------------------------

    def catch_up(self) -> Index:
        """The index with everything that was recorded until now; the first time from where the thread was rewritten."""
        with self._lock:
            if self._cold:
                rewritten = self.ledger.read(
                    correlation_id=self.correlation_id, event_type=REWRITTEN, reverse=True, limit=1
                )
                for entry in rewritten:
                    self.index.position = entry.payload["superseded_to"]
                self._cold = False
            for entry in self.ledger.read(correlation_id=self.correlation_id, after=self.index.position):
                self.index.apply(entry)
            return self.index

    def record(self, events: Sequence[Mapping[str, Any]], **options: Any) -> list[LedgerEntry]:
        """Record events of this thread as one batch, outside of every scope: a run's own history stays as it is."""
        made: list[LedgerEntry] = contextvars.Context().run(self.ledger.record_many, events, **options)
        return made

    # --- reading ------------------------------------------------------------------------------------------

    def load(self, ns: str, checkpoint_id: str) -> Loaded | None:
        """A checkpoint that the index knows, with values and writes; ``None`` for one that it does not know.

        Raises :class:`Corrupt` where something of it was erased, though not when the thread was pruned meanwhile: then it
        is looked up again.
        """
        while True:
            rewrites = self.index.rewrites
            try:
                return self._load(ns, checkpoint_id)
            except (Corrupt, NotFound):
                if self.catch_up().rewrites == rewrites:
                    raise

    def _load(self, ns: str, checkpoint_id: str) -> Loaded | None:
        at = self.index.checkpoints.get(ns, {}).get(checkpoint_id)
        if at is None:
            return None
        payload = self.payload(at)
        values = self.values(ns, payload["versions"])
        return Loaded(ns, checkpoint_id, at, payload, values, self.writes(ns, checkpoint_id))

    def payload(self, at: SavedAt) -> Mapping[str, Any]:
        """What is stored of a checkpoint."""
        (payload,) = self._payloads([at.place]).values()
        return payload

    def writes(self, ns: str, checkpoint_id: str) -> list[Write]:
        """What tasks wrote after a checkpoint, in the order in which LangGraph applies it.

        Of one task's write the first counts, and of those with a fixed place (below zero) the last.
        """
        found: dict[tuple[str, int], Write] = {}
        for payload in self._payloads(self.index.writes.get((ns, checkpoint_id), ())).values():
            for number, channel, kind, data in payload["writes"]:
                key = (payload["task_id"], number)
                if number < 0 or key not in found:
                    found[key] = Write(
                        payload["task_path"], payload["task_id"], number, channel, (kind, bytes(data))
                    )
        return sorted(found.values(), key=lambda write: write[:3])

    def values(self, ns: str, versions: Mapping[str, Version]) -> dict[str, Value]:
        """The values of channels of these versions; a channel without a value is left out."""
        index = self.index
        chains: dict[str, list[tuple[str, str, Version]]] = {}
        begun: dict[str, Value] = {}
        wanted: set[Place] = set()
        for channel, version in versions.items():
            top = index.values.get((ns, channel, version))
            if top is None or top.empty:
                continue
            chains[channel] = []
            for key, one in self._chain(ns, channel, version):
                cached = self._cache.get(self.correlation_id, *key)
                if cached is not None:
                    begun[channel] = cached
                    break
                chains[channel].append(key)
                wanted.add(one.place)
        payloads = self._payloads(sorted(wanted))
        stored = {
            (place, one["channel"], one["version"]): one
            for place, payload in payloads.items()
            for one in payload["values"]
        }
        made: dict[str, Value] = {}
        for channel, keys in chains.items():
            value = begun.get(channel)
            for key in reversed(keys):
                value = patched(stored[index.values[key].place, channel, key[2]], value)
            if value is not None:
                made[channel] = value
                self._cache.put(self.correlation_id, ns, channel, versions[channel], value)
        return made

    def remember(self, ns: str, channel: str, version: Version, value: Value) -> None:
        """Keep a value that was just stored: the next one is told by what changed in it."""
        self._cache.put(self.correlation_id, ns, channel, version, value)

    def _chain(self, ns: str, channel: str, version: Version) -> Iterable[Any]:
        try:
            yield from self.index.chain((ns, channel, version))
        except KeyError as error:
            raise Corrupt(
                f"channel {channel!r} of a checkpoint of thread {self.thread_id!r} builds on version "
                f"{error.args[0][2]}, which is not in the ledger any more; go back to another checkpoint of the thread"
            ) from None

    def _payloads(self, places: Sequence[Place]) -> dict[Place, Mapping[str, Any]]:
        if len(places) <= _ONE_BY_ONE_MAX:
            entries = [self.ledger.get(place.event_id) for place in places]
        else:
            wanted = {place.position for place in places}
            entries = [
                entry
                for entry in self.ledger.read(
                    correlation_id=self.correlation_id, after=min(wanted) - 1, until=max(wanted)
                )
                if entry.position in wanted
            ]
        found = {Place(entry.position, entry.event_id): entry for entry in entries}
        made = {}
        for place in places:
            entry = found.get(place)
            if entry is None or entry.erased:
                raise Corrupt(
                    f"the checkpoint data at position {place.position} of thread {self.thread_id!r} was erased; "
                    "go back to another checkpoint of the thread",
                    position=place.position,
                )
            made[place] = entry.value()
        return made


class Cache:
    """The value of each channel that was used last, as parts, within so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str, str], tuple[Version, Value, int]] = OrderedDict()

    def get(self, correlation_id: str, ns: str, channel: str, version: Version) -> Value | None:
        """The value of exactly that version."""
        with self._lock:
            held = self._held.get((correlation_id, ns, channel))
            if held is None or held[0] != version:
                return None
            self._held.move_to_end((correlation_id, ns, channel))
            return held[1]

    def put(self, correlation_id: str, ns: str, channel: str, version: Version, value: Value) -> None:
        """Hold the value of a version instead of the one before; what was not used for long gives way."""
        key, cost = (correlation_id, ns, channel), size(value)
        with self._lock:
            before = self._held.pop(key, None)
            self._bytes += cost - (before[2] if before else 0)
            self._held[key] = (version, value, cost)
            while self._bytes > self._bytes_max:
                self._bytes -= self._held.popitem(last=False)[1][2]


class Threads:
    """The threads that were used last, with their indexes."""

    def __init__(self, ledger: Any, *, threads_max: int = 256, bytes_max: int = 64 * 1024 * 1024) -> None:
        self.ledger = ledger
        self._cache = Cache(bytes_max)
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Thread] = OrderedDict()

    def of(self, thread_id: str) -> Thread:
        """The thread of that id, whether or not the ledger has it."""
        with self._lock:
            thread = self._known.get(thread_id) or Thread(self.ledger, thread_id, self._cache)
            self._known[thread_id] = thread
            self._known.move_to_end(thread_id)
            if len(self._known) > self._threads_max:
                self._known.popitem(last=False)
            return thread
