"""Handoffs in workflows until the agent that gets the work begins, which they are the cause of."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["forget", "take", "tell", "told"]

_TOLD_MAX = 1_000
_handoffs: OrderedDict[tuple[str | None, str], str] = OrderedDict()
"""Run of the workflow (run ids are unique) and the agent that the work goes to -> the event that says so."""


def tell(run_id: str | None, target: str, event_id: str) -> None:
    """The work goes to ``target`` in the workflow of that run."""
    _handoffs[run_id, target] = event_id
    if len(_handoffs) > _TOLD_MAX:
        _handoffs.popitem(last=False)


def told(run_id: str | None, target: str) -> bool:
    """Whether somebody has told of it: an agent's own run, or the workflow's."""
    return (run_id, target) in _handoffs


def take(run_id: str | None, target: str) -> str | None:
    """The event that is the cause of the agent that begins, once."""
    return _handoffs.pop((run_id, target), None)


def forget(run_id: str) -> None:
    """The run of the workflow is over."""
    for known in [one for one in _handoffs if one[0] == run_id]:
        _handoffs.pop(known, None)
