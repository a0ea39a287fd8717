"""The ``transcript`` projection: what was said and done under one correlation, tools folded with their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import placeholder, text_of
from chatsnapshot.events.messages import Said, looks_like_message, read_messages
from chatsnapshot.events.normaliser import (
    RunFacts,
    read_answer,
    read_call,
    read_problem,
    read_question,
    read_result,
)
from chatsnapshot.projections import tools
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, children_of, take_late, upwards
from chatsnapshot.projections.lines import Told
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.shapes import (
    Boundary,
    Handoff,
    Message,
    Note,
    Part,
    Problem,
    Question,
    Transcript,
)
from chatsnapshot.projections.times import duration
from chatsnapshot.projections.transcriptstate import TranscriptState, shape_transcript

__all__ = ["TranscriptProjection"]

Rule = Callable[[TranscriptState, Once], None]


@register
class TranscriptProjection:
    """Key: the correlation. State changes, task starts and other steps are left to the timeline."""

    name = "transcript"
    version = 5
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> TranscriptState:
        """Nothing said."""
        return TranscriptState()

    def apply(self, state: TranscriptState, entry: LedgerEntry) -> TranscriptState:
        """Add what the entry says, or fold it into an item that is there."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: TranscriptState, once: Once) -> TranscriptState:
        """As :meth:`apply`."""
        if not state.correlation_id:
            state.correlation_id = once.correlation_id
            state.first_position = once.position
            state.first_at = once.entry.timestamp
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        state.last_position = once.position
        rule = _RULES.get(once.event_type)
        if rule is not None:
            rule(state, once)
        elif looks_like_message(once.payload):
            _messages(state, once, read_messages(once.payload))
        return state

    def result(self, state: TranscriptState) -> Transcript:
        """The transcript of this correlation alone."""
        return shape_transcript(state)

    def start(self, state: TranscriptState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause, state.late)

    def compose(
        self, states: Mapping[str, TranscriptState], links: Mapping[str, Link], correlation_id: str
    ) -> Transcript:
        """The transcript of a correlation with those of its children at the places of their causes."""
        below = children_of(links)
        made: dict[str, Transcript] = {}
        for one in upwards(links):
            children = {
                child: (links[child].position or 0, states[child].first_at, made[child])
                for child in below.get(one, ())
            }
            made[one] = shape_transcript(states[one], children)
        return made[correlation_id]


def _common(once: Once, speaker: str | None) -> dict[str, Any]:
    return {
        "position": once.position,
        "sequence": once.sequence,
        "at": once.at,
        "speaker": speaker,
        "erased": once.erased,
    }


def _message(state: TranscriptState, once: Once) -> None:
    _messages(state, once, once.facts)


def _messages(state: TranscriptState, once: Once, messages: Sequence[Said]) -> None:
    there = placeholder(once.payload)
    if there is not None:
        common = _common(once, once.source.name)
        state.items.append(Message(**common, role=_role(None, once), text=there))
        return
    for said in messages:
        speaker = said.name or once.who
        if not said.empty or not (said.calls or said.results):
            _say(state, once, said, speaker)
        for call in said.calls:
            tools.asked(state.tools, state.items, once, call, speaker)
        for result in said.results:
            named = (
                result if result.name or result.call_id else msgspec.structs.replace(result, name=said.name)
            )
            tools.told(state.tools, state.items, once, named)


def _say(state: TranscriptState, once: Once, said: Said, speaker: str | None) -> None:
    items = state.items
    last = items[-1] if items else None
    if isinstance(last, Note) and last.what == "input" and last.text == said.text:
        # The same words arrived as input just before: the message is enough.
        items.pop()
        state.carried[last.position] = len(items)
    items.append(
        Message(
            position=once.position,
            sequence=once.sequence,
            at=once.at,
            speaker=speaker,
            erased=once.erased,
            role=_role(said.role, once),
            text=said.text,
            reasoning=said.reasoning,
            parts=tuple([Part(part.type, part.text, part.value) for part in said.media]),
            to=said.to,
        )
    )


def _role(role: str | None, once: Once) -> str:
    """The role that the payload gives, else what the origin suggests."""
    return role or {"agent": "assistant", "ui": "user"}.get(once.source.origin, "unknown")


def _tool_call(state: TranscriptState, once: Once) -> None:
    call = read_call({}) if once.erased else once.facts
    if not tools.called(state.tools, state.items, once, call, once.who):
        _carry(state, once)


def _tool_result(state: TranscriptState, once: Once) -> None:
    result = read_result({}) if once.erased else once.facts
    if not tools.resulted(state.tools, state.items, once, result):
        _carry(state, once)


def _carry(state: TranscriptState, once: Once) -> None:
    state.carried[once.position] = tools.at(state.tools.by_event, once.event_id)[-1]


def _asked(state: TranscriptState, once: Once) -> None:
    asked = read_question({}) if once.erased else once.facts
    number = len(state.items)
    question = Question(
        **_common(once, once.who),
        question_id=asked.question_id,
        ask=asked.kind,
        text=asked.text or (placeholder(once.payload) or ""),
        status="open",
    )
    if state.questions is None:
        state.questions = Pairs()
    match = state.questions.start(Edge(number, asked.question_id, None, once.event_id, once.causation_id))
    if match is None:
        state.items.append(question)
        return
    early = state.items[match[0].index]
    assert isinstance(early, Question)
    state.items[match[0].index] = msgspec.structs.replace(
        early,
        question_id=asked.question_id,
        ask=asked.kind,
        text=question.text,
        speaker=question.speaker,
        status="answered",
        duration_ns=None,
    )
    state.carried[once.position] = match[0].index


