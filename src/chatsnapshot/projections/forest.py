"""Makes the trees that readers get of what the ``runs`` projection knows of each correlation."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from chatsnapshot.projections.lineage import Link, children_of, upwards
from chatsnapshot.projections.runstate import RunsState, RunState
from chatsnapshot.projections.shapes import Errors, Evaluation, Execution, Run
from chatsnapshot.projections.times import duration

__all__ = ["forest", "shape_runs"]


def shape_runs(
    state: RunsState,
    below: Mapping[str, Sequence[Run]] | None = None,
    link: Link | None = None,
    judged: Mapping[str, Sequence[Evaluation]] | None = None,
) -> tuple[Run, ...]:
    """The runs of a correlation as trees; ``below`` gives the trees of children under the key of the run above.

    ``judged`` are evaluations, by run id, that were recorded in other correlations.
    """
    inside: dict[str, list[Run]] = {key: list(runs) for key, runs in (below or {}).items()}
    questions = Counter(state.asked_in.values())
    roots: list[Run] = []
    # A run is made before those below it, so that backwards each finds its own complete.
    for key, run in reversed(state.runs.items()):
        children = tuple(sorted(inside.get(key, ()), key=lambda child: child.first_position))
        shaped = _shape(
            state, run, children, questions[key], link or Link("root", cause=state.cause), judged or {}
        )
        (roots if run.parent is None else inside.setdefault(run.parent, [])).append(shaped)
    return tuple(reversed(roots))


def owner_at(state: RunsState, position: int) -> str | None:
    """The key of the run to which the entry at ``position`` belongs, or the one that was last before it."""
    found = bisect_right(state.owners, (position, len(state.runs)))
    keys = list(state.runs)
    return keys[state.owners[max(found - 1, 0)][1]] if keys else None


def _shape(
    state: RunsState,
    run: RunState,
    children: tuple[Run, ...],
    questions: int,
    link: Link,
    judged: Mapping[str, Sequence[Evaluation]],
) -> Run:
    evaluations = sorted([*run.evaluations, *judged.get(run.run_id, ())], key=lambda one: one.position)
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
    # A run that goes on with an earlier one of its correlation, under an id of its own, is there as a whole.
    unseen = bool(executions) and executions[0].resumed and run.number == 0
    partial = not executions or any(not one.begun for one in run.executions) or unseen
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
        evaluations=tuple(evaluations),
        link=link.kind if run.parent is None else "child",
        cause=link.cause,
        cause_position=link.position,
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
    judged: dict[str, list[Evaluation]] = {}
    for state in states.values():
        for run_id, evaluations in state.judged_elsewhere.items():
            judged.setdefault(run_id, []).extend(evaluations)
    hanging: dict[str, dict[str, list[Run]]] = {}
    top: list[Run] = []
    for correlation in upwards({one: links[one] for one in wanted}):
        link = links[correlation]
        below = hanging.pop(correlation, None)
        shaped = shape_runs(states[correlation], below, link, judged)
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
