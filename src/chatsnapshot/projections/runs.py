"""The ``runs`` projection: what became of each run and workflow of one correlation."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from chatsnapshot.events.fields import failed, ident, name_of, payload_of
from chatsnapshot.events.normaliser import (
    read_answer,
    read_handoff,
    read_model_call,
    read_question,
    read_run,
    read_service,
)
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, children_of, upwards
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.shapes import Errors, Execution, Run, Runs
from chatsnapshot.projections.times import duration

__all__ = ["RunState", "RunsProjection", "RunsState"]

_FAILED_TASK = "system.task_failed"


class ExecutionState(msgspec.Struct):
    """One stretch of a run, as far as it was seen."""

    first_position: int
    last_position: int
    started_at: str | None
    ended_at: str | None
    status: str
    resumed: bool


class RunState(msgspec.Struct, kw_only=True):
    """What is known of one run."""

    number: int
    run_id: str
    kind: str
    first_at: str
    last_at: str
    first_position: int
    last_position: int
    name: str | None = None
    parent: str | None = None
    started: bool = False
    ended_at: str | None = None
    events: int = 0
    messages: int = 0
    tool_calls: int = 0
    model_calls: int = 0
    tool_errors: int = 0
    model_errors: int = 0
    task_errors: int = 0
    integration_errors: int = 0
    other_errors: int = 0
    error: str | None = None
    reason: str | None = None
    agents: dict[str, None] = {}
    participants: dict[str, None] = {}
    runtimes: dict[str, None] = {}
    tags: dict[str, None] = {}
    executions: list[ExecutionState] = []

    @property
    def open(self) -> bool:
        """Whether the last that was seen of it is a start."""
        return bool(self.executions) and self.executions[-1].status == "unfinished"


class RunsState(msgspec.Struct):
    """The runs of one correlation: ``runs`` by kind and id in the order in which they were first seen.

    ``owners`` tells which run (its number) the entries from a position on belong to; ``cause`` is the cause of the
    correlation's first event, where that was seen.
    """

    correlation_id: str = ""
    first_position: int = 0
    last_position: int = 0
    cause: str | None = None
    runs: dict[str, RunState] = {}
    owners: list[tuple[int, int]] = []
    current: str | None = None
    questions: Pairs = msgspec.field(default_factory=Pairs)
    asked_in: dict[int, str] = {}
    asked: int = 0


@register
class RunsProjection:
    """Key: the correlation. A correlation without any run event counts as one run of kind ``events``."""

    name = "runs"
    version = 1
    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation; the ledger's own facts are no run."""
        return None if entry.correlation_id == LEDGER_CORRELATION else entry.correlation_id

    def initial(self) -> RunsState:
        """No run seen."""
        return RunsState()

    def apply(self, state: RunsState, entry: LedgerEntry) -> RunsState:
        """Count the entry in the run it belongs to, and follow that run's status."""
        payload = payload_of(entry)
        if not state.correlation_id:
            state.correlation_id = entry.correlation_id
            state.first_position = entry.position
            # Only the first event of the whole correlation tells where it hangs.
            state.cause = entry.causation_id if entry.sequence == 1 else None
        state.last_position = entry.position
        key = _owner(state, entry, payload)
        run = state.runs[key]
        if not state.owners or state.owners[-1][1] != run.number:
            state.owners.append((entry.position, run.number))
        _count(run, entry, payload)
        _follow(state, key, run, entry, payload)
        return state

    def result(self, state: RunsState) -> Runs:
        """The runs of this correlation alone."""
        return Runs(state.correlation_id, state.last_position, shape_runs(state))

    def start(self, state: RunsState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause)

    def compose(
        self, states: Mapping[str, RunsState], links: Mapping[str, Link], correlation_id: str
    ) -> Runs:
        """The runs of a correlation with those of its children under the runs that hold their causes."""
        last = max(state.last_position for state in states.values())
        return Runs(correlation_id, last, tuple(forest(states, links, [correlation_id])))