def _answered(state: TranscriptState, once: Once) -> None:
    answer = read_answer({}) if once.erased else once.facts
    number = len(state.items)
    value = placeholder(once.payload) or answer.value
    edge = Edge(number, answer.answers, None, once.event_id, once.causation_id)
    if state.questions is None:
        state.questions = Pairs()
    match = state.questions.end(edge, lone=True)
    if match is None:
        state.items.append(
            Question(
                **_common(once, None),
                question_id=answer.answers,
                ask="question",
                text="",
                status="unmatched",
                answer=value,
                decision=answer.decision,
                answered_by=once.who,
                answer_position=once.position,
            )
        )
        return
    number = match[0].index
    asked = state.items[number]
    assert isinstance(asked, Question)
    state.items[number] = msgspec.structs.replace(
        asked,
        status="answered",
        answer=value,
        decision=answer.decision,
        answered_by=once.who,
        answer_position=once.position,
        duration_ns=duration(asked.at, once.at),
    )
    state.carried[once.position] = number


def _boundary(what: str, event: str) -> Rule:
    def apply(state: TranscriptState, once: Once) -> None:
        run: RunFacts = once.facts
        run_id = run.run_id or once.correlation_id
        name = run.name
        if event in ("started", "resumed"):
            if event == "started":
                if what == "run" and not any(key.startswith("run:") for key in state.open_runs):
                    tools.new_run(state.tools)
                state.name = state.name or run.name
            state.open_runs[f"{what}:{run_id}"] = name
        else:
            # An end that names no run ends the one run that is open.
            key = f"{what}:{run_id}"
            if run.run_id is None and key not in state.open_runs:
                key = next((one for one in reversed(state.open_runs) if one.startswith(what)), key)
                run_id = key.partition(":")[2]
            name = state.open_runs.pop(key, None) or name
        state.items.append(
            Boundary(
                **_common(once, once.source.name),
                what=what,
                run_id=run_id,
                event=event,
                name=name,
                error=run.error or run.reason,
            )
        )

    return apply


def _handoff(state: TranscriptState, once: Once) -> None:
    given = once.facts
    text = given.text or placeholder(once.payload)
    state.items.append(
        Handoff(**_common(once, once.who), source=given.source, target=given.target, text=text)
    )


def _problem(what: str, text: Callable[[Once], str | None]) -> Rule:
    def apply(state: TranscriptState, once: Once) -> None:
        found = placeholder(once.payload) or text(once)
        if found is not None:
            state.items.append(Problem(**_common(once, once.who), what=what, text=found))

    return apply


def _failed_task(once: Once) -> str:
    task = once.facts
    return ": ".join(filter(None, (task.name or task.task_id, task.error))) or read_problem(once.payload)


def _failed_service(once: Once) -> str | None:
    service = once.facts
    return None if service.error is None else ": ".join(filter(None, (service.name, service.error)))


def _failed_model(once: Once) -> str | None:
    call = once.facts
    return None if call.error is None else ": ".join(filter(None, (call.model, call.error)))


def _error(once: Once) -> str:
    return str(once.facts)


def _note(what: str) -> Rule:
    def apply(state: TranscriptState, once: Once) -> None:
        state.items.append(Note(**_common(once, once.who), what=what, text=_told(once)))

    return apply


def _spoken(state: TranscriptState, once: Once) -> None:
    """Something that a user gave or saw; where a message beside it says the same, the message is enough."""
    text = _told(once)
    last = state.items[-1] if state.items else None
    if isinstance(last, Message) and last.text == text:
        state.carried[once.position] = len(state.items) - 1
        return
    what = "input" if once.event_type == "ui.input_received" else "shown"
    state.items.append(Note(**_common(once, once.who), what=what, text=text))


def _told(once: Once) -> str:
    """What the reader makes of it, else the whole payload."""
    told: Told = once.facts
    return told.text or (text_of(once.payload) if once.payload else "")


_RULES: dict[str, Rule] = {
    "execution.message": _message,
    "execution.tool_call": _tool_call,
    "execution.tool_result": _tool_result,
    "execution.human_input_requested": _asked,
    "execution.human_input_received": _answered,
    "execution.handoff": _handoff,
    "execution.output": _note("output"),
    "execution.artifact": _note("artifact"),
    "execution.guardrail": _note("guardrail"),
    "execution.model_call": _problem("model call", _failed_model),
    "integration.response": _problem("integration", _failed_service),
    "system.task_failed": _problem("task", _failed_task),
    "system.error": _problem("error", _error),
    "system.limit_reached": _problem("limit", _told),
    "ui.input_received": _spoken,
    "ui.output_displayed": _spoken,
    **{event_type: _boundary("run", event_type.partition("run_")[2]) for event_type in RUN_STARTS},
    **{event_type: _boundary("run", status) for event_type, status in RUN_ENDS.items()},
    **{
        event_type: _boundary("workflow", event_type.partition("workflow_")[2])
        for event_type in WORKFLOW_STARTS
    },
    **{event_type: _boundary("workflow", status) for event_type, status in WORKFLOW_ENDS.items()},
}
