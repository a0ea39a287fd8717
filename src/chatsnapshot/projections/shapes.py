"""The shapes that readers of the first views get: frozen, JSON-like, with units in their names.

Times are the 27 characters of the envelope (``None``: unknown); durations are nanoseconds (``None``: unknown);
``msgspec.to_builtins(view)`` gives plain values, ``msgspec.json.encode(view)`` JSON.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import msgspec

__all__ = [
    "Boundary",
    "Child",
    "Errors",
    "Execution",
    "Handoff",
    "Item",
    "Message",
    "Note",
    "Part",
    "Problem",
    "Question",
    "Run",
    "Runs",
    "Timeline",
    "TimelineItem",
    "ToolUse",
    "Transcript",
]


# --- runs ---------------------------------------------------------------------------------------------------------


class Errors(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often something failed inside a run, by kind; ``runs`` are failed runs below it."""

    tool: int = 0
    model: int = 0
    task: int = 0
    integration: int = 0
    other: int = 0
    runs: int = 0

    @property
    def total(self) -> int:
        """All of them together."""
        return self.tool + self.model + self.task + self.integration + self.other + self.runs


class Execution(msgspec.Struct, frozen=True):
    """One stretch of a run: from run_started or run_resumed to its end."""

    first_position: int
    last_position: int
    started_at: Optional[str]
    ended_at: Optional[str]
    duration_ns: Optional[int]
    status: str
    resumed: bool


class Run(msgspec.Struct, frozen=True):
    """One run and the runs below it.

    ``status``: ``unfinished`` (started, no end recorded), ``completed``, ``failed``, ``cancelled``, ``paused``, or
    ``unknown`` (seen only in part: no start and no end among what was read). ``kind``: ``run``, ``workflow``, or
    ``events`` (events of a correlation without any run). ``errors`` are this run's own, ``errors_below`` those of the
    runs below it. ``parent``: the cause of a child's first event; ``link`` says how it stands to it: ``root``,
    ``child``, ``dangling`` (the cause is not in the ledger) or ``cycle``.
    """

    run_id: str
    correlation_id: str
    kind: str
    status: str
    name: Optional[str]
    started_at: Optional[str]
    ended_at: Optional[str]
    duration_ns: Optional[int]
    first_at: str
    last_at: str
    first_position: int
    last_position: int
    events: int
    messages: int
    tool_calls: int
    model_calls: int
    questions_open: int
    errors: Errors
    errors_below: Errors
    error: Optional[str]
    reason: Optional[str]
    partial: bool
    agents: tuple[str, ...]
    participants: tuple[str, ...]
    runtimes: tuple[str, ...]
    tags: tuple[str, ...]
    executions: tuple[Execution, ...]
    link: str
    cause: Optional[str]
    cause_position: Optional[int]
    children: tuple[Run, ...] = ()


class Runs(msgspec.Struct, frozen=True):
    """The runs of one correlation, in the order in which they began, each with the runs below it."""

    correlation_id: str
    last_position: int
    runs: tuple[Run, ...]


# --- timeline -----------------------------------------------------------------------------------------------------


class TimelineItem(msgspec.Struct, frozen=True):
    """One entry on a timeline.

    ``offset_ns``: its time after the timeline's first entry (negative when it happened before, ``None`` when a time
    is unknown). ``span``: what it begins or ends (``run``, ``workflow``, ``task``, ``tool``, ``question``,
    ``integration``, ``model``), ``edge``: ``start``, ``end`` or ``whole`` (the entry is the whole span). ``partner``:
    the position of the other edge; without one, ``open`` is true for a start and ``unmatched`` for an end.
    ``duration_ns`` stands at both edges. ``depth``: 0 for the correlation asked for, 1 for its children.
    """

    position: int
    sequence: int
    correlation_id: str
    event_id: str
    event_type: str
    at: str
    offset_ns: Optional[int]
    what: str
    who: Optional[str]
    cause: Optional[str]
    cause_position: Optional[int]
    depth: int = 0
    span: Optional[str] = None
    edge: Optional[str] = None
    partner: Optional[int] = None
    duration_ns: Optional[int] = None
    open: bool = False
    unmatched: bool = False
    failed: bool = False
    erased: bool = False


class Timeline(msgspec.Struct, frozen=True):
    """The entries of one correlation (and of its children) in position order."""

    correlation_id: str
    last_position: int
    started_at: Optional[str]
    items: tuple[TimelineItem, ...]


# --- transcript ---------------------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message that is not plain text: ``type`` is its OpenTelemetry GenAI name (``blob``, ``uri``, …)."""

    type: str
    text: str
    value: Any = None


class _Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    position: int
    sequence: int
    at: str
    speaker: Optional[str] = None
    erased: bool = False


class Message(_Item, frozen=True, kw_only=True, tag="message"):
    """Something said. ``role``: ``user``, ``assistant``, ``system``, ``tool`` or what the payload says."""

    role: str
    text: str
    reasoning: Optional[str] = None
    parts: tuple[Part, ...] = ()
    to: Optional[str] = None


class ToolUse(_Item, frozen=True, kw_only=True, tag="tool"):
    """A tool call folded with its result.

    ``status``: ``open`` (no result recorded), ``ok``, ``failed``, or ``unmatched`` (a result whose call is not
    recorded). ``position`` is where it was first heard of, ``result_position`` where the result stands.
    """

    name: Optional[str]
    call_id: Optional[str]
    arguments: Any
    status: str
    result: Any = None
    error: Optional[str] = None
    result_position: Optional[int] = None
    duration_ns: Optional[int] = None
    matched_by: Optional[str] = None


class Question(_Item, frozen=True, kw_only=True, tag="question"):
    """A question to a person, folded with the answer; ``status`` as of a tool, ``ask``: question, approval, edit."""

    question_id: Optional[str]
    ask: str
    text: str
    status: str
    answer: Any = None
    decision: Optional[str] = None
    answered_by: Optional[str] = None
    answer_position: Optional[int] = None
    duration_ns: Optional[int] = None


class Boundary(_Item, frozen=True, kw_only=True, tag="boundary"):
    """A run or workflow began, paused, went on or ended (``event``: started, resumed, paused, completed, …)."""

    what: str
    run_id: str
    event: str
    name: Optional[str] = None
    error: Optional[str] = None


class Handoff(_Item, frozen=True, kw_only=True, tag="handoff"):
    """The work went from ``source`` to ``target``."""

    source: Optional[str]
    target: Optional[str]
    text: Optional[str] = None


class Problem(_Item, frozen=True, kw_only=True, tag="problem"):
    """Something failed that is not a tool: a model call, a task, the system."""

    what: str
    text: str


class Note(_Item, frozen=True, kw_only=True, tag="note"):
    """Anything else worth a line: an output, an artifact, a guardrail, something shown to a user."""

    what: str
    text: str


class Child(_Item, frozen=True, kw_only=True, tag="child"):
    """A child correlation, at the place of the event that led to it."""

    correlation_id: str
    cause_position: int
    transcript: Transcript


Item = Union[Message, ToolUse, Question, Boundary, Handoff, Problem, Note, Child]


class Transcript(msgspec.Struct, frozen=True):
    """What was said and done under one correlation, in position order."""

    correlation_id: str
    last_position: int
    name: Optional[str]
    items: tuple[Item, ...]
