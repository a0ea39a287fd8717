"""Interleaved measuring: contestants take turns, the median of the rounds is reported with its spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

Contestant = Callable[[], int]
"""Does its work once and gives the number of items it did."""


class Result(NamedTuple):
    """Items a second in each round."""

    rates: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        """(largest − smallest) / median over the rounds."""
        return (max(self.rates) - min(self.rates)) / self.median


def interleave(
    contestants: Mapping[str, Contestant],
    rounds: int = 5,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Result]:
    """Let contestants take turns; the order is turned round every other round, so that drift favours nobody.

    ``before`` is done in front of each turn and is not measured. ``clock`` gives seconds.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds + 1):
        for name in names if number % 2 else reversed(names):
            before()
            gc.collect()
            begin = clock()
            items = contestants[name]()
            took = clock() - begin
            if number:  # the first round warms up
                rates[name].append(items / took)
    return {name: Result(found) for name, found in rates.items()}


def ratio(mine: Result, other: Result) -> float:
    """Median over the rounds of the ratio inside one round: noise that hits a whole round cancels out."""
    return statistics.median(one / two for one, two in zip(mine.rates, other.rates, strict=True))


def row(
    what: str, mine: Result, other: Result, other_name: str, wanted: float | None, unit: str = "events/s"
) -> str:
    """One line of the report; says whether the ratio is what we promise."""
    found = ratio(mine, other)
    verdict = "" if wanted is None else ("  ok" if found >= wanted else f"  BELOW {wanted:g}")
    return (
        f"{what:<44} us {mine.median:>11,.0f} {unit} ±{mine.spread:4.0%}   {other_name} {other.median:>11,.0f} "
        f"±{other.spread:4.0%}   ratio {found:5.2f}{verdict}"
    )
