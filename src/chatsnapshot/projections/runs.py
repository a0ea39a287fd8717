"""The ``runs`` projection: what became of each run and workflow of one correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import (
    RUN_ENDS,
    RUN_STARTS,
    WORKFLOW_ENDS,
    WORKFLOW_STARTS,
    holds_runs,
)
from chatsnapshot.events.fields import ident
from chatsnapshot.events.normaliser import RunFacts, read_agent
from chatsnapshot.projections.base import register
from chatsnapshot.projections.forest import forest, shape_runs
from chatsnapshot.projections.lineage import Link, Start, take_late
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.runstate import ExecutionState, RunsState, RunState
from chatsnapshot.projections.shapes import Evaluation, Runs

__all__ = ["RunsProjection"]


@register
class RunsProjection:
    """Key: the correlation. A correlation without any run event counts as one run of kind ``events``."""

    name = "runs"
    version = 5
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation; the ledger's own facts and the states of runtimes are no run."""
        return entry.correlation_id if holds_runs(entry.correlation_id) else None

    def initial(self) -> RunsState:
        """No run seen."""
        return RunsState()

    def apply(self, state: RunsState, entry: LedgerEntry) -> RunsState:
        """Count the entry in the run it belongs to, and follow that run's status."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: RunsState, once: Once) -> RunsState:
        """As :meth:`apply`."""
        position = once.position
        if not state.correlation_id:
            state.correlation_id = once.correlation_id
            state.first_position = position
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        state.last_position = position
        kind = _LIFECYCLES.get(once.event_type)
        if kind is None:
            key = state.current
            if key is None or "run_id" in once.payload:
                key = _owner_of_step(state, once)
        else:
            key = _owner(state, once, kind)
        run = state.runs[key]
        owners = state.owners
        if not owners or owners[-1][1] != run.number:
            owners.append((position, run.number))
        _count(run, once)
        if kind is not None:
            _follow(state, key, run, once, kind)
        else:
            rule = _RULES.get(once.event_type)
            if rule is not None:
                rule(state, key, run, once)
        return state

    def result(self, state: RunsState) -> Runs:
        """The runs of this correlation alone."""
        return Runs(state.correlation_id, state.last_position, shape_runs(state))

    def start(self, state: RunsState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause, state.late)

    def compose(
        self, states: Mapping[str, RunsState], links: Mapping[str, Link], correlation_id: str
    ) -> Runs:
        """The runs of a correlation with those of its children under the runs that hold their causes."""
        last = max(state.last_position for state in states.values())
        return Runs(correlation_id, last, tuple(forest(states, links, [correlation_id])))


_LIFECYCLES: dict[str, str] = {
    **dict.fromkeys((*RUN_STARTS, *RUN_ENDS), "run"),
    **dict.fromkeys((*WORKFLOW_STARTS, *WORKFLOW_ENDS), "workflow"),
}


def _owner(state: RunsState, once: Once, kind: str) -> str:
    """The key of the run that begins or ends; it is made when it is new."""
    given = ident(once.payload.get("run_id" if kind == "run" else "workflow_id"))
    begins = once.event_type in RUN_STARTS or once.event_type in WORKFLOW_STARTS
    own = f"{kind}:{state.correlation_id}"
    if given is not None:
        key = f"{kind}:{given}"
    elif begins or (own in state.runs and state.runs[own].open):
        key = own
    else:
        same = (one for one in reversed(state.open) if one.startswith(kind))
        key = next(same, None) or _latest(state, kind) or own
    if key not in state.runs:
        _make(state, key, kind, given or state.correlation_id, once)
    return key


def _latest(state: RunsState, kind: str) -> str | None:
    """The last run of that kind, for an end that comes when none is open."""
    if state.current is not None and state.current.startswith(kind):
        return state.current
    return next((key for key in reversed(state.runs) if key.startswith(f"{kind}:")), None)


def _owner_of_step(state: RunsState, once: Once) -> str:
    given = ident(once.payload.get("run_id"))
    if given is not None and once.event_type.startswith("execution."):
        key = f"run:{given}"
        if key in state.runs:
            return key
        # An evaluation names the run that it judges, which may be anywhere.
        if once.event_type != "execution.evaluation":
            _make(state, key, "run", given, once)
            return key
    if state.current is not None:
        return state.current
    key = f"events:{state.correlation_id}"
    if key not in state.runs:
        _make(state, key, "events", state.correlation_id, once)
    return key


def _make(state: RunsState, key: str, kind: str, run_id: str, once: Once) -> None:
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
            first_at=once.at,
            last_at=once.at,
            first_position=once.position,
            last_position=once.position,
        )
    if state.current is None and kind != "events":
        state.current = key


def _count(run: RunState, once: Once) -> None:
    run.events += 1
    run.last_position = once.position
    run.last_at = once.at
    source, event_type = once.source, once.event_type
    if source.runtime != "none":
        run.runtimes[source.runtime] = None
    if source.name is not None:
        run.participants[source.name] = None
        if source.origin == "agent":
            run.agents[source.name] = None
    if event_type.startswith("execution."):
        agent = read_agent(once.payload) if "agent" in once.payload else None
        if agent is not None:
            run.participants[agent] = None
            run.agents[agent] = None


def _message(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.messages += 1


def _tool_call(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.tool_calls += 1


def _tool_result(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.tool_errors += once.facts.error is not None


def _model_call(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.model_calls += 1
    run.model_errors += once.facts.error is not None


def _failed_task(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.task_errors += 1


def _service(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.integration_errors += once.facts.error is not None


def _error(state: RunsState, key: str, run: RunState, once: Once) -> None:
    run.other_errors += 1


def _handoff(state: RunsState, key: str, run: RunState, once: Once) -> None:
    for name in (once.facts.source, once.facts.target):
        if name is not None:
            run.agents[name] = None
            run.participants[name] = None


def _judge(state: RunsState, key: str, run: RunState, once: Once) -> None:
    """An evaluation counts for the run that it names, wherever that is; one of an event for the run it stands in."""
    read = once.facts
    judged = Evaluation(
        once.position,
        read.name or "evaluation",
        read.score,
        read.label,
        read.evaluator or once.source.name,
        read.kind,
        read.comment,
        read.target_event_id,
    )
    if read.run_id is None or read.run_id in (run.run_id, state.correlation_id):
        run.evaluations.append(judged)
    else:
        state.judged_elsewhere.setdefault(read.run_id, []).append(judged)


def _ask(state: RunsState, key: str, run: RunState, once: Once) -> None:
    edge = Edge(state.asked, once.facts.question_id, None, once.event_id, once.causation_id)
    state.asked += 1
    if state.questions is None:
        state.questions = Pairs()
    if state.questions.start(edge) is None:
        state.asked_in[edge.index] = key


def _answer(state: RunsState, key: str, run: RunState, once: Once) -> None:
    answers = once.facts.answers
    edge = Edge(state.asked, answers, None, once.event_id, answers or once.causation_id)
    state.asked += 1
    if state.questions is None:
        state.questions = Pairs()
    found = state.questions.end(edge, lone=True)
    if found is not None:
        state.asked_in.pop(found[0].index, None)


_RULES: dict[str, Callable[[RunsState, str, RunState, Once], None]] = {
    "execution.message": _message,
    "execution.tool_call": _tool_call,
    "execution.tool_result": _tool_result,
    "execution.model_call": _model_call,
    "execution.handoff": _handoff,
    "execution.evaluation": _judge,
    "execution.human_input_requested": _ask,
    "execution.human_input_received": _answer,
    "system.task_failed": _failed_task,
    "system.error": _error,
    "integration.response": _service,
    "integration.call": _service,
}


def _follow(state: RunsState, key: str, run: RunState, once: Once, kind: str) -> None:
    """The status of a run that begins or ends."""
    facts = once.facts
    status = RUN_ENDS.get(once.event_type) or WORKFLOW_ENDS.get(once.event_type)
    if status is None:
        _begin(state, key, run, once, facts)
        run.tags.update(dict.fromkeys(facts.tags))
        run.parent = run.parent or _parent(state, key, kind, facts.parent_run_id)
        run.error = run.reason = None
    else:
        _end(state, key, run, once, status)
        run.error, run.reason = facts.error, facts.reason


def _begin(state: RunsState, key: str, run: RunState, once: Once, facts: RunFacts) -> None:
    resumed = once.event_type in ("execution.run_resumed", "system.workflow_resumed")
    if not run.started and (not resumed or not run.executions):
        # The title comes from the first start, or what stands for it: no child and no later event can change it.
        run.name = facts.name
        run.started = not resumed
    if facts.user is not None:
        run.participants[facts.user] = None
    run.executions.append(ExecutionState(once.position, once.position, once.at, None, "unfinished", resumed))
    state.current = key
    state.open.pop(key, None)
    state.open[key] = None
    if run.kind == "workflow":
        state.workflows[key] = None


def _end(state: RunsState, key: str, run: RunState, once: Once, status: str) -> None:
    run.ended_at = once.at
    state.open.pop(key, None)
    state.workflows.pop(key, None)
    if not run.executions:
        first = run.first_position
        run.executions.append(ExecutionState(first, once.position, None, run.ended_at, status, False, False))
    else:
        # A second end without a start between corrects the first; a paused execution had ended when it was paused.
        last = run.executions[-1]
        if last.status != "paused":
            last.last_position, last.ended_at = once.position, run.ended_at
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
