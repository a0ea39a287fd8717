"""What of a thread is kept: survivors are recorded anew, the rest is superseded and its payloads are erased."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from chatsnapshot.adapters.langgraph.checkpoints.adding import event_id_of, stored_value
from chatsnapshot.adapters.langgraph.checkpoints.index import Index, SavedAt, Version
from chatsnapshot.adapters.langgraph.checkpoints.shapes import (
    OPENED,
    REWRITTEN,
    SAVED,
    WRITES,
    event,
    opened,
    saved,
    written,
)
from chatsnapshot.adapters.langgraph.checkpoints.thread import Loaded, Thread, Threads
from chatsnapshot.adapters.langgraph.checkpoints.values import Value
from chatsnapshot.errors import SequenceConflict, StoreUnavailable

__all__ = ["Kept", "ThreadState", "copy", "delete", "every", "keep", "newest", "state_of", "threads_in"]

_BATCH_EVENTS = 500
_BATCH_BYTES = 8 * 1024 * 1024
_ERASED_AT_ONCE = 5_000
_TRIES = 20

Keeps = Callable[[str, str, SavedAt], bool]
"""Whether a checkpoint stays: namespace, id, what is known of it."""


class Kept(NamedTuple):
    """What became of a thread."""

    kept: int
    removed: int
    erased: int
    """Entries whose payloads were erased."""


class ThreadState(msgspec.Struct, frozen=True):
    """A thread as it is listed; times are RFC 3339, of recording."""

    thread_id: str
    correlation_id: str
    checkpoints: int
    namespaces: int
    last_checkpoint_id: str | None
    last_at: str | None


def threads_in(ledger: Any) -> list[str]:
    """The ids of all threads that were ever opened, in that order."""
    return [entry.payload["thread_id"] for entry in ledger.read(event_type=OPENED)]


def state_of(thread: Thread) -> ThreadState:
    """What a list of threads says of this one."""
    index = thread.catch_up()
    every = [one for saves in index.checkpoints.values() for one in saves.values()]
    last = max(every, key=lambda one: one.place.position, default=None)
    return ThreadState(
        thread.thread_id,
        thread.correlation_id,
        len(every),
        len(index.checkpoints),
        index.newest("") or next((index.newest(ns) for ns in index.checkpoints), None),
        last.at if last else None,
    )


def newest(index: Index, count: int) -> Keeps:
    """Keep the newest checkpoints of every namespace, so many."""
    kept = {
        (ns, checkpoint_id)
        for ns, saves in index.checkpoints.items()
        for checkpoint_id in sorted(saves, reverse=True)[:count]
    }
    return lambda ns, checkpoint_id, _: (ns, checkpoint_id) in kept


def keep(thread: Thread, choose: Callable[[Index], Keeps], reason: str) -> Kept:
    """Keep the checkpoints that are chosen, with what they need; let go of all others.

    What is kept is recorded anew and whole first, so that a kill at any moment leaves a thread that reads as before or
    as after. Then the payloads of everything older are erased, as ``ledger.erase`` does it.
    """
    for _ in range(_TRIES):
        index = thread.catch_up()
        known = {(ns, name): one for ns, saves in index.checkpoints.items() for name, one in saves.items()}
        chosen = choose(index)
        kept = {key for key, one in known.items() if chosen(*key, one)}
        kept |= _needed(thread, kept)
        if len(kept) == len(known) and (kept or not index.writes):
            return Kept(len(kept), 0, _erase(thread, index, reason))
        try:
            _rewrite(
                thread, index, kept, {"reason": reason, "kept": len(kept), "removed": len(known) - len(kept)}
            )
        except SequenceConflict:
            continue  # somebody added to the thread meanwhile
        return Kept(len(kept), len(known) - len(kept), _erase(thread, thread.catch_up(), reason))
    raise StoreUnavailable(
        f"thread {thread.thread_id!r} was added to each time it was about to be pruned; try again when no run "
        "goes on in it"
    )


def delete(thread: Thread) -> Kept:
    """Let go of everything in a thread."""
    if not thread.catch_up().checkpoints and not thread.index.writes:
        return Kept(0, 0, _erase(thread, thread.index, "thread deleted"))
    return keep(thread, lambda _: lambda *_: False, "thread deleted")


def copy(source: Thread, target: Thread) -> int:
    """Record all checkpoints of a thread in another one; gives how many there are."""
    index = source.catch_up()
    if not index.checkpoints:
        return 0
    events = () if target.catch_up().thread_id else (opened(target.correlation_id, target.thread_id),)
    for batch in _batches(chain(events, _copied(source, target.correlation_id))):
        target.record(batch)
    return sum(map(len, index.checkpoints.values()))


# --- the parts of it --------------------------------------------------------------------------------------


def _needed(thread: Thread, kept: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Checkpoints from whose writes the value of a kept one follows (``DeltaChannel``), back to where it is stored."""
    index, needed = thread.index, set()
    for ns, checkpoint_id in kept:
        at = index.checkpoints[ns][checkpoint_id]
        missing = set(at.unstored)
        while missing and at.parent is not None:
            parent = index.checkpoints.get(ns, {}).get(at.parent)
            if parent is None:
                break
            needed.add((ns, at.parent))
            versions = thread.payload(parent)["versions"]
            for channel in list(missing):
                stored = index.values.get((ns, channel, versions.get(channel)))
                if stored is not None and not stored.empty:
                    missing.discard(channel)
            at = parent
    return needed


