"""Chooses what fits: the closest units first, each whole, and the finished text counted before it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chatsnapshot.errors import LimitExceeded
from chatsnapshot.projections.context.gathering import Unit
from chatsnapshot.projections.context.records import records_of
from chatsnapshot.projections.context.shapes import ContextItem, Elision, Part, Rendered
from chatsnapshot.projections.context.tokens import Counter

__all__ = ["Chooser", "Chosen"]

_MISSES_MAX = 24
"""After so many units in a row that did not fit, no further one is tried."""

_MEASURED_IN_VAIN_MAX = 3
"""So often the whole is counted for one more unit that then does not fit."""

Chosen = tuple[list[Part], Rendered, int]
"""The parts in order of position, what they look like, and its tokens."""


class Chooser:
    """Finds the closest units whose finished form is within a budget.

    ``units`` are in order of position; ``order`` gives their numbers with why, closest first. ``limits`` are bytes
    a text may have, tried from the first on until the closest unit fits.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        order: Sequence[tuple[int, str]],
        render: Callable[[Sequence[Part]], Rendered],
        counter: Counter,
        budget_tokens: int,
        limits: Sequence[int],
    ) -> None:
        self._units = units
        self._order = order
        self._render = render
        self._counter = counter
        self._budget = budget_tokens
        self._limits = limits
        self._items: dict[tuple[int, int], ContextItem] = {}
        self._why = dict(order)
        self._alone: dict[int, int] = {}
        """About what a unit adds to the tokens, as far as it is known."""

    def choose(self) -> Chosen:
        """The choice; raises :class:`LimitExceeded` that says the smallest budget when not one item fits."""
        bytes_max = self._limit()
        taken, rest = self._roughly(bytes_max)
        wanted = taken
        taken = self._fitting(taken, bytes_max)
        rest = wanted[len(taken) :] + rest
        if not taken:
            taken, bytes_max = self._single()
            rest = [number for number, _ in self._order if number != taken[0]]
        made = self._measured(taken, bytes_max)
        misses = 0
        for number in rest[:_MISSES_MAX]:
            if misses < _MEASURED_IN_VAIN_MAX and made[2] + self._alone.get(number, 0) <= self._budget:
                more = self._measured([*taken, number], bytes_max)
                if more[2] <= self._budget:
                    taken, made = [*taken, number], more
                else:
                    misses += 1
        return made

    def _limit(self) -> int:
        """The first limit at which the closest unit fits, so that it is rather shortened than left out."""
        closest = [self._order[0][0]]
        fits = (limit for limit in self._limits if self._measured(closest, limit)[2] <= self._budget)
        return next(fits, self._limits[0])

    def _roughly(self, bytes_max: int) -> tuple[list[int], list[int]]:
        """Numbers whose tokens, each counted alone, fill the budget; and those after them that may fit still."""
        spent = self._measured([], bytes_max)[2]
        taken: list[int] = []
        rest: list[int] = []
        misses = 0
        empty = self._counter(self._render([]).text)
        for number, _ in self._order:
            alone = max(self._counter(self._render([self._item(number, bytes_max)]).text) - empty, 0)
            self._alone[number] = alone
            if spent + alone <= self._budget:
                taken.append(number)
                spent += alone
                misses = 0
            else:
                rest.append(number)
                misses += 1
                if misses == _MISSES_MAX:
                    break
        return taken, rest

    def _fitting(self, taken: list[int], bytes_max: int) -> list[int]:
        """The longest beginning of ``taken`` that fits, as finished, with the marks of what is left out."""
        low, high = 0, len(taken)
        while low < high:
            middle = (low + high + 1) // 2
            if self._measured(taken[:middle], bytes_max)[2] <= self._budget:
                low = middle
            else:
                high = middle - 1
        return taken[:low]

    def _single(self) -> tuple[list[int], int]:
        """The closest single unit that fits alone, with the limit of bytes at which it does."""
        smallest: int | None = None
        for number, _ in self._order:
            for bytes_max in self._limits:
                tokens = self._measured([number], bytes_max)[2]
                if tokens <= self._budget:
                    return [number], bytes_max
                smallest = tokens if smallest is None else min(smallest, tokens)
        raise LimitExceeded(
            "budget_tokens",
            self._budget,
            smallest or 0,
            f"that is the smallest budget that holds one item here, so give a budget of {smallest or 0:,} or more",
        )

    def _measured(self, numbers: Sequence[int], bytes_max: int) -> Chosen:
        parts = self._laid_out(sorted(numbers), bytes_max)
        rendered = self._render(parts)
        return parts, rendered, self._counter(rendered.text)

    def _laid_out(self, numbers: Sequence[int], bytes_max: int) -> list[Part]:
        """The items in order of position, and a mark wherever some were left out between them."""
        parts: list[Part] = []
        before = -1
        for number in [*numbers, len(self._units)]:
            if number - before > 1:
                first, last = self._units[before + 1].position, self._units[number - 1].position
                parts.append(Elision(number - before - 1, first, last))
            if number < len(self._units):
                parts.append(self._item(number, bytes_max))
            before = number
        return parts

    def _item(self, number: int, bytes_max: int) -> ContextItem:
        made = self._items.get((number, bytes_max))
        if made is None:
            unit = self._units[number]
            kind = type(unit.item).__struct_config__.tag
            made = self._items[number, bytes_max] = ContextItem(
                unit.position,
                unit.positions,
                unit.correlation_id,
                str(kind),
                self._why.get(number, ""),
                records_of(unit.item, bytes_max),
            )
        return made
