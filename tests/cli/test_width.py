"""Columns, not characters: what stands in a table stays aligned."""

from __future__ import annotations

import pytest

from chatsnapshot.cli.width import columns, cut, pad

E_ACUTE = "e\u0301"


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("", 0),
        ("plain", 5),
        ("日本語", 6),
        ("ｶﾅ", 2),
        (f"caf{E_ACUTE}", 4),
        ("👍", 2),
        ("한글", 4),
        ("\u1112\u1161\u11ab", 2),  # the same syllable in conjoining letters
        ("soft\u00adhyphen", 11),
        ("├─ ", 3),
    ],
)
def test_a_text_is_measured_in_columns(text: str, wide: int) -> None:
    assert columns(text) == wide


def test_a_text_that_fits_is_not_cut() -> None:
    assert cut("日本語", 6) == "日本語"


def test_a_cut_never_splits_a_wide_character() -> None:
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 4) == "日…"


def test_a_cut_keeps_combining_marks_with_their_letter() -> None:
    assert cut(E_ACUTE * 5, 3) == E_ACUTE * 2 + "…"


def test_a_cut_to_nearly_nothing_still_ends() -> None:
    assert cut("abcdef", 1) == "…"
    assert cut("abcdef", 2, "...") == ".."
    assert cut("abcdef", 0) == ""


def test_padding_counts_columns() -> None:
    assert pad("日本", 6) == "日本  "
    assert pad("日本", 6, right=True) == "  日本"
