"""AG2 1.x: the history of a stream, built again from what was recorded of its runs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chatsnapshot.adapters.ag2.resuming.reading import Recorded, Step
from chatsnapshot.adapters.ag2.saving.lines import root_of
from chatsnapshot.adapters.ag2.saving.streamed import build
from chatsnapshot.adapters.ag2.streamed import kinds

__all__ = ["NOBODY_KNOWS", "History", "Question", "rebuild"]

_DRIVING = frozenset({"ModelRequest", "ModelResponse", "ToolResultsEvent"})
"""Events that a turn can go on from."""

NOBODY_KNOWS = (
    "The process that ran this tool was stopped before it gave a result, and it was not run again. "
    "Nobody knows whether it did its work."
)


@dataclass(frozen=True)
class Question:
    """A question to a person; ``answer`` is ``None`` while nobody has answered it."""

    question_id: str
    event_id: str
    question: str
    kind: str = "question"
    answer: str | None = None
    call: str | None = None
    """The event of the tool call that asked it."""


@dataclass
class History:
    """What a stream held, and where its last turn stopped.

    ``events`` ends with the response that asked for tools when ``batch`` is not empty; otherwise with the event that the
    turn goes on with, or with its last response.
    """

    events: list[Any] = field(default_factory=list)
    batch: list[Any] = field(default_factory=list)
    """The tool calls that the last response asked for."""
    results: dict[str, Any] = field(default_factory=dict)
    """Their recorded results, by call id."""
    calls: dict[str, str] = field(default_factory=dict)
    """Call id to the event of the call."""
    result_events: dict[str, str] = field(default_factory=dict)
    asked_by: str | None = None
    """The event of the response that asked for them."""
    questions: list[Question] = field(default_factory=list)
    """Those of the tool calls without a result."""
    variables: dict[str, Any] = field(default_factory=dict)
    loose: list[Any] = field(default_factory=list)
    """What followed the response: the calls and results one by one."""


class _Builder:
    def __init__(self, root: str) -> None:
        self.made = History()
        self._events = importlib.import_module(f"{root}.events")
        self.loose: list[Any] = []
        """Calls and results of the batch, which stand between its response and its container of results."""

    def take(self, step: Step, event: Any) -> None:
        names, made = kinds(event), self.made
        if "ToolResultsEvent" in names and self._ids().intersection(one.parent_id for one in event.results):
            for one in event.results:
                self._answer(one, step)
        elif "ModelRequest" in names or "ModelResponse" in names:
            self._settle()
            made.events.append(event)
            if "ModelResponse" in names and not event.response_force:
                made.batch = list(getattr(event.tool_calls, "calls", None) or ())
                made.asked_by = step.entry.event_id
        elif "ToolCallEvent" in names and event.id in self._ids():
            if event.id not in made.calls:
                self.loose.append(event)
            made.calls[event.id] = step.entry.event_id
        elif "ToolResultEvent" in names and event.parent_id in self._ids():
            self._answer(event, step)
        elif made.batch:
            self.loose.append(event)
        else:
            made.events.append(event)

    def killed(self) -> None:
        """What came of a model call that never ended is not kept."""
        while self.made.events and not _DRIVING.intersection(kinds(self.made.events[-1])):
            self.made.events.pop()

    def _ids(self) -> set[str]:
        return {call.id for call in self.made.batch}

    def _answer(self, result: Any, step: Step) -> None:
        if "ToolResultEvent" in kinds(result) and result.parent_id not in self.made.results:
            self.loose.append(result)
        self.made.results[result.parent_id] = result
        self.made.result_events[result.parent_id] = step.entry.event_id

    def _settle(self) -> None:
        """The turn went on: the batch is over, with whatever results it had."""
        made = self.made
        if made.batch:
            results = [
                made.results.get(call.id) or self._events.ToolResultEvent.from_call(call, NOBODY_KNOWS)
                for call in made.batch
            ]
            made.events += [
                self._events.ToolCallsEvent(list(made.batch)),
                *self.loose,
                self._events.ToolResultsEvent(results),
            ]
        self.loose = []
        made.batch, made.results, made.calls, made.result_events = [], {}, {}, {}


def rebuild(recorded: Recorded, agent: Any, trusted: Sequence[str], before: Sequence[Any]) -> History:
    """The history of a recorded conversation; ``before`` is what stood in it before its first recorded run."""
    builder = _Builder(root_of(agent))
    builder.made.events += before
    questions: dict[str, Question] = {}
    running = False
    for step in recorded.steps:
        payload = step.payload
        if step.starts and running:
            builder.killed()
        if step.starts or step.ends:
            running = step.starts
        _follow_variables(builder.made, step)
        if step.entry.event_type == "execution.human_input_requested":
            question = _question(step)
            questions[question.question_id] = question
            continue
        if step.entry.event_type == "execution.human_input_received":
            _answered(questions, payload)
        if step.native:
            for event in build([step.native], agent, trusted):
                builder.take(step, event)
    if not recorded.completed:
        builder.killed()
    made = builder.made
    made.loose = builder.loose
    open_events = {event for call_id, event in made.calls.items() if call_id not in made.results}
    made.questions = [question for question in questions.values() if question.call in open_events]
    return made


def _follow_variables(made: History, step: Step) -> None:
    variables = step.payload.get("variables")
    if step.starts:
        made.variables = dict(variables) if isinstance(variables, dict) else {}
    elif (step.ends or step.payload.get("name") == "variables") and isinstance(variables, dict):
        made.variables = dict(variables)


def _question(step: Step) -> Question:
    payload = step.payload
    return Question(
        str(payload.get("question_id") or step.entry.event_id),
        step.entry.event_id,
        str(payload.get("question") or ""),
        str(payload.get("kind") or "question"),
        call=step.entry.causation_id,
    )


def _answered(questions: dict[str, Question], payload: dict[str, Any]) -> None:
    known = questions.get(str(payload.get("answers")))
    if known is not None:
        questions[known.question_id] = Question(
            known.question_id,
            known.event_id,
            known.question,
            known.kind,
            str(payload.get("answer")),
            known.call,
        )
