"""The ``transcript`` projection: what was said and done under one correlation, tools folded with their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events import facts
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import payload_of, placeholder, text_of
from chatsnapshot.events.messages import Said, looks_like_message, read_messages
from chatsnapshot.events.normaliser import (
    read_answer,
    read_call,
    read_handoff,
    read_model_call,
    read_problem,
    read_question,
    read_result,
    read_run,
    read_service,
    read_task,
)
from chatsnapshot.projections import tools
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, children_of, upwards
from chatsnapshot.projections.lines import Told, who
from chatsnapshot.projections.pairing import Edge
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
from chatsnapshot.projections.times import duration, happened
from chatsnapshot.projections.transcriptstate import TranscriptState, shape_transcript

__all__ = ["TranscriptProjection"]

Payload = Mapping[str, Any]


@register
class TranscriptProjection:
    """Key: the correlation. State changes, task starts and other steps are left to the timeline."""

    name = "transcript"
    version = 2
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> TranscriptState:
        """Nothing said."""
        return TranscriptState()

    def apply(self, state: TranscriptState, entry: LedgerEntry) -> TranscriptState:
        """Add what the entry says, or fold it into an item that is there."""
        if not state.correlation_id:
            state.correlation_id = entry.correlation_id
            state.first_position = entry.position
            state.first_at = entry.timestamp
            state.cause = entry.causation_id if entry.sequence == 1 else None
        state.last_position = entry.position
        payload = payload_of(entry)
        rule = _RULES.get(entry.event_type)
        if rule is not None:
            rule(state, entry, payload)
        elif looks_like_message(payload):
            _message(state, entry, payload)
        return state

    def result(self, state: TranscriptState) -> Transcript:
        """The transcript of this correlation alone."""
        return shape_transcript(state)

    def start(self, state: TranscriptState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause)

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


def _common(entry: LedgerEntry, speaker: str | None) -> dict[str, Any]:
    return {
        "position": entry.position,
        "sequence": entry.sequence,
        "at": happened(entry),
        "speaker": speaker,
        "erased": entry.erased,
    }


def _message(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    there = placeholder(payload)
    if there is not None:
        common = _common(entry, entry.source.name)
        state.items.append(Message(**common, role=_role(None, entry), text=there))
        return
    for said in read_messages(payload):
        speaker = said.name or who(entry, payload)
        if not said.empty or not (said.calls or said.results):
            _say(state, entry, said, speaker)
        for call in said.calls:
            tools.asked(state.tools, state.items, entry, call, speaker)
        for result in said.results:
            named = (
                result if result.name or result.call_id else msgspec.structs.replace(result, name=said.name)
            )
            tools.told(state.tools, state.items, entry, named)


def _say(state: TranscriptState, entry: LedgerEntry, said: Said, speaker: str | None) -> None:
    last = state.items[-1] if state.items else None
    if isinstance(last, Note) and last.what == "input" and last.text == said.text:
        # The same words arrived as input just before: the message is enough.
        state.items.pop()
        state.carried[last.position] = len(state.items)
    state.items.append(
        Message(
            **_common(entry, speaker),
            role=_role(said.role, entry),
            text=said.text,
            reasoning=said.reasoning,
            parts=tuple(Part(part.type, part.text, part.value) for part in said.media),
            to=said.to,
        )
    )


def _role(role: str | None, entry: LedgerEntry) -> str:
    """The role that the payload gives, else what the origin suggests."""
    return role or {"agent": "assistant", "ui": "user"}.get(entry.source.origin, "unknown")


def _tool_call(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    call = read_call({} if entry.erased else payload)
    before = len(state.items)
    tools.called(state.tools, state.items, entry, call, who(entry, payload))
    if len(state.items) == before:
        _carry(state, entry)


def _tool_result(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    result = read_result({} if entry.erased else payload)
    before = len(state.items)
    tools.resulted(state.tools, state.items, entry, result)
    if len(state.items) == before:
        _carry(state, entry)


def _carry(state: TranscriptState, entry: LedgerEntry) -> None:
    state.carried[entry.position] = state.tools.by_event[entry.event_id][-1]


def _asked(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    asked = read_question({} if entry.erased else payload)
    number = len(state.items)
    question = Question(
        **_common(entry, who(entry, payload)),
        question_id=asked.question_id,
        ask=asked.kind,
        text=asked.text or (placeholder(payload) or ""),
        status="open",
    )
    match = state.questions.start(Edge(number, asked.question_id, None, entry.event_id, entry.causation_id))
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
    state.carried[entry.position] = match[0].index


def _answered(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    answer = read_answer({} if entry.erased else payload)
    number = len(state.items)
    by = who(entry, payload)
    value = placeholder(payload) or answer.value
    edge = Edge(number, answer.answers, None, entry.event_id, entry.causation_id)
    match = state.questions.end(edge, lone=True)
    if match is None:
        state.items.append(
            Question(
                **_common(entry, None),
                question_id=answer.answers,
                ask="question",
                text="",
                status="unmatched",
                answer=value,
                decision=answer.decision,
                answered_by=by,
                answer_position=entry.position,
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
        answered_by=by,
        answer_position=entry.position,
        duration_ns=duration(asked.at, happened(entry)),
    )
    state.carried[entry.position] = number


def _boundary(what: str, id_key: str, event: str) -> Callable[[TranscriptState, LedgerEntry, Payload], None]:
    def apply(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
        run = read_run(payload, id_key)
        run_id = run.run_id or entry.correlation_id
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
                **_common(entry, entry.source.name),
                what=what,
                run_id=run_id,
                event=event,
                name=name,
                error=run.error or run.reason,
            )
        )

    return apply


def _handoff(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    given = read_handoff(payload)
    text = given.text or placeholder(payload)
    state.items.append(
        Handoff(**_common(entry, who(entry, payload)), source=given.source, target=given.target, text=text)
    )


def _problem(what: str, text: Callable[[Payload], str | None]) -> Callable[..., None]:
    def apply(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
        found = placeholder(payload) or text(payload)
        if found is not None:
            state.items.append(Problem(**_common(entry, who(entry, payload)), what=what, text=found))

    return apply


def _failed_task(payload: Payload) -> str:
    task = read_task(payload)
    return ": ".join(filter(None, (task.name or task.task_id, task.error))) or read_problem(payload)


def _failed_service(payload: Payload) -> str | None:
    service = read_service(payload)
    return None if service.error is None else ": ".join(filter(None, (service.name, service.error)))


def _failed_model(payload: Payload) -> str | None:
    call = read_model_call(payload)
    return None if call.error is None else ": ".join(filter(None, (call.model, call.error)))


def _note(
    what: str, read: Callable[[Payload], Told]
) -> Callable[[TranscriptState, LedgerEntry, Payload], None]:
    def apply(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
        text = _told(read, payload)
        state.items.append(Note(**_common(entry, who(entry, payload)), what=what, text=text))

    return apply


def _spoken(state: TranscriptState, entry: LedgerEntry, payload: Payload) -> None:
    """Something that a user gave or saw; where a message beside it says the same, the message is enough."""
    text = _told(facts.read_seen, payload)
    last = state.items[-1] if state.items else None
    if isinstance(last, Message) and last.text == text:
        state.carried[entry.position] = len(state.items) - 1
        return
    what = "input" if entry.event_type == "ui.input_received" else "shown"
    state.items.append(Note(**_common(entry, who(entry, payload)), what=what, text=text))


def _told(read: Callable[[Payload], Told], payload: Payload) -> str:
    """What the reader makes of it, else the whole payload."""
    return read(payload).text or (text_of(payload) if payload else "")


_RULES: dict[str, Callable[[TranscriptState, LedgerEntry, Payload], None]] = {
    "execution.message": _message,
    "execution.tool_call": _tool_call,
    "execution.tool_result": _tool_result,
    "execution.human_input_requested": _asked,
    "execution.human_input_received": _answered,
    "execution.handoff": _handoff,
    "execution.output": _note("output", facts.read_output),
    "execution.artifact": _note("artifact", facts.read_artifact),
    "execution.guardrail": _note("guardrail", facts.read_guardrail),
    "execution.model_call": _problem("model call", _failed_model),
    "integration.response": _problem("integration", _failed_service),
    "system.task_failed": _problem("task", _failed_task),
    "system.error": _problem("error", read_problem),
    "system.limit_reached": _problem("limit", partial(_told, facts.read_limit)),
    "ui.input_received": _spoken,
    "ui.output_displayed": _spoken,
    **{event_type: _boundary("run", "run_id", event_type.partition("run_")[2]) for event_type in RUN_STARTS},
    **{event_type: _boundary("run", "run_id", status) for event_type, status in RUN_ENDS.items()},
    **{
        event_type: _boundary("workflow", "workflow_id", event_type.partition("workflow_")[2])
        for event_type in WORKFLOW_STARTS
    },
    **{
        event_type: _boundary("workflow", "workflow_id", status)
        for event_type, status in WORKFLOW_ENDS.items()
    },
}
