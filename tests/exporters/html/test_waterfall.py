"""The waterfall: which spans get rows, where moments lie, and what is said of what has no bar."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from chatsnapshot.exporters.html.timescale import Scale, scale_of, tick_text
from chatsnapshot.exporters.html.waterrows import choose_rows
from chatsnapshot.projections.views import view

S = 1_000_000_000


@pytest.fixture
def at(ledger: Any) -> Any:
    """``at(second, event_type, payload, correlation, **options)``: an event that happened then."""

    def record(
        second: float, event_type: str, payload: Any, correlation: str = "run-1", **options: Any
    ) -> Any:
        minute, rest = divmod(second, 60)
        hour, minute = divmod(int(minute), 60)
        day, hour = divmod(hour, 24)
        time = f"2026-11-{1 + day:02d}T{hour:02d}:{minute:02d}:{rest:09.6f}Z"
        return ledger.record(event_type, payload, correlation_id=correlation, timestamp=time, **options)

    return record


def scale(ledger: Any) -> Scale:
    rows = choose_rows(view(ledger, "timeline", "run-1"))
    return scale_of(rows.found.spans.values(), rows.first_ns, rows.last_ns)


def test_a_span_stands_below_the_one_that_holds_it(ledger: Any, at: Any) -> None:
    at(0, "execution.run_started", {"name": "outer"})
    call = at(1, "execution.tool_call", {"name": "ask", "call_id": "a"})
    at(2, "execution.run_started", {"name": "inner"}, "child", causation_id=call)
    at(3, "execution.run_completed", {}, "child")
    at(4, "execution.tool_result", {"call_id": "a", "result": 1})
    at(5, "execution.run_completed", {})
    rows = choose_rows(view(ledger, "timeline", "run-1"))
    assert [(row.label, row.depth, row.pieces) for row in rows.rows] == [
        ("run outer", 0, [(0, 5 * S)]),
        ("calls ask()", 1, [(1 * S, 4 * S)]),
        ("run inner", 2, [(2 * S, 3 * S)]),
    ]


def test_a_long_run_gathers_spans_of_one_kind_and_name_also_below_each_other(ledger: Any, at: Any) -> None:
    clock = itertools.count()
    at(next(clock), "execution.run_started", {"name": "all"})
    for number in range(50):
        call = at(
            next(clock),
            "execution.tool_call",
            {"name": "ask", "call_id": f"{number}", "arguments": {"n": number}},
        )
        start = at(next(clock), "execution.run_started", {"name": "reader"}, f"c{number}", causation_id=call)
        look = {"name": "look", "call_id": "x", "arguments": {"page": number}}
        seen = at(next(clock), "execution.tool_call", look, f"c{number}", causation_id=start)
        error = {"error": "no"} if number % 10 == 0 else {"result": 1}
        at(next(clock), "execution.tool_result", {"call_id": "x", **error}, f"c{number}", causation_id=seen)
        at(next(clock), "execution.run_completed", {}, f"c{number}")
        at(next(clock), "execution.tool_result", {"call_id": f"{number}", "result": 1})
    rows = choose_rows(view(ledger, "timeline", "run-1"))
    assert [(row.label, row.count, row.failed, row.depth) for row in rows.rows] == [
        ("run all", 1, 0, 0),
        ("calls ask", 50, 0, 1),
        ("run reader", 50, 0, 2),
        ("calls look", 50, 5, 3),
    ]
    assert (rows.spans, rows.grouped, rows.hidden) == (151, 150, 0)
    assert len(rows.rows[3].bad) == 5


def test_what_failed_has_a_row_also_where_there_is_no_room_for_all(ledger: Any, at: Any) -> None:
    for number in range(30):
        at(number, "execution.tool_call", {"name": f"tool {number}", "call_id": f"{number}"})
        result = {"error": "no"} if number == 7 else {"result": 1}
        at(number + 0.5 + number / 100, "execution.tool_result", {"call_id": f"{number}", **result})
    rows = choose_rows(view(ledger, "timeline", "run-1"), rows_max=5)
    assert [row.label for row in rows.rows] == [
        "calls tool 7()",
        *(f"calls tool {n}()" for n in (26, 27, 28, 29)),
    ]
    assert (rows.spans, rows.hidden) == (30, 25)


def test_deep_levels_are_counted_at_the_row_above_with_what_failed_in_them(ledger: Any, at: Any) -> None:
    for number in range(4):
        at(
            number * 10,
            "execution.run_started",
            {"name": f"run {number}"},
            "run-1" if not number else f"r{number}",
        )
    at(50, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(51, "execution.tool_result", {"call_id": "a", "error": "no"})
    at(52, "execution.tool_call", {"name": "b", "call_id": "b"})
    at(53, "execution.tool_result", {"call_id": "b", "result": 1})
    rows = choose_rows(view(ledger, "timeline", "run-1"), rows_max=2)
    (row,) = rows.rows
    assert (row.inside, row.failed_inside, row.failed) == (2, 1, 0)


def test_a_long_wait_for_a_person_is_drawn_short_and_told(ledger: Any, at: Any, page_of: Any) -> None:
    at(0, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(2, "execution.tool_result", {"call_id": "a", "result": 1})
    asked = at(2, "execution.human_input_requested", {"question": "Pay?"})
    at(2 + 7200, "execution.human_input_received", {"answers": asked.event_id, "answer": "yes"})
    at(2 + 7200, "execution.tool_call", {"name": "b", "call_id": "b"})
    at(4 + 7200, "execution.tool_result", {"call_id": "b", "result": 1})
    drawn = scale(ledger)
    assert [(cut.from_ns, cut.to_ns, cut.waiting) for cut in drawn.cuts] == [(2 * S, 7202 * S, True)]
    assert drawn.at(0) == 0 and drawn.at(7204 * S) == 100
    assert drawn.at(7202 * S) - drawn.at(2 * S) == pytest.approx(7)
    assert drawn.at(1 * S) == pytest.approx(93 / 4)
    text = page_of(ledger).section("time")
    assert "Drawn short, between dotted lines: waits 2 h 00 m from +00:02.000" in text


def test_a_shorter_quiet_stretch_is_drawn_short_too_where_it_would_take_the_rest(
    ledger: Any, at: Any
) -> None:
    for second in (0, 3_600, 360_000):
        at(second, "execution.tool_call", {"name": "a", "call_id": f"{second}"})
        at(second + 60, "execution.tool_result", {"call_id": f"{second}", "result": 1})
    drawn = scale(ledger)
    assert [(cut.from_ns // S, cut.to_ns // S) for cut in drawn.cuts] == [(60, 3_600), (3_660, 360_000)]
    assert drawn.at(60 * S) == pytest.approx(86 / 3)


def test_idle_time_is_drawn_short_and_not_called_waiting(ledger: Any, at: Any, page_of: Any) -> None:
    at(0, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(1, "execution.tool_result", {"call_id": "a", "result": 1})
    at(100_000, "execution.tool_call", {"name": "b", "call_id": "b"})
    at(100_001, "execution.tool_result", {"call_id": "b", "result": 1})
    text = page_of(ledger).section("time")
    assert "idle 1 d 04 h" in text and "waits" not in text


def test_places_on_the_axis_never_go_back(ledger: Any, at: Any) -> None:
    for number in range(9):
        at(number**5, "execution.tool_call", {"name": "a", "call_id": f"{number}"})
        at(number**5 + 1, "execution.tool_result", {"call_id": f"{number}", "result": 1})
    drawn = scale(ledger)
    assert 0 < len(drawn.cuts) <= 6
    places = [drawn.at(second * S) for second in range(-5, 8**5 + 10, 7)]
    assert places == sorted(places) and places[0] == 0 and places[-1] == 100


def test_a_run_of_no_duration_has_an_axis(ledger: Any, at: Any, page_of: Any) -> None:
    at(0, "execution.run_started", {"name": "x"})
    assert scale(ledger).at(0) == 0
    assert "open" in page_of(ledger).section("time")


def test_ticks_are_round_and_apart(ledger: Any, at: Any) -> None:
    at(0, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(97, "execution.tool_result", {"call_id": "a", "result": 1})
    assert [tick_text(tick) for tick in scale(ledger).ticks()] == ["0", "30 s", "1 min", "1 min 30 s"]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0"), (2_000, "2 µs"), (500_000_000, "500 ms"), (2 * S, "2 s"), (90 * S, "1 min 30 s"), (-5 * S, "-5 s"),
     (3600 * S, "1 h"), (86_400 * 3 * S + 7200 * S, "3 d 2 h"), (86_400 * 10_000 * S, "10,000 d")],
)  # fmt: skip
def test_a_tick_is_told_in_units_of_people(ns: int, text: str) -> None:
    assert tick_text(ns) == text


def test_an_end_before_its_start_has_no_bar_and_is_counted(ledger: Any, at: Any, page_of: Any) -> None:
    at(9, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(3, "execution.tool_result", {"call_id": "a", "result": 1})
    assert "1 span has no bar: a time is unknown, or clocks disagree" in page_of(ledger).section("time")


def test_an_open_span_says_so_in_words(ledger: Any, at: Any, page_of: Any) -> None:
    at(0, "execution.tool_call", {"name": "a", "call_id": "a"})
    at(3, "execution.message", {"role": "user", "content": "still there?"})
    page = page_of(ledger)
    assert "3.00 s, open" in page.section("time") and 'class="bar tool open"' in page.html
