"""The shapes that readers of the first views get: frozen, JSON-like, with units in their names.

Times are the 27 characters of the envelope (``None``: unknown); durations are nanoseconds (``None``: unknown);
``msgspec.to_builtins(view)`` gives plain values, ``msgspec.json.encode(view)`` JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Boundary",
    "Child",
    "Errors",
    "Evaluation",
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

    def __add__(self, more: Errors) -> Errors:
        return Errors(
            self.tool + more.tool,
            self.model + more.model,
            self.task + more.task,
            self.integration + more.integration,
            self.other + more.other,
            self.runs + more.runs,
        )


class Execution(msgspec.Struct, frozen=True, gc=False):
    """One stretch of a run: from run_started or run_resumed to its end."""

    first_position: int
    last_position: int
    started_at: str | None
    ended_at: str | None
    duration_ns: int | None
    status: str
    resumed: bool


class Evaluation(msgspec.Struct, frozen=True, gc=False):
    """One judgement of a run, or of an event in it (``target_event_id``), as recorded at ``position``."""

    position: int
    name: str
    score: int | float | None
    label: str | None
    evaluator: str | None
    kind: str | None
    comment: str | None
    target_event_id: str | None


class Run(msgspec.Struct, frozen=True, gc=False):
    """One run and the runs below it.

    ``status``: ``unfinished`` (started, no end recorded), ``completed``, ``failed``, ``cancelled``, ``paused``, or
    ``unknown`` (seen only in part: no start and no end among what was read). ``kind``: ``run``, ``workflow``, or
    ``events`` (events of a correlation without any run). ``errors`` are this run's own, ``errors_below`` those of the
    runs below it. ``partial``: its start was not seen. ``duration_ns`` is the sum of its executions (the time in which
    it was paused is not in it). ``first_at`` and ``last_at`` are the times of the first and last event seen;
    ``evaluations`` are in order of position.

    ``cause`` is the cause of the correlation's first event, ``link`` what follows from it: ``root`` (no cause in another
    correlation), ``child`` (of another correlation's event, which stands at ``cause_position``, or of a run of the same
    correlation), ``dangling`` (the cause is not in the ledger) or ``cycle`` (its cause stands below itself).
    """

    run_id: str
    correlation_id: str
    kind: str
    status: str
    name: str | None
    started_at: str | None
    ended_at: str | None
    duration_ns: int | None
    first_at: str | None
    last_at: str | None
    first_position: int
    last_position: int
    events: int
    messages: int
    tool_calls: int
    model_calls: int
    questions_open: int
    errors: Errors
    errors_below: Errors
    error: str | None
    reason: str | None
    partial: bool
    agents: tuple[str, ...]
    participants: tuple[str, ...]
    runtimes: tuple[str, ...]
    tags: tuple[str, ...]
    executions: tuple[Execution, ...]
    evaluations: tuple[Evaluation, ...]
    link: str
    cause: str | None
    cause_position: int | None
    children: tuple[Run, ...] = ()


class Runs(msgspec.Struct, frozen=True):
    """The runs of one correlation, in the order in which they began, each with the runs below it."""

    correlation_id: str
    last_position: int
    runs: tuple[Run, ...]


# --- timeline -----------------------------------------------------------------------------------------------------


class TimelineItem(msgspec.Struct, frozen=True, gc=False):
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
    at: str | None
    offset_ns: int | None
    what: str
    who: str | None
    origin: str
    cause: str | None
    cause_position: int | None
    depth: int = 0
    span: str | None = None
    edge: str | None = None
    partner: int | None = None
    duration_ns: int | None = None
    open: bool = False
    unmatched: bool = False
    failed: bool = False
    erased: bool = False


class Timeline(msgspec.Struct, frozen=True):
    """The entries of one correlation (and of its children) in position order."""

    correlation_id: str
    last_position: int
    started_at: str | None
    items: tuple[TimelineItem, ...]


# --- transcript ---------------------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of a message that is not plain text: ``type`` is its OpenTelemetry GenAI name (``blob``, ``uri``, …)."""

    type: str
    text: str
    value: Any = None


class _Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", gc=False):
    position: int
    sequence: int
    at: str | None
    speaker: str | None = None
    erased: bool = False


class Message(_Item, frozen=True, kw_only=True, tag="message"):
    """Something said. ``role``: ``user``, ``assistant``, ``system``, ``tool`` or what the payload says."""

    role: str
    text: str
    reasoning: str | None = None
    parts: tuple[Part, ...] = ()
    to: str | None = None


class ToolUse(_Item, frozen=True, kw_only=True, tag="tool"):
    """A tool call folded with its result.

    ``status``: ``open`` (no result recorded), ``ok``, ``failed``, or ``unmatched`` (a result whose call is not
    recorded). Each position is where one fact stands, ``None`` where it is not recorded: a message asks for the tool
    (``asked_position``), it is called (``call_position``), it answers (``result_position``), a message tells the
    answer to the model (``told_position``). ``position`` is the first of them that was recorded. ``duration_ns`` is
    from call to answer; ``matched_by`` says how the answer was found: ``id``, ``cause`` or ``name``.
    """

    name: str | None
    call_id: str | None
    arguments: Any
    status: str = "open"
    result: Any = None
    error: str | None = None
    asked_position: int | None = None
    call_position: int | None = None
    result_position: int | None = None
    told_position: int | None = None
    called_at: str | None = None
    answered_at: str | None = None
    duration_ns: int | None = None
    matched_by: str | None = None


class Question(_Item, frozen=True, kw_only=True, tag="question"):
    """A question to a person, folded with the answer; ``status`` as of a tool, ``ask``: question, approval, edit."""

    question_id: str | None
    ask: str
    text: str
    status: str
    answer: Any = None
    decision: str | None = None
    answered_by: str | None = None
    answer_position: int | None = None
    duration_ns: int | None = None


class Boundary(_Item, frozen=True, kw_only=True, tag="boundary"):
    """A run or workflow began, paused, went on or ended (``event``: started, resumed, paused, completed, …)."""

    what: str
    run_id: str
    event: str
    name: str | None = None
    error: str | None = None


class Handoff(_Item, frozen=True, kw_only=True, tag="handoff"):
    """The work went from ``source`` to ``target``."""

    source: str | None
    target: str | None
    text: str | None = None


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


Item = Message | ToolUse | Question | Boundary | Handoff | Problem | Note | Child


class Transcript(msgspec.Struct, frozen=True):
    """What was said and done under one correlation, in position order; ``name`` is that of its first run.

    ``last_position`` is the last one read, also when it says nothing that belongs in a transcript.
    """

    correlation_id: str
    first_position: int
    last_position: int
    name: str | None
    items: tuple[Item, ...]
