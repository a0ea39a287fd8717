"""The checks of the contract and the cells of its table: which stories each check is for, and how one is run."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from chatsnapshot.testing.adaptercontract.bench import FURTHER_LACKS, SCENARIOS, AdapterBench
from chatsnapshot.testing.adaptercontract.history import History
from chatsnapshot.testing.adaptercontract.playing import Played, Stage
from chatsnapshot.testing.expecting import Failed, Skipped

__all__ = ["COLUMNS", "Case", "Cell", "CellResult", "cells", "check", "wrong_lacks"]

COLUMNS: dict[str, tuple[str, ...]] = {
    "messages": ("plain",),
    "tools": ("parallel_tools",),
    "errors": ("tool_error", "model_error"),
    "handoff": ("handoff",),
    "sub-agent": ("sub_agent",),
    "human": ("interruption",),
    "resume": ("interruption",),
    "streaming": ("streaming",),
}
"""The columns of the table of runtimes, and the stories that each of them stands for."""

RESUMING = "a_resumed_run_keeps_its_correlation_and_is_caused_by_the_answer"
"""The check that the column ``resume`` asks for besides what ``human`` does."""


class Case:
    """One story of one bench, as a check looks at it."""

    def __init__(self, stage: Stage, scenario: str) -> None:
        self.stage = stage
        self.bench: AdapterBench = stage.bench
        self.scenario = scenario

    def played(self, setting: str) -> Played:
        """The story under a setting of :data:`~chatsnapshot.testing.adaptercontract.playing.SETTINGS`."""
        return self.stage.play(self.scenario, setting)

    @property
    def recorded(self) -> Played:
        """The story, recorded by one recorder on a ledger that is well."""
        return self.played("recorded")

    @property
    def history(self) -> History:
        """What was recorded of it."""
        return self.recorded.history

    def lacks(self, what: str) -> str | None:
        """Why the runtime has no such thing."""
        return self.bench.lacks.get(what)


class Check(NamedTuple):
    """One named rule of the contract, and the stories that it is about."""

    name: str
    scenarios: tuple[str, ...]
    needs: str | None
    function: Callable[[Case], None]


_checks: dict[str, Check] = {}


def check(
    *scenarios: str, needs: str | None = None
) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Make a function a check of these stories (of all, when none is named); its name says the rule.

    ``needs`` is one of :data:`FURTHER_LACKS`: where the bench lacks it the check is not run.
    """

    def register(function: Callable[[Case], None]) -> Callable[[Case], None]:
        name = function.__name__
        wanted = scenarios or tuple(SCENARIOS)
        if not set(wanted) <= SCENARIOS.keys() or name in _checks or (needs and needs not in FURTHER_LACKS):
            raise ValueError(f"check {name}: an unknown story or need, or a name that is taken")
        _checks[name] = Check(name, wanted, needs, function)
        return function

    return register


class CellResult(msgspec.Struct, frozen=True):
    """What became of one cell. ``status`` is ``passed``, ``failed``, ``skipped`` or ``has none``."""

    scenario: str
    check: str
    status: str
    seconds: float
    detail: str = ""


class Cell(NamedTuple):
    """One rule for one story."""

    scenario: str
    check: Check

    def __str__(self) -> str:
        return f"{self.scenario}-{self.check.name}"

    def lacking(self, bench: AdapterBench) -> str | None:
        """Why the runtime has nothing for it; ``None`` when it must hold."""
        return bench.lacks.get(self.scenario) or (
            bench.lacks.get(self.check.needs) if self.check.needs else None
        )

    def judge(self, stage: Stage) -> None:
        """Run it; raises :class:`Failed`, :class:`Skipped`, or whatever the bench raises."""
        case = Case(stage, self.scenario)
        try:
            self.check.function(case)
        except Failed as why:
            told = case.history.told() if (self.scenario, "recorded") in stage.done() else ""
            raise Failed(f"{why}\n{told}".rstrip()) from why

    def run(self, stage: Stage) -> CellResult:
        """Run it, never raising."""
        started = time.monotonic()
        status, detail = "passed", ""
        if (why := self.lacking(stage.bench)) is not None:
            return CellResult(self.scenario, self.check.name, "has none", 0.0, why)
        try:
            self.judge(stage)
        except Skipped as reason:
            status, detail = "skipped", str(reason)
        except Failed as error:
            status, detail = "failed", str(error)
        except Exception:
            status, detail = "failed", traceback.format_exc()
        return CellResult(self.scenario, self.check.name, status, time.monotonic() - started, detail)


def cells(only: str = "") -> list[Cell]:
    """Every cell of the contract; ``only`` keeps the stories and rules whose name holds the text."""
    return list(_cells(only.replace(" ", "_")))


def _cells(only: str) -> Iterator[Cell]:
    import chatsnapshot.testing.adaptercontract.rules  # noqa: F401 (the modules register their checks)

    for scenario in SCENARIOS:
        for one in _checks.values():
            cell = Cell(scenario, one)
            if scenario in one.scenarios and only in str(cell):
                yield cell


def wrong_lacks(bench: AdapterBench) -> str | None:
    """What is wrong with what a bench says that its runtime lacks; ``None`` when nothing is."""
    for what, why in bench.lacks.items():
        if what not in SCENARIOS and what not in FURTHER_LACKS:
            return f"lacks[{what!r}] is no story; there are {', '.join([*SCENARIOS, *FURTHER_LACKS])}"
        if not why.strip():
            return f"lacks[{what!r}] needs a reason: why the runtime has none"
    return None
