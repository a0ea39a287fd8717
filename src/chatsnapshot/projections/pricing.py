"""What a model call costs, by a price table of the user's: exact decimals, and unknown where the table has a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact
from fnmatch import fnmatchcase

import msgspec

__all__ = ["TOKEN_KINDS", "Price", "PriceTable", "Used", "plain_amount"]

TOKEN_KINDS = ("input", "output", "cache_read", "cache_write", "reasoning")

EXACT = Context(prec=100, traps=[Inexact])
"""Every product and sum is exact; a digit that were lost would raise."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a model for 1,000,000 tokens of each kind, in ``currency``; ``None``: the table does not say.

    ``model`` is a name or a pattern with ``*`` and ``?``; ``provider`` narrows it; ``valid_from`` is the first day (UTC,
    ``YYYY-MM-DD``). Without ``reasoning`` these tokens cost what ``output`` costs. ``cache_in_input``: the provider
    counts tokens from and to caches among the input; ``reasoning_in_output`` likewise.
    """

    model: str
    currency: str
    provider: str | None = None
    valid_from: str | None = None
    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None
    cache_in_input: bool = True
    reasoning_in_output: bool = True

    def fits(self, model: str, provider: str | None) -> bool:
        """Whether the price is one of this model."""
        if self.provider is not None and self.provider != provider:
            return False
        return self.model == model or fnmatchcase(model, self.model.replace("[", "[[]"))

    @property
    def exactness(self) -> tuple[bool, bool, int]:
        """Larger for the price that says more exactly which model it is for."""
        pattern = any(sign in self.model for sign in "*?")
        literal = sum(sign not in "*?" for sign in self.model)
        return self.provider is not None, not pattern, literal


class Used(msgspec.Struct, frozen=True):
    """Tokens of one call, or the sum over calls that know the same counts; ``None``: unknown.

    ``cache_over``, ``reasoning_over``: more tokens from and to caches than input, more reasoning than output.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cache_over: bool = False
    reasoning_over: bool = False


class PriceTable:
    """Prices by model and day. :func:`chatsnapshot.projections.pricetable.read_prices` makes one."""

    def __init__(self, prices: Iterable[Price] = ()) -> None:
        self.prices = tuple(prices)
        self._found: dict[tuple[str, str | None, str | None], Price | None] = {}

    def price(self, model: str | None, provider: str | None, day: str | None) -> Price | None:
        """The price of a model on a day (``YYYY-MM-DD``, ``None``: unknown), or ``None``.

        Of the prices that fit and are valid that day: one that names the provider before one that does not, a name
        before a pattern, a longer pattern before a shorter one, then the latest ``valid_from``.
        """
        if model is None:
            return None
        key = model, provider, day
        if key not in self._found:
            self._found[key] = self._price(*key)
        return self._found[key]

    def _price(self, model: str, provider: str | None, day: str | None) -> Price | None:
        fitting = [one for one in self.prices if one.fits(model, provider)]
        if day is None and any(one.valid_from for one in fitting):
            return None
        valid = [
            one for one in fitting if one.valid_from is None or (day is not None and one.valid_from <= day)
        ]
        return max(valid, key=lambda one: (one.exactness, one.valid_from or ""), default=None)

    def cost(
        self, model: str | None, provider: str | None, day: str | None, used: Used
    ) -> tuple[str, Decimal] | None:
        """Currency and exact amount, or ``None`` where the table or the counts have a gap."""
        price = self.price(model, provider, day)
        if price is None:
            return None
        amount = _amount(price, used)
        return None if amount is None else (price.currency, amount)


def plain_amount(amount: Decimal) -> str:
    """An amount in digits, exact and without an exponent: ``0.0000004``, ``12``."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def sum_of(amounts: Mapping[str, Decimal], currency: str, more: Decimal) -> Decimal:
    """The exact sum of what is there and ``more``."""
    return EXACT.add(amounts.get(currency, Decimal(0)), more)


def _amount(price: Price, used: Used) -> Decimal | None:
    cached, thought = used.cache_read + used.cache_write, used.reasoning
    if (price.cache_in_input and used.cache_over) or (price.reasoning_in_output and used.reasoning_over):
        return None
    read, written = used.input, used.output
    if read is not None and price.cache_in_input:
        read -= cached
    if written is not None and price.reasoning_in_output:
        written -= thought
    total = Decimal(0)
    for count, each in (
        (read, price.input),
        (written, price.output),
        (used.cache_read, price.cache_read),
        (used.cache_write, price.cache_write),
        (thought, price.output if price.reasoning is None else price.reasoning),
    ):
        if count == 0 or each == 0:
            continue
        if count is None or each is None:
            return None
        total = EXACT.add(total, EXACT.multiply(Decimal(count), each))
    return EXACT.multiply(total, Decimal("0.000001"))
