"""Durations, offsets and failures read as people say them; what is unknown is said to be unknown."""

from __future__ import annotations

import pytest

from chatsnapshot.projections.shapes import Errors
from chatsnapshot.projections.times import between, duration
from chatsnapshot.projections.words import duration_text, errors_text, offset_text

MS = 1_000_000
S = 1_000_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (None, "unknown"),
        (0, "0 ms"),
        (1_000, "0.001 ms"),
        (850_000, "0.85 ms"),
        (2_040_000, "2.0 ms"),
        (340 * MS, "340 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.00 s"),
        (12_440 * MS, "12.4 s"),
        (59_950 * MS, "1 m 00 s"),
        (65 * S, "1 m 05 s"),
        (3599 * S + 600 * MS, "1 h 00 m"),
        (2 * 3600 * S + 180 * S, "2 h 03 m"),
        (86_399 * S, "1 d 00 h"),
        (3 * 86_400 * S + 4 * 3600 * S, "3 d 04 h"),
        (-5 * S, "-5.00 s"),
    ],
)
def test_a_duration_reads_in_human_units(nanoseconds: int | None, text: str) -> None:
    assert duration_text(nanoseconds) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (None, "unknown"),
        (0, "+00:00.000"),
        (61_500 * MS, "+01:01.500"),
        (3_600 * S, "+01:00:00.000"),
        (-10 * MS, "-00:00.010"),
    ],
)
def test_an_offset_reads_as_a_clock(nanoseconds: int | None, text: str) -> None:
    assert offset_text(nanoseconds) == text


def test_no_errors_are_no_words() -> None:
    assert errors_text(Errors()) == ""
    assert errors_text(Errors(tool=1, task=2)) == "1 tool error, 2 failed tasks"
    assert (Errors(tool=1) + Errors(tool=2, runs=1)).total == 4


def test_differences_are_exact_and_unknown_where_a_time_is() -> None:
    early, late = "2026-11-30T02:26:03.000001Z", "2026-11-30T02:26:04.000003Z"
    assert between(early, late) == 1_000_002_000
    assert between(late, early) == -1_000_002_000
    assert duration(late, early) is None
    assert between(None, late) is None
    assert between("yesterday", late) is None