def _lifecycle(event_type: str) -> str | None:
    if event_type in RUN_STARTS or event_type in RUN_ENDS:
        return "run"
    if event_type in WORKFLOW_STARTS or event_type in WORKFLOW_ENDS:
        return "workflow"
    return None


def _owner(state: RunsState, entry: LedgerEntry, payload: Mapping[str, Any]) -> str:
    """The key of the run that an entry belongs to; the run is made when it is new."""
    kind = _lifecycle(entry.event_type)
    if kind is None:
        return _owner_of_step(state, entry, payload)
    id_key = "run_id" if kind == "run" else "workflow_id"
    given = ident(payload.get(id_key))
    begins = entry.event_type in RUN_STARTS or entry.event_type in WORKFLOW_STARTS
    own = f"{kind}:{state.correlation_id}"
    if given is not None:
        key = f"{kind}:{given}"
    elif begins or (own in state.runs and state.runs[own].open):
        key = own
    else:
        open_ones = [key for key, run in state.runs.items() if run.kind == kind and run.open]
        same = [key for key, run in state.runs.items() if run.kind == kind]
        key = open_ones[-1] if open_ones else own if own in state.runs or not same else same[-1]
    if key not in state.runs:
        _make(state, key, kind, given or state.correlation_id, entry)
    return key


def _owner_of_step(state: RunsState, entry: LedgerEntry, payload: Mapping[str, Any]) -> str:
    given = ident(payload.get("run_id"))
    if given is not None and entry.event_type.startswith("execution."):
        key = f"run:{given}"
        if key in state.runs:
            return key
        # An evaluation names the run that it judges, which may be anywhere.
        if entry.event_type != "execution.evaluation":
            _make(state, key, "run", given, entry)
            return key
    if state.current is not None:
        return state.current
    key = f"events:{state.correlation_id}"
    if key not in state.runs:
        _make(state, key, "events", state.correlation_id, entry)
    return key


def _make(state: RunsState, key: str, kind: str, run_id: str, entry: LedgerEntry) -> None:
    """A new run; what came before the first run of a correlation counts as part of it."""
    loose = f"events:{state.correlation_id}"
    if kind != "events" and list(state.runs) == [loose]:
        run = state.runs.pop(loose)
        run.run_id, run.kind = run_id, kind
        state.runs[key] = run
        state.asked_in = dict.fromkeys(state.asked_in, key)
    else:
        state.runs[key] = RunState(
            number=len(state.runs),
            run_id=run_id,
            kind=kind,
            first_at=entry.timestamp,
            last_at=entry.timestamp,
            first_position=entry.position,
            last_position=entry.position,
        )
    if state.current is None and kind != "events":
        state.current = key


