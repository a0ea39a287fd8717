"""The ``state`` projection: the last state of every run, task, process, step, question and agent of one correlation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import (
    LEDGER_CORRELATION,
    RUN_ENDS,
    RUN_STARTS,
    WORKFLOW_ENDS,
    WORKFLOW_STARTS,
)
from chatsnapshot.events.fields import text_of
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, take_late
from chatsnapshot.projections.lines import short
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.runstate import RunsState
from chatsnapshot.projections.stateshapes import States, Subject

__all__ = ["LatestState", "StateProjection"]

_STAGES = {"scheduled": 0, "retried": 1, "started": 2, "completed": 3, "failed": 3, "cancelled": 3}
_TASK = "system.task_"
_LIFECYCLE = frozenset({*RUN_STARTS, *RUN_ENDS, *WORKFLOW_STARTS, *WORKFLOW_ENDS})
_RUNS = RunsProjection()


class Told(msgspec.Struct):
    """What one entry says of a subject."""

    kind: str
    id: str
    state: str
    name: str | None = None
    value: Any = None
    reason: str | None = None
    before: str | None = None


class LatestState(msgspec.Struct):
    """The subjects of one correlation by kind and id, and how far each task is; questions that wait, and their ids.

    ``runs`` is what the ``runs`` view makes of the starts and ends alone.
    """

    correlation_id: str = ""
    first_position: int = 0
    last_position: int = 0
    cause: str | None = None
    late: str | None = None
    runs: RunsState = msgspec.field(default_factory=RunsState)
    subjects: dict[str, Subject] = {}
    reached: dict[str, tuple[int, int]] = {}
    questions: Pairs | None = None
    asked: dict[int, str] = {}


@register
class StateProjection:
    """Key: the correlation. What is recorded last holds; of a task's attempt a later stage before an earlier one."""

    name = "state"
    version = 100 * RunsProjection.version + 1  # its state holds one of that projection
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation; the ledger's own facts have no state."""
        return None if entry.correlation_id == LEDGER_CORRELATION else entry.correlation_id

    def initial(self) -> LatestState:
        """Nothing is known."""
        return LatestState()

    def apply(self, state: LatestState, entry: LedgerEntry) -> LatestState:
        """Take in what the entry says of its subjects."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: LatestState, once: Once) -> LatestState:
        """As :meth:`apply`."""
        if not state.correlation_id:
            state.correlation_id = once.correlation_id
            state.first_position = once.position
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        state.last_position = once.position
        event_type = once.event_type
        read = _READ.get(event_type)
        if event_type in _LIFECYCLE:
            _run(state, once)
        elif read is not None:
            _take(state, once, read(once))
        elif event_type.startswith(_TASK):
            _task(state, once)
        elif event_type == "execution.human_input_requested":
            _asked(state, once)
        elif event_type == "execution.human_input_received":
            _answered(state, once)
        if event_type.startswith("execution."):
            _agents(state, once)
        return state

    def result(self, state: LatestState) -> States:
        """The states of this correlation alone."""
        return self.compose({state.correlation_id: state}, {}, state.correlation_id)

    def start(self, state: LatestState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause, state.late)

    def compose(
        self, states: Mapping[str, LatestState], links: Mapping[str, Link], correlation_id: str
    ) -> States:
        """The states under a correlation and its children."""
        found = _agents_once(subject for state in states.values() for subject in state.subjects.values())
        found.sort(key=lambda one: (one.first_position, one.kind))
        last = max((state.last_position for state in states.values()), default=0)
        return States(correlation_id, last, tuple(found))


def _agents_once(subjects: Iterable[Subject]) -> list[Subject]:
    """All subjects; an agent that is at work in several correlations is one."""
    found: list[Subject] = []
    agents: dict[str, Subject] = {}
    for one in subjects:
        if one.kind != "agent":
            found.append(one)
            continue
        known = agents.get(one.id)
        if known is not None:
            last = max(one, known, key=lambda subject: subject.position)
            one = msgspec.structs.replace(
                last,
                changes=one.changes + known.changes,
                first_position=min(one.first_position, known.first_position),
            )
        agents[one.id] = one
    return [*found, *agents.values()]


def _take(state: LatestState, once: Once, told: Told) -> None:
    key = f"{told.kind}:{told.id}"
    before = state.subjects.get(key)
    state.subjects[key] = Subject(
        kind=told.kind,
        id=told.id,
        name=told.name or (before.name if before else None),
        state=told.state,
        value=told.value,
        before=told.before or (before.state if before else None),
        reason=told.reason,
        since=once.at,
        position=once.position,
        first_position=before.first_position if before else once.position,
        changes=before.changes + 1 if before else 1,
        correlation_id=once.correlation_id,
        erased=once.erased,
    )


def _run(state: LatestState, once: Once) -> None:
    """Which run an event is about, and its status, as the ``runs`` view has it."""
    state.runs = _RUNS.take_once(state.runs, once)
    number = state.runs.owners[-1][1]
    run = next(one for one in reversed(state.runs.runs.values()) if one.number == number)
    facts = once.facts
    reason = short(facts.error or facts.reason or "") or None
    _take(state, once, Told(run.kind, run.run_id, run.executions[-1].status, run.name, reason=reason))


def _change(kind: str) -> Callable[[Once], Told]:
    def read(once: Once) -> Told:
        change = once.facts
        subject = change.subject or once.who or once.correlation_id
        after = "[erased]" if once.erased else short(text_of(change.after)) or "unknown"
        value = change.after if isinstance(change.after, (dict, list)) else None
        before = None if change.before is None else short(text_of(change.before))
        return Told(
            kind, subject, after, value=value, reason=short(change.reason or "") or None, before=before
        )

    return read


def _task(state: LatestState, once: Once) -> None:
    status = once.event_type.removeprefix(_TASK)
    if status not in _STAGES:
        return
    task = once.facts
    named = task.task_id or task.name
    if named is None:
        return
    # Of one attempt what is recorded late does not undo what came of it; an attempt without a number is a new one.
    reached = state.reached.get(named)
    order = (task.attempt or 0, _STAGES[status])
    key = f"task:{named}"
    late = reached is not None and reached > order and (task.attempt is not None or order[1] == 0)
    if late and key in state.subjects:
        known = state.subjects[key]
        state.subjects[key] = msgspec.structs.replace(
            known, name=known.name or task.name, changes=known.changes + 1
        )
        return
    if task.attempt is None and reached is not None:
        order = (reached[0], order[1])
    state.reached[named] = order
    reason = short(task.error or task.reason or "") or None
    _take(state, once, Told("task", named, status, task.name, reason=reason))


def _asked(state: LatestState, once: Once) -> None:
    asked = once.facts
    named = asked.question_id or once.event_id
    text = "[erased]" if once.erased else short(asked.text)
    _take(state, once, Told("question", named, "open", text or None))
    if state.questions is None:
        state.questions = Pairs()
    match = state.questions.start(
        Edge(once.sequence, asked.question_id, None, once.event_id, once.causation_id)
    )
    if match is None:
        state.asked[once.sequence] = named
    else:
        _settle(state, f"question:{named}", "answered", None, None)


def _answered(state: LatestState, once: Once) -> None:
    answer = once.facts
    edge = Edge(once.sequence, answer.answers, None, once.event_id, once.causation_id or answer.answers)
    if state.questions is None:
        state.questions = Pairs()
    match = state.questions.end(edge, lone=True)
    if match is not None:
        named = state.asked.pop(match[0].index)
        _settle(state, f"question:{named}", "answered", once, answer.decision)


def _settle(state: LatestState, key: str, word: str, once: Once | None, decision: str | None) -> None:
    known = state.subjects[key]
    state.subjects[key] = msgspec.structs.replace(
        known,
        state=word,
        before=known.state,
        reason=decision,
        since=known.since if once is None else once.at,
        position=known.position if once is None else once.position,
        changes=known.changes + 1,
    )


def _agents(state: LatestState, once: Once) -> None:
    """What the agents that the entry names did last."""
    names = [once.who] if once.source.origin == "agent" else []
    if once.event_type == "execution.handoff":
        given = once.facts
        names += [given.source, given.target]
    for name in dict.fromkeys(names):
        if name is not None:
            _take(state, once, Told("agent", name, once.what))


_READ: dict[str, Callable[[Once], Told]] = {
    "system.state_transition": _change("process"),
    "execution.state_change": _change("step"),
}
