"""The tasks of one correlation: the order of each one's events, its state, and what waits for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from chatsnapshot.projections.graphcycles import cycles
from chatsnapshot.projections.graphmarks import ENDED, STARTED, NodeState, TaskMark
from chatsnapshot.projections.graphshapes import GraphTask

__all__ = ["Chain", "Chains", "chains", "shape_tasks", "task_cycles", "task_pairs"]

Chain = list[tuple[NodeState, TaskMark]]
"""The events of one task, in the order in which they follow from each other."""

Chains = Mapping[str, Chain]


def chains(nodes: Sequence[NodeState]) -> Chains:
    """The tasks among the events of one correlation, by id, in the order in which they were first seen."""
    found: dict[str, Chain] = {}
    for node in nodes:
        if node.task is not None:
            found.setdefault(node.task.key, []).append((node, node.task))
    return {key: _ordered(chain) for key, chain in found.items()}


def _ordered(chain: Chain) -> Chain:
    """By stage, and by attempt where there are several; by position where events do not say which attempt they are."""
    if max(Counter(task.stage for _, task in chain).values()) == 1:
        return sorted(chain, key=lambda pair: pair[1].stage)
    if all(task.attempt is not None or task.stage == 0 for _, task in chain):
        return sorted(chain, key=lambda pair: (pair[1].attempt or 0, pair[1].stage, pair[0].position))
    return chain


def task_pairs(tasks: Chains) -> list[tuple[NodeState, NodeState, str]]:
    """What follows from what by ``task_id`` and by ``depends_on``, where no cause was recorded."""
    found: list[tuple[NodeState, NodeState, str]] = []
    for key, chain in tasks.items():
        for (before, _), (after, _) in pairwise(chain):
            if after.cause is None:
                found.append((before, after, "task_id"))
        # A task that waits is scheduled long before: what it waits for leads to its beginning.
        begun = next((node for node, task in chain if task.stage >= STARTED), None)
        if begun is None or begun.cause is not None:
            continue
        for other in _depends_on(chain):
            ended = tasks[other][-1] if other in tasks and other != key else None
            if ended is not None and ended[1].stage == ENDED:
                found.append((ended[0], begun, "depends_on"))
    return found


def _depends_on(chain: Chain) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for _, task in chain for other in task.depends_on))


def shape_tasks(correlation_id: str, tasks: Chains) -> list[GraphTask]:
    """The tasks as readers get them."""
    return [_shape(correlation_id, key, chain, tasks) for key, chain in tasks.items()]


def _shape(correlation_id: str, key: str, chain: Chain, tasks: Chains) -> GraphTask:
    depends = _depends_on(chain)
    positions = [node.position for node, _ in chain]
    last = chain[-1][1]
    return GraphTask(
        correlation_id=correlation_id,
        task_id=key,
        name=next((task.name for _, task in chain if task.name), None),
        status=last.status,
        depends_on=depends,
        unknown=tuple(other for other in depends if other not in tasks),
        parent_task_id=next((task.parent for _, task in chain if task.parent), None),
        attempts=sum(task.stage == STARTED for _, task in chain),
        first_position=min(positions),
        last_position=max(positions),
        error=last.error,
    )


def task_cycles(tasks: Chains) -> list[tuple[str, ...]]:
    """Groups of tasks that wait for themselves."""
    keys = list(tasks)
    numbers = {key: number for number, key in enumerate(keys)}
    waits = [[numbers[other] for other in _depends_on(chain) if other in numbers] for chain in tasks.values()]
    return [tuple(sorted(keys[number] for number in group)) for group in cycles(waits)]
