"""The estimate of tokens: its error against two vocabularies, as the page on contexts states it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.projections.context.tokens import estimate_tokens, name_of_counter

PAGE = Path(__file__).resolve().parents[2] / "docs" / "context.md"

# Texts with their tokens in two vocabularies; none of them was used to find the rates of the estimate.
MEASURED = json.loads((Path(__file__).parent / "tokens_measured.json").read_text(encoding="utf-8"))


def error(text: str, tokens: int) -> int:
    """By how many percent the estimate is above the true number."""
    return round(100 * (estimate_tokens(text) / tokens - 1))


@pytest.mark.parametrize("name", MEASURED)
def test_the_error_is_the_one_on_the_page(name: str) -> None:
    text, cl100k, o200k = (MEASURED[name][key] for key in ("text", "cl100k_base", "o200k_base"))
    row = re.search(rf"^\| {name} \| (\d+) \| ([+-]\d+) % \| ([+-]\d+) % \|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None, (
        f"| {name} | {estimate_tokens(text)} | {error(text, cl100k):+d} % | {error(text, o200k):+d} % |"
    )
    assert (int(row[1]), int(row[2]), int(row[3])) == (
        estimate_tokens(text),
        error(text, cl100k),
        error(text, o200k),
    )


@given(st.text())
def test_every_text_has_an_estimate_and_more_text_never_has_less(text: str) -> None:
    assert estimate_tokens(text) >= (1 if text else 0)
    assert estimate_tokens(text + " more words") >= estimate_tokens(text)


def test_a_large_text_is_estimated_in_reasonable_time() -> None:
    assert estimate_tokens("word " * 200_000) > 100_000


def test_a_counter_without_a_name_is_named_by_its_class() -> None:
    class Counting:
        def __call__(self, text: str) -> int:
            return 1

    assert name_of_counter(Counting()) == "Counting"
    assert name_of_counter(len) == "len"
