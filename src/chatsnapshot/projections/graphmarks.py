"""What an event says that ties it to others: its causes, shared ids, its task, where its run was forked from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_bytes, uuid_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.fields import ident, whole
from chatsnapshot.events.normaliser import Task, call_id_of
from chatsnapshot.events.readers import READERS
from chatsnapshot.projections.once import Once

__all__ = ["ENDED", "STARTED", "Mark", "NodeState", "TaskMark", "mark"]

ENDED = 3
STARTED = 2
_STAGES = {
    "scheduled": 0,
    "retried": 1,
    "started": STARTED,
    "completed": ENDED,
    "failed": ENDED,
    "cancelled": ENDED,
}
_TASK = "system.task_"


class Mark(msgspec.Struct, array_like=True, gc=False):
    """A part in something that several events share: which kind of id, which part (from 0 on), the id."""

    via: str
    part: int
    id: str


class TaskMark(msgspec.Struct, array_like=True, gc=False):
    """What an event says about its task; ``stage`` orders the events of one attempt."""

    key: str
    stage: int
    status: str
    name: str | None
    attempt: int | None
    depends_on: tuple[str, ...]
    parent: str | None
    error: str | None


class NodeState(msgspec.Struct, array_like=True, gc=False):
    """One event as the graph keeps it."""

    position: int
    sequence: int
    event_id: str
    event_type: str
    at: str | None
    what: str
    who: str | None
    erased: bool
    cause: str | None
    links: list[str] = []
    marks: list[Mark] = []
    task: TaskMark | None = None
    forked_from: tuple[str, int] | None = None


def mark(once: Once) -> NodeState:
    """The node of an entry."""
    event_type = once.event_type
    node = NodeState(
        position=once.position,
        sequence=once.sequence,
        event_id=once.event_id,
        event_type=event_type,
        at=once.at,
        what=once.what,
        who=once.who,
        erased=once.erased,
        cause=once.causation_id,
    )
    if once.entry.attributes_json is not None:
        node.links = _links(once.entry)
    if event_type == "execution.run_started":
        node.forked_from = _forked_from(once.payload)
    elif event_type.startswith(_TASK):
        if event_type in READERS:
            node.task = _task(event_type.removeprefix(_TASK), once.facts)
    else:
        node.marks = _marks(once)
    return node


def _links(entry: LedgerEntry) -> list[str]:
    """Further causes; the same one counts once, the cause itself and what is no id not at all."""
    if entry.attributes_json is None:
        return []
    try:
        named = entry.attributes.get("links")
    except (msgspec.DecodeError, AttributeError):
        return []
    found: dict[str, None] = {}
    for value in [named] if isinstance(named, str) else named if isinstance(named, list) else ():
        try:
            found[uuid_text(uuid_bytes(value))] = None
        except InvalidEvent:
            continue
    found.pop(entry.causation_id or "", None)
    return list(found)


def _marks(once: Once) -> list[Mark]:
    event_type, payload = once.event_type, once.payload
    if event_type == "execution.message":
        said = once.facts
        if len(said) == 1 and not said[0].calls and not said[0].results:
            return []
        asked = [Mark("call_id", 0, call.call_id) for one in said for call in one.calls if call.call_id]
        told = [
            Mark("call_id", 3, result.call_id) for one in said for result in one.results if result.call_id
        ]
        return asked + told
    via, part, names = "call_id", 1, None
    if event_type == "execution.tool_call":
        names = call_id_of(payload)
    elif event_type == "execution.tool_result":
        part, names = 2, once.facts.call_id
    elif event_type == "execution.human_input_requested":
        via, part, names = "question_id", 0, once.facts.question_id
    elif event_type == "execution.human_input_received":
        via, names = "question_id", once.facts.answers
    elif event_type == "integration.call":
        via, part, names = "request_id", 0, once.facts.call_id
    elif event_type == "integration.response":
        via, names = "request_id", once.facts.call_id
    else:
        return []
    ids = [] if names is None else [names]
    if event_type in ("execution.tool_call", "execution.human_input_requested", "integration.call"):
        ids.append(once.event_id)  # an answer may name the event itself
    return [Mark(via, part, one) for one in dict.fromkeys(ids)]


def _task(status: str, task: Task) -> TaskMark | None:
    key = task.task_id or task.name
    if key is None or status not in _STAGES:
        return None
    return TaskMark(
        key,
        _STAGES[status],
        status,
        task.name,
        task.attempt,
        tuple(dict.fromkeys(task.depends_on)),
        task.parent_task_id,
        task.error,
    )


def _forked_from(payload: Mapping[str, Any]) -> tuple[str, int] | None:
    said = payload.get("forked_from")
    if not isinstance(said, Mapping):
        return None
    correlation, position = ident(said.get("correlation_id")), whole(said.get("position"))
    return None if correlation is None or position is None else (correlation, position)
