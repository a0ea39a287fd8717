"""Reads a price table from a JSON or TOML file, or from a mapping; an error names the file, the line or the key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.pricing import TOKEN_KINDS, Price, PriceTable

__all__ = ["read_prices"]

DIGITS_MAX = 12
"""Digits of a price before and after the point."""

_KEYS = ("model", "provider", "valid_from", "currency", *TOKEN_KINDS, "cache_in_input", "reasoning_in_output")
_CURRENCY = re.compile(r"[A-Za-z][A-Za-z0-9 _.-]{0,15}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_prices(source: str | Path | Mapping[str, Any]) -> PriceTable:
    """The price table of a file (``.toml``, else JSON) or a mapping.

    ``{"currency": "USD", "prices": [{"model": "large-*", "input": "2.50", "output": 10}, …]}``, or the models as keys:
    ``{"currency": "USD", "models": {"large-*": {"input": "2.50", "output": 10}}}``, of several a list by ``valid_from``.
    Numbers are read digit by digit. Raises :class:`~chatsnapshot.errors.InvalidEvent` for a table that cannot be read,
    ``OSError`` for a file that cannot.
    """
    if isinstance(source, Mapping):
        return _table(source, "the price table")
    path = Path(source)
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidEvent(f"{path}, line {line}: the price table is no UTF-8 text") from None
    return _table(_toml(path, text) if path.suffix.lower() == ".toml" else _json(path, text), str(path))


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(
            text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_without_twins
        )
    except json.JSONDecodeError as error:
        raise InvalidEvent(f"{path}, line {error.lineno}: the price table is no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(f"{path}: the price table cannot be read: {error}") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no price")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twin!r} stands there twice")
    return found


def _toml(path: Path, text: str) -> Any:
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]  # from Python 3.11 on
    except ImportError:
        raise InvalidEvent(
            f"{path}: TOML is read from Python 3.11 on; write the price table as JSON"
        ) from None
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise InvalidEvent(f"{path}: the price table is no TOML: {error}") from None


def _table(said: Any, where: str) -> PriceTable:
    if not isinstance(said, Mapping):
        raise InvalidEvent(f"{where}: a price table is an object with prices, not {_kind(said)}")
    _known(said, ("currency", "prices", "models"), where)
    currency = said.get("currency")
    rows = [*_listed(said.get("prices"), where), *_by_model(said.get("models"), where)]
    if not rows:
        raise InvalidEvent(f"{where}: there is no price in it; write them under 'prices' or 'models'")
    prices = [_price(row, currency, f"{where}, {place}") for place, row in rows]
    seen: dict[tuple[str, str | None, str | None], str] = {}
    for (place, _), price in zip(rows, prices, strict=True):
        first = seen.setdefault((price.model, price.provider, price.valid_from), place)
        if first != place:
            raise InvalidEvent(
                f"{where}, {place}: {price.model!r} has a price for the same days at {first} already"
            )
    return PriceTable(prices)


def _listed(said: Any, where: str) -> list[tuple[str, Any]]:
    if said is None:
        return []
    if not isinstance(said, (list, tuple)):
        raise InvalidEvent(f"{where}, prices: this is a list of prices, not {_kind(said)}")
    return [(f"prices[{number}]", row) for number, row in enumerate(said)]


def _by_model(said: Any, where: str) -> list[tuple[str, Any]]:
    if said is None:
        return []
    if not isinstance(said, Mapping):
        raise InvalidEvent(f"{where}, models: this is an object with models as keys, not {_kind(said)}")
    rows: list[tuple[str, Any]] = []
    for model, given in said.items():
        several = isinstance(given, (list, tuple))
        for number, row in enumerate(given if several else [given]):
            place = f"models[{str(model)!r:.80}]" + (f"[{number}]" if several else "")
            rows.append((place, {"model": model, **row} if isinstance(row, Mapping) else row))
    return rows


def _price(row: Any, currency: Any, where: str) -> Price:
    if not isinstance(row, Mapping):
        raise InvalidEvent(f"{where}: a price is an object with model, input, output, …, not {_kind(row)}")
    _known(row, _KEYS, where)
    model = row.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidEvent(f"{where}.model: this is the name of a model, or a pattern, not {_shown(model)}")
    provider = row.get("provider")
    if provider is not None and (not isinstance(provider, str) or not provider):
        raise InvalidEvent(f"{where}.provider: this is a name, not {_shown(provider)}")
    named = row.get("currency", currency)
    if not isinstance(named, str) or _CURRENCY.fullmatch(named) is None:
        raise InvalidEvent(
            f'{where}.currency: {"missing" if named is None else _shown(named)}; write a code such as "USD", '
            "here or once for the whole table"
        )
    amounts = {kind: _amount(row.get(kind), f"{where}.{kind}") for kind in TOKEN_KINDS}
    if all(amount is None for amount in amounts.values()):
        raise InvalidEvent(f"{where}: no price for {model!r}; write input, output, … for 1,000,000 tokens")
    flags = {key: _flag(row.get(key, True), f"{where}.{key}") for key in _KEYS[-2:]}
    return Price(
        model=model,
        currency=named,
        provider=provider,
        valid_from=_day(row.get("valid_from"), f"{where}.valid_from"),
        **amounts,  # type: ignore[arg-type]
        **flags,  # type: ignore[arg-type]
    )


def _amount(said: Any, where: str) -> Decimal | None:
    if said is None:
        return None
    amount = None
    if isinstance(said, (int, Decimal)) and not isinstance(said, bool):
        amount = Decimal(said)
    elif isinstance(said, float):
        amount = Decimal(repr(said))
    elif isinstance(said, str) and re.fullmatch(r"\d{1,40}(\.\d{1,40})?", said.strip()):
        amount = Decimal(said.strip())
    if amount is None or not amount.is_finite():
        raise InvalidEvent(f"{where}: {_shown(said)} is no price for 1,000,000 tokens, such as 2.50")
    if amount < 0:
        raise InvalidEvent(f"{where}: {_shown(said)} is below 0; a price is 0 or more")
    digits, exponent = amount.normalize().as_tuple()[1:]
    if isinstance(exponent, int) and (-exponent > DIGITS_MAX or len(digits) + exponent > DIGITS_MAX):
        raise InvalidEvent(
            f"{where}: {_shown(said)} has more than {DIGITS_MAX} digits before or after the point"
        )
    return amount


def _day(said: Any, where: str) -> str | None:
    if said is None:
        return None
    text = said.isoformat() if isinstance(said, date) and not isinstance(said, datetime) else said
    if isinstance(text, str) and _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
    raise InvalidEvent(f"{where}: {_shown(said)} is no day, such as 2026-01-31 (UTC)")


def _flag(said: Any, where: str) -> bool:
    if not isinstance(said, bool):
        raise InvalidEvent(f"{where}: {_shown(said)} is neither true nor false")
    return said


def _known(said: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in said:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(keys)}"
            raise InvalidEvent(f"{where}: the key {str(key)!r:.80} is unknown; {meant}")


def _kind(said: Any) -> str:
    return "nothing" if said is None else f"a {type(said).__name__}"


def _shown(said: Any) -> str:
    try:
        return str(said) if isinstance(said, Decimal) else f"{said!r:.80}"
    except ValueError:  # Python does not write whole numbers of more than 4,300 digits
        return "a number of thousands of digits"
