"""Adds checkpoints to a thread: a channel's value is stored whole or as what changed, whichever is less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.langgraph.checkpoints.index import Index, Version
from chatsnapshot.adapters.langgraph.checkpoints.shapes import opened, saved, written
from chatsnapshot.adapters.langgraph.checkpoints.thread import Thread, Write
from chatsnapshot.adapters.langgraph.checkpoints.values import Value, changed, full
from chatsnapshot.clock import idempotent_uuid, uuid_text
from chatsnapshot.errors import Corrupt, EventConflict, NotFound

__all__ = ["add_checkpoint", "add_writes", "event_id_of", "stored_value"]

_DELTAS_MIN = 32


def event_id_of(correlation_id: str, ns: str, checkpoint_id: str) -> str:
    """The id of the event of a checkpoint, known before it is recorded: what its tasks write names it as the cause."""
    return uuid_text(idempotent_uuid(correlation_id, f"checkpoint {checkpoint_id} {ns}"))


def stored_value(
    channel: str, version: Version, value: Value | None, base: tuple[Version, Value, int] | None
) -> dict[str, Any]:
    """A channel's value as a payload holds it; ``base`` is what was stored of the channel before, and its deltas."""
    head: dict[str, Any] = {"channel": channel, "version": version}
    if value is None:
        return {**head, "kind": "empty", "parts": []}
    # What was added part by part is read part by part; only more deltas than that make a new whole.
    if base is not None and base[0] != version and base[2] < 2 * len(value.parts) + _DELTAS_MIN:
        delta = changed(value, base[1])
        if delta is not None:
            return {**head, "base": base[0], **delta}
    return {**head, **full(value)}


def add_checkpoint(
    thread: Thread, ns: str, facts: Mapping[str, Any], values: Mapping[str, tuple[Version, Value | None]]
) -> None:
    """Record a checkpoint; ``facts`` is the payload without ``values``, which are those of new versions."""
    index = thread.catch_up()
    bases: dict[str, tuple[Version, Value, int]] = {}
    for channel in values:
        base = _base(thread, index, ns, channel)
        if base is not None:
            bases[channel] = base
    rewrites = index.rewrites
    _record(thread, index, ns, facts, values, bases)
    if thread.catch_up().rewrites != rewrites:
        # Somebody pruned or deleted in this very moment, and what this builds on may be gone.
        _record(thread, index, ns, facts, values, {})
    for channel, (version, value) in values.items():
        if value is not None:
            thread.remember(ns, channel, version, value)


def _base(thread: Thread, index: Index, ns: str, channel: str) -> tuple[Version, Value, int] | None:
    version = index.latest.get((ns, channel))
    if version is None:
        return None
    at = index.values[ns, channel, version]
    try:
        value = thread.values(ns, {channel: version}).get(channel)
    except (Corrupt, NotFound):
        return None  # pruned in this moment: the new value is stored whole
    return None if value is None else (version, value, at.deltas + 1)


def _record(
    thread: Thread,
    index: Index,
    ns: str,
    facts: Mapping[str, Any],
    values: Mapping[str, tuple[Version, Value | None]],
    bases: Mapping[str, tuple[Version, Value, int]],
) -> None:
    stored = [
        stored_value(channel, version, value, bases.get(channel))
        for channel, (version, value) in values.items()
    ]
    parent = facts.get("parent")
    cause = None if parent is None else event_id_of(thread.correlation_id, ns, parent)
    event = saved(thread.correlation_id, {**facts, "ns": ns, "values": stored}, cause)
    events = [{**event, "event_id": event_id_of(thread.correlation_id, ns, facts["id"])}]
    if index.thread_id is None:
        events.insert(0, opened(thread.correlation_id, thread.thread_id))
    before = index.position
    try:
        position = thread.record(events)[-1].position
    except EventConflict:
        position = 0
    if position is not None and position <= before:
        # Saved before under this id, perhaps deleted since: it is another save.
        thread.record([event])


def add_writes(thread: Thread, ns: str, checkpoint_id: str, writes: list[Write]) -> None:
    """Record what one task wrote after a checkpoint, which may still be under way; nothing when there is nothing."""
    if not writes:
        return
    first = writes[0]
    event = written(
        thread.correlation_id,
        ns,
        checkpoint_id,
        first.task_id,
        first.task_path,
        [(write.number, write.channel, *write.part) for write in writes],
        event_id_of(thread.correlation_id, ns, checkpoint_id),
    )
    unopened = thread.index.thread_id is None
    thread.record([opened(thread.correlation_id, thread.thread_id), event] if unopened else [event])