def _events(thread: Thread, keys: Iterable[tuple[str, str]], correlation_id: str) -> Iterable[dict[str, Any]]:
    """The events that say it all anew, oldest checkpoint first: the first whole, the others by what changed."""
    index = thread.index
    last: dict[tuple[str, str], tuple[Version, Value, int]] = {}
    told: set[tuple[str, str, Version]] = set()
    for ns, checkpoint_id in sorted(keys):
        found = thread.load(ns, checkpoint_id)
        if found is None:
            continue
        payload, stored = dict(found.payload), []
        for channel, version in payload["versions"].items():
            key = (ns, channel, version)
            if key in told or key not in index.values:
                continue
            told.add(key)
            value = found.values.get(channel)
            before = last.get((ns, channel))
            stored.append(stored_value(channel, version, value, before))
            if value is not None:
                last[ns, channel] = (version, value, before[2] + 1 if before else 1)
        payload["values"] = stored
        parent = payload.get("parent")
        cause = None if parent is None else event_id_of(correlation_id, ns, parent)
        yield saved(correlation_id, payload, cause)
        yield from _writes(found, correlation_id)


def _writes(found: Loaded, correlation_id: str) -> Iterable[dict[str, Any]]:
    by_task: dict[tuple[str, str], list[tuple[int, str, str, bytes]]] = {}
    for write in found.writes:
        by_task.setdefault((write.task_id, write.task_path), []).append(
            (write.number, write.channel, *write.part)
        )
    cause = event_id_of(correlation_id, found.ns, found.checkpoint_id)
    for (task_id, task_path), writes in by_task.items():
        yield written(correlation_id, found.ns, found.checkpoint_id, task_id, task_path, writes, cause)


def _copied(source: Thread, correlation_id: str) -> Iterator[dict[str, Any]]:
    """What counts of a thread, as it is, for another correlation."""
    entries = source.ledger.read(
        correlation_id=source.correlation_id,
        event_type=[SAVED, WRITES],
        after=source.index.superseded_to,
        until=source.index.position,
    )
    for entry in entries:
        if entry.erased:
            continue
        payload = entry.value()
        if entry.event_type == SAVED:
            parent = payload.get("parent")
            cause = None if parent is None else event_id_of(correlation_id, payload["ns"], parent)
            yield saved(correlation_id, payload, cause)
        else:
            cause = event_id_of(correlation_id, payload["ns"], payload["id"])
            writes = [tuple(write) for write in payload["writes"]]
            yield written(
                correlation_id,
                payload["ns"],
                payload["id"],
                payload["task_id"],
                payload["task_path"],
                writes,
                cause,
            )


def _rewrite(thread: Thread, index: Index, kept: set[tuple[str, str]], facts: Mapping[str, Any]) -> None:
    """Record the survivors and, last, that everything before them counts no more; nothing may come in between."""
    end = index.position
    sequence = index.sequence
    marker = event(
        REWRITTEN,
        thread.correlation_id,
        {"thread_id": thread.thread_id, "superseded_to": end, **facts},
    )
    for batch in _batches([*_events(thread, kept, thread.correlation_id), marker]):
        thread.record(batch, expected_sequence=sequence)
        sequence += len(batch)


def _erase(thread: Thread, index: Index, reason: str) -> int:
    """Erase the payloads of what counts no more; also what an earlier call was killed before."""
    if not index.superseded_to:
        return 0
    positions = [
        entry.position
        for entry in thread.ledger.read(
            correlation_id=thread.correlation_id, event_type=[SAVED, WRITES], until=index.superseded_to
        )
        if not entry.erased
    ]
    for first in range(0, len(positions), _ERASED_AT_ONCE):
        thread.ledger.erase(
            positions[first : first + _ERASED_AT_ONCE], reason=f"LangGraph checkpoints: {reason}"
        )
    return len(positions)


def _batches(events: Iterable[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Batches that a ledger takes at once."""
    batch: list[dict[str, Any]] = []
    held = 0
    for one in events:
        batch.append(one)
        held += _bytes(one["payload"])
        if len(batch) >= _BATCH_EVENTS or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _bytes(value: Any) -> int:
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, (list, tuple)) else 8


def every(ledger: Any) -> list[Thread]:
    """All threads of a ledger."""
    threads = Threads(ledger)
    return [threads.of(thread_id) for thread_id in threads_in(ledger)]
