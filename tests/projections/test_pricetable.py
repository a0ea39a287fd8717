"""Price tables: exact numbers from files and mappings; an error says where it is and what to write instead."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.pricetable import read_prices
from chatsnapshot.projections.pricing import Used

TOML = """
currency = "USD"

[[prices]]
model = "large-2"
input = 0.1
output = 0.2

[[prices]]
model = "large-2"
input = 0.3
output = 0.2
valid_from = 2026-12-01
"""


def cost(
    table: Any, model: str = "m", provider: str | None = None, day: str | None = None, **used: Any
) -> Any:
    return table.cost(model, provider, day, Used(**{"input": 10**6, "output": 0, **used}))


def test_numbers_of_a_json_file_are_read_digit_by_digit(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"currency": "USD", "models": {"m": {"input": 0.10000000001, "output": 1e-3}}}')
    assert cost(read_prices(path)) == ("USD", Decimal("0.10000000001"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read from Python 3.11 on")
def test_a_toml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TOML)
    table = read_prices(path)
    assert cost(table, "large-2", day="2026-11-30") == ("USD", Decimal("0.1"))
    assert cost(table, "large-2", day="2026-12-01") == ("USD", Decimal("0.3"))
    assert cost(table, "large-2") is None  # the day is unknown, and prices changed


def test_the_price_that_says_most_exactly_what_it_is_for_wins() -> None:
    row = {"input": 1, "output": 1}
    table = read_prices(
        {
            "currency": "USD",
            "prices": [
                {"model": "*", **row},
                {"model": "large-*", **row, "input": 2},
                {"model": "large-2", **row, "input": 3},
                {"model": "*", "provider": "acme", **row, "input": 4, "currency": "EUR"},
            ],
        }
    )
    assert cost(table, "small") == ("USD", 1)
    assert cost(table, "large-9") == ("USD", 2)
    assert cost(table, "large-2") == ("USD", 3)
    assert cost(table, "large-2", "acme") == ("EUR", 4)


def test_brackets_in_a_pattern_mean_themselves() -> None:
    table = read_prices({"currency": "USD", "models": {"large-*[1m]": {"input": 1, "output": 1}}})
    assert cost(table, "large-2[1m]") == ("USD", 1)
    assert cost(table, "large-21") is None


def test_caches_and_reasoning_count_as_the_table_says() -> None:
    row = {"model": "m", "input": 10, "output": 20, "cache_read": 1, "reasoning": 5}
    counts = {"input": 10**6, "output": 10**6, "cache_read": 400_000, "reasoning": 500_000}
    inside = read_prices({"currency": "USD", "prices": [row]})
    assert cost(inside, **counts) == ("USD", Decimal("6") + Decimal("0.4") + Decimal("10") + Decimal("2.5"))
    apart = read_prices(
        {"currency": "USD", "prices": [{**row, "cache_in_input": False, "reasoning_in_output": False}]}
    )
    assert cost(apart, **counts) == ("USD", Decimal("10") + Decimal("0.4") + Decimal("20") + Decimal("2.5"))
    free = read_prices({"currency": "USD", "prices": [{"model": "m", "input": 1, "output": 0}]})
    assert cost(free, output=None) == ("USD", 1)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "there is no price in it"),
        ({"price": []}, "the key 'price' is unknown; did you mean 'prices'"),
        ({"prices": {}}, "prices: this is a list"),
        ({"models": []}, "models: this is an object with models as keys"),
        ({"prices": [{"model": "m", "input": 1}]}, r"prices\[0\].currency: missing"),
        ({"currency": "$", "prices": [{"model": "m", "input": 1}]}, r"currency: '\$'"),
        ({"currency": "USD", "prices": [7]}, r"prices\[0\]: a price is an object"),
        ({"currency": "USD", "prices": [{"input": 1}]}, r"prices\[0\].model: this is the name"),
        ({"currency": "USD", "models": {"m": {}}}, r"models\['m'\]: no price for 'm'"),
        ({"currency": "USD", "models": {"m": {"input": -1}}}, r"models\['m'\].input: -1 is below 0"),
        ({"currency": "USD", "models": {"m": {"input": True}}}, "True is no price"),
        ({"currency": "USD", "models": {"m": {"input": "cheap"}}}, "'cheap' is no price"),
        ({"currency": "USD", "models": {"m": {"input": float("nan")}}}, "nan is no price"),
        ({"currency": "USD", "models": {"m": {"input": Decimal("1E-20")}}}, "more than 12 digits"),
        ({"currency": "USD", "models": {"m": {"input": Decimal("1E+99999")}}}, "more than 12 digits"),
        (
            {"currency": "USD", "models": {"m": {"input": 10**5000}}},
            "a number of thousands of digits has more",
        ),
        ({"currency": "USD", "models": {"m": {"inptu": 1}}}, "did you mean 'input'"),
        ({"currency": "USD", "models": {"m": {"input": 1, "valid_from": "2026-02-30"}}}, "is no day"),
        ({"currency": "USD", "models": {"m": {"input": 1, "cache_in_input": 1}}}, "neither true nor false"),
        ({"currency": "USD", "models": {"m": [{"input": 1}, {"input": 2}]}}, "for the same days at"),
    ],
)
def test_a_table_that_cannot_be_read_says_where_and_why(table: Any, said: str) -> None:
    with pytest.raises(InvalidEvent, match=said):
        read_prices(table)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.json", b'{"currency": "USD",\n"prices" [', r"p\.json, line 2: the price table is no JSON"),
        ("p.json", b'{"models": {},\n"models": {}}', "the key 'models' stands there twice"),
        ("p.json", b"[]", "is an object with prices, not a list"),
        ("p.json", b'{"currency": NaN}', "NaN is no price"),
        ("p.json", b'{"currency":\n"\xff"}', r"p\.json, line 2: the price table is no UTF-8"),
        ("p.json", b"[" * 100_000, r"p\.json"),
        ("p.toml", b'currency = "USD"\nprices = [', r"p\.toml"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line(
    tmp_path: Path, name: str, text: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(InvalidEvent, match=said):
        read_prices(tmp_path / name)
