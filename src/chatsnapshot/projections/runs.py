"""The ``runs`` projection: what became of each run and workflow of one correlation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import (
    LEDGER_CORRELATION,
    RUN_ENDS,
    RUN_STARTS,
    WORKFLOW_ENDS,
    WORKFLOW_STARTS,
)
from chatsnapshot.events.fields import ident, payload_of
from chatsnapshot.events.normaliser import (
    read_agent,
    read_answer,
    read_evaluation,
    read_handoff,
    read_model_call,
    read_question,
    read_run,
    read_service,
    tool_failed,
)
from chatsnapshot.projections.base import register
from chatsnapshot.projections.forest import forest, shape_runs
from chatsnapshot.projections.lineage import Link, Start
from chatsnapshot.projections.pairing import Edge
from chatsnapshot.projections.runstate import ExecutionState, RunsState, RunState
from chatsnapshot.projections.shapes import Evaluation, Runs
from chatsnapshot.projections.times import happened

__all__ = ["RunsProjection"]

_FAILED_TASK = "system.task_failed"


@register
class RunsProjection:
    """Key: the correlation. A correlation without any run event counts as one run of kind ``events``."""

    name = "runs"
    version = 2
    correlated = True

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
        if entry.event_type == "execution.evaluation":
            _judge(state, run, entry, payload)
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
        same = (one for one in reversed(state.open) if one.startswith(kind))
        key = next(same, None) or _latest(state, kind) or own
    if key not in state.runs:
        _make(state, key, kind, given or state.correlation_id, entry)
    return key


def _latest(state: RunsState, kind: str) -> str | None:
    """The last run of that kind, for an end that comes when none is open."""
    if state.current is not None and state.current.startswith(kind):
        return state.current
    return next((key for key in reversed(state.runs) if key.startswith(f"{kind}:")), None)


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
            first_at=happened(entry),
            last_at=happened(entry),
            first_position=entry.position,
            last_position=entry.position,
        )
    if state.current is None and kind != "events":
        state.current = key


def _count(run: RunState, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    run.events += 1
    run.last_position = entry.position
    run.last_at = happened(entry)
    source = entry.source
    if source.runtime != "none":
        run.runtimes[source.runtime] = None
    agent = read_agent(payload) if entry.event_type.startswith("execution.") else None
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
        run.tool_errors += tool_failed(payload)
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


def _judge(state: RunsState, run: RunState, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    """An evaluation counts for the run that it names, wherever that is; one of an event for the run it stands in."""
    read = read_evaluation(payload)
    judged = Evaluation(
        entry.position,
        read.name or "evaluation",
        read.score,
        read.label,
        read.evaluator or entry.source.name,
        read.kind,
        read.comment,
        read.target_event_id,
    )
    if read.run_id is None or read.run_id in (run.run_id, state.correlation_id):
        run.evaluations.append(judged)
    else:
        state.judged_elsewhere.setdefault(read.run_id, []).append(judged)


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
        ExecutionState(entry.position, entry.position, happened(entry), None, "unfinished", resumed)
    )
    state.current = key
    state.open.pop(key, None)
    state.open[key] = None
    if run.kind == "workflow":
        state.workflows[key] = None


def _end(state: RunsState, key: str, run: RunState, entry: LedgerEntry, status: str) -> None:
    run.ended_at = happened(entry)
    state.open.pop(key, None)
    state.workflows.pop(key, None)
    if not run.executions:
        first = run.first_position
        run.executions.append(ExecutionState(first, entry.position, None, run.ended_at, status, False, False))
    else:
        # A second end without a start between corrects the first; a paused execution had ended when it was paused.
        last = run.executions[-1]
        if last.status != "paused":
            last.last_position, last.ended_at = entry.position, run.ended_at
        last.status = status
    if state.current == key:
        # What follows belongs to the run around this one, if one is open; else still to this one.
        state.current = next(reversed(state.open), key)


def _parent(state: RunsState, key: str, kind: str, named: str | None) -> str | None:
    """The key of the run of this correlation under which a run stands: the one it names, else an open workflow."""
    if named is not None and f"run:{named}" in state.runs and f"run:{named}" != key:
        return None if _under(state, f"run:{named}", key) else f"run:{named}"
    if kind == "run":
        return next(reversed(state.workflows), None)
    return None


def _under(state: RunsState, key: str | None, above: str) -> bool:
    while key is not None:
        if key == above:
            return True
        key = state.runs[key].parent
    return False
