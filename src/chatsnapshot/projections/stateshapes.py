"""The shapes that readers of states get: the last state of every run, task, process, step, question and agent."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["States", "Subject"]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Something with a state, and the last that was recorded of it.

    ``kind``: ``run``, ``workflow``, ``task``, ``process`` (what ``system.state_transition`` names), ``step`` (what
    ``execution.state_change`` names), ``question`` or ``agent``. ``state``: ``unfinished``, ``paused``, ``completed``,
    ``failed`` or ``cancelled`` of runs and workflows; ``scheduled``, ``started``, ``retried``, ``completed``, ``failed``
    or ``cancelled`` of tasks; ``open`` or ``answered`` of questions; of processes and steps the state itself, of agents
    what they did last. ``value`` is the state as a JSON value where it is more than a word. ``since`` is when that
    happened, at ``position``; ``changes`` counts what was recorded of it, the first of it at ``first_position``.
    """

    kind: str
    id: str
    name: str | None
    state: str
    value: Any
    before: str | None
    reason: str | None
    since: str | None
    position: int
    first_position: int
    changes: int
    correlation_id: str
    erased: bool


class States(msgspec.Struct, frozen=True):
    """The states under one correlation and its children, in the order in which the subjects first appeared."""

    correlation_id: str
    last_position: int
    subjects: tuple[Subject, ...]
