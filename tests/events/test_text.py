"""No character of an agent's text moves a cursor, hides or reorders what stands beside it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.events.text import one_line, visible

anything = st.text(st.characters(categories=["L", "N", "P", "Z", "C", "S", "M"]))


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\rb\nc", "a␍b␊c"),
        ("\x7f\x00", "␡␀"),
        ("\x9b2J", "<U+009B>2J"),
        ("abc\u202etxt.exe", "abc<U+202E>txt.exe"),
        ("\u2066x\u2069", "<U+2066>x<U+2069>"),
        ("a\u2028b\ufeff", "a<U+2028>b<U+FEFF>"),
        ("\ud800", "<U+D800>"),
        ("a\U000e0041", "a<U+E0041>"),
        ("tab\there", "tab here"),
        ("Grüße 你好 👩\u200d🚀 می\u200cخواهم", "Grüße 你好 👩\u200d🚀 می\u200cخواهم"),
    ],
)
def test_a_control_character_is_shown_instead_of_obeyed(given_text: str, shown: str) -> None:
    assert visible(given_text) == shown


def test_line_feeds_stay_where_the_caller_lays_out_lines() -> None:
    assert visible("a\r\nb\nc\rd", newlines=True) == "a\nb\nc␍d"


@given(anything)
def test_nothing_unsafe_is_left_in_any_text(text: str) -> None:
    shown = visible(text)
    assert not [
        c
        for c in shown
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(c) in _BIDI
    ]
    assert visible(shown) == shown


_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(anything, st.integers(1, 60))
def test_a_text_on_one_line_is_no_longer_than_asked(text: str, size: int) -> None:
    assert len(one_line(text, size)) <= size
    assert "\n" not in one_line(text, size)


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert one_line("one   two\nthree", 8) == "one two…"
    assert one_line("x" * 10_000_000, 5) == "xxxx…"
