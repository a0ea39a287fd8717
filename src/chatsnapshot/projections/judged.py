"""Filters runs by their evaluations: ``correctness``, ``correctness>=0.8``, ``helpful=yes``, ``tone!=rude``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.shapes import Run

__all__ = ["Condition", "keep", "parse"]

_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(?:(<=|>=|!=|==|=|<|>)\s*(.+?)\s*)?")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


class Condition(msgspec.Struct, frozen=True):
    """What a run's latest evaluation of that name must say; without ``operator`` it must only be there."""

    name: str
    operator: str | None = None
    value: str = ""

    def holds(self, run: Run) -> bool:
        """Whether it holds for a run; the latest evaluation of each name counts, per evaluated event or run."""
        latest = {one.target_event_id: one for one in run.evaluations if one.name == self.name}
        return any(self._fits(one.score, one.label) for one in latest.values())

    def _fits(self, score: float | None, label: str | None) -> bool:
        if self.operator is None:
            return True
        wanted = _number(self.value)
        if self.operator in _OPERATORS:
            return wanted is not None and score is not None and _OPERATORS[self.operator](score, wanted)
        same = label == self.value or (wanted is not None and score == wanted)
        return same if self.operator in ("=", "==") else not same


def parse(text: str) -> Condition:
    """A condition from its text: ``NAME``, or a name, one of ``= != < <= > >=``, and a number or label.

    Raises :class:`InvalidEvent` for one that cannot be read, and for an order of something that is no number.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidEvent(f"{text!r:.80} is no condition; write NAME, NAME=LABEL or NAME>=NUMBER")
    name, sign, value = found.groups()
    if sign in _OPERATORS and _number(value) is None:
        raise InvalidEvent(
            f"{sign} compares with a number, and {value!r:.80} is none; a label goes with = or !="
        )
    return Condition(name, sign, value or "")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number - number == 0 else None


def keep(runs: Iterable[Run], conditions: Sequence[Condition]) -> list[Run]:
    """The runs for which every condition holds, in their trees: above one that is kept all are kept."""
    kept: list[Run] = []
    for run in runs:
        children = tuple(keep(run.children, conditions))
        if children or all(condition.holds(run) for condition in conditions):
            kept.append(msgspec.structs.replace(run, children=children))
    return kept