def _count(run: RunState, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    run.events += 1
    run.last_position = entry.position
    run.last_at = entry.timestamp
    source = entry.source
    if source.runtime != "none":
        run.runtimes[source.runtime] = None
    agent = name_of(payload.get("agent")) if entry.event_type.startswith("execution.") else None
    for name in (source.name, agent):
        if name is not None:
            run.participants[name] = None
    if source.origin == "agent" and source.name is not None:
        run.agents[source.name] = None
    if agent is not None:
        run.agents[agent] = None
    event_type = entry.event_type
    if event_type == "execution.message":
        run.messages += 1
    elif event_type == "execution.tool_call":
        run.tool_calls += 1
    elif event_type == "execution.tool_result":
        run.tool_errors += failed(payload) or failed(_inner(payload, "tool"))
    elif event_type == "execution.model_call":
        run.model_calls += 1
        run.model_errors += read_model_call(payload).error is not None
    elif event_type == _FAILED_TASK:
        run.task_errors += 1
    elif event_type == "integration.response" or event_type == "integration.call":
        run.integration_errors += read_service(payload).error is not None
    elif event_type == "system.error":
        run.other_errors += 1
    elif event_type == "execution.handoff":
        given = read_handoff(payload)
        for name in (given.source, given.target):
            if name is not None:
                run.agents[name] = None
                run.participants[name] = None


def _inner(payload: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = payload.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _follow(
    state: RunsState, key: str, run: RunState, entry: LedgerEntry, payload: Mapping[str, Any]
) -> None:
    event_type = entry.event_type
    kind = _lifecycle(event_type)
    if kind is not None:
        facts = read_run(payload, "run_id" if kind == "run" else "workflow_id")
        status = RUN_ENDS.get(event_type) or WORKFLOW_ENDS.get(event_type)
        if status is None:
            _begin(state, key, run, entry, facts.name, facts.user)
            run.tags.update(dict.fromkeys(facts.tags))
            run.parent = run.parent or _parent(state, key, kind, facts.parent_run_id)
            run.error = run.reason = None
        else:
            _end(state, key, run, entry, status)
            run.error, run.reason = facts.error, facts.reason
    elif event_type == "execution.human_input_requested":
        asked = read_question(payload)
        _ask(state, key, Edge(state.asked, asked.question_id, None, entry.event_id, entry.causation_id))
    elif event_type == "execution.human_input_received":
        answers = read_answer(payload).answers
        _answer(state, Edge(state.asked, answers, None, entry.event_id, answers or entry.causation_id))


def _ask(state: RunsState, key: str, edge: Edge) -> None:
    state.asked += 1
    if state.questions.start(edge) is None:
        state.asked_in[edge.index] = key


def _answer(state: RunsState, edge: Edge) -> None:
    state.asked += 1
    found = state.questions.end(edge, lone=True)
    if found is not None:
        state.asked_in.pop(found[0].index, None)


def _begin(
    state: RunsState, key: str, run: RunState, entry: LedgerEntry, name: str | None, user: str | None
) -> None:
    resumed = entry.event_type in ("execution.run_resumed", "system.workflow_resumed")
    if not resumed and not run.started:
        # The title comes from the start event only: no child and no later event can change it.
        run.name = name
        run.started = True
    if user is not None:
        run.participants[user] = None
    run.executions.append(
        ExecutionState(entry.position, entry.position, entry.timestamp, None, "unfinished", resumed)
    )
    state.current = key


def _end(state: RunsState, key: str, run: RunState, entry: LedgerEntry, status: str) -> None:
    run.ended_at = entry.timestamp
    if not run.executions:
        first = run.first_position
        run.executions.append(ExecutionState(first, entry.position, None, entry.timestamp, status, False))
    else:
        # A second end without a start between corrects the first; a paused execution had ended when it was paused.
        last = run.executions[-1]
        if last.status != "paused":
            last.last_position, last.ended_at = entry.position, entry.timestamp
        last.status = status
    if state.current == key:
        # What follows belongs to the run around this one, if one is open; else still to this one.
        around = [other for other, one in state.runs.items() if one.open]
        state.current = around[-1] if around else key


def _parent(state: RunsState, key: str, kind: str, named: str | None) -> str | None:
    """The key of the run of this correlation under which a run stands: the one it names, else an open workflow."""
    if named is not None and f"run:{named}" in state.runs and f"run:{named}" != key:
        return None if _under(state, f"run:{named}", key) else f"run:{named}"
    if kind == "run":
        workflows = [other for other, run in state.runs.items() if run.kind == "workflow" and run.open]
        return workflows[-1] if workflows else None
    return None


def _under(state: RunsState, key: str | None, above: str) -> bool:
    while key is not None:
        if key == above:
            return True
        key = state.runs[key].parent
    return False


def shape_runs(
    state: RunsState,
    below: Mapping[str, Sequence[Run]] | None = None,
    link: str = "root",
    cause_position: int | None = None,
) -> tuple[Run, ...]:
    """The runs of a correlation as trees; ``below`` gives the trees of children under the key of the run above."""
    inside: dict[str, list[Run]] = {key: list(runs) for key, runs in (below or {}).items()}
    questions = Counter(state.asked_in.values())
    roots: list[Run] = []
    # A run is made before those below it, so that backwards each finds its own complete.
    for key, run in reversed(state.runs.items()):
        children = tuple(sorted(inside.get(key, ()), key=lambda child: child.first_position))
        place = link if run.parent is None else "child"
        shaped = _shape(state, run, children, questions[key], place, cause_position)
        (roots if run.parent is None else inside.setdefault(run.parent, [])).append(shaped)
    return tuple(reversed(roots))


def owner_at(state: RunsState, position: int) -> str | None:
    """The key of the run to which the entry at ``position`` belongs, or the one that was last before it."""
    found = bisect_right(state.owners, (position, len(state.runs)))
    keys = list(state.runs)
    return keys[state.owners[max(found - 1, 0)][1]] if keys else None


def _shape(
    state: RunsState, run: RunState, children: tuple[Run, ...], questions: int, link: str, cause_position: int | None
) -> Run:
    executions = tuple(
        Execution(
            one.first_position,
            one.last_position,
            one.started_at,
            one.ended_at,
            duration(one.started_at, one.ended_at),
            one.status,
            one.resumed,
        )
        for one in run.executions
    )
    status = executions[-1].status if executions else "unknown"
    took = [one.duration_ns for one in executions]
    known = [one for one in took if one is not None]
    partial = not executions or any(one.started_at is None for one in executions) or executions[0].resumed
    return Run(
        run_id=run.run_id,
        correlation_id=state.correlation_id,
        kind=run.kind,
        status=status,
        name=run.name,
        started_at=None if partial else executions[0].started_at,
        ended_at=None if status == "unfinished" else run.ended_at,
        duration_ns=sum(known) if executions and len(known) == len(took) and not partial else None,
        first_at=run.first_at,
        last_at=run.last_at,
        first_position=run.first_position,
        last_position=run.last_position,
        events=run.events,
        messages=run.messages,
        tool_calls=run.tool_calls,
        model_calls=run.model_calls,
        questions_open=questions,
        errors=_own_errors(run),
        errors_below=_errors_below(children),
        error=run.error,
        reason=run.reason,
        partial=partial,
        agents=tuple(run.agents),
        participants=tuple(run.participants),
        runtimes=tuple(run.runtimes),
        tags=tuple(run.tags),
        executions=executions,
        link=link,
        cause=state.cause,
        cause_position=cause_position,
        children=children,
    )


def _own_errors(run: RunState) -> Errors:
    return Errors(
        run.tool_errors, run.model_errors, run.task_errors, run.integration_errors, run.other_errors
    )


def _errors_below(children: tuple[Run, ...]) -> Errors:
    total = Errors()
    for child in children:
        total = total + child.errors + child.errors_below + Errors(runs=child.status == "failed")
    return total


def forest(states: Mapping[str, RunsState], links: Mapping[str, Link], roots: Iterable[str]) -> list[Run]:
    """The runs under ``roots`` (correlations) as trees in the order of their first positions."""
    wanted = _family(links, roots)
    hanging: dict[str, dict[str, list[Run]]] = {}
    top: list[Run] = []
    for correlation in upwards({one: links[one] for one in wanted}):
        link = links[correlation]
        shaped = shape_runs(states[correlation], hanging.pop(correlation, None), link.kind, link.position)
        key = None
        if link.parent in wanted and link.position is not None:
            key = owner_at(states[link.parent], link.position)
        if key is None or link.parent is None:
            top.extend(shaped)
        else:
            hanging.setdefault(link.parent, {}).setdefault(key, []).extend(shaped)
    return sorted(top, key=lambda run: run.first_position)


def _family(links: Mapping[str, Link], roots: Iterable[str]) -> dict[str, None]:
    below = children_of(links)
    wanted: dict[str, None] = {}
    level = list(roots)
    while level:
        wanted.update(dict.fromkeys(level))
        level = [child for parent in level for child in below.get(parent, ())]
    return wanted
