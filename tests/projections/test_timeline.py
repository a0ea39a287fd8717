"""Each entry is one item in position order; starts and ends find each other, and what is open is shown as open."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.projections.shapes import TimelineItem
from chatsnapshot.projections.views import view


def items(history: Any, run: str = "run-1") -> list[TimelineItem]:
    return list(view(history, "timeline", run).items)


def pairs(history: Any) -> list[tuple[int, int | None]]:
    return [(item.position, item.partner) for item in items(history) if item.span]


def test_items_carry_position_sequence_offset_and_cause(history: Any) -> None:
    history.add("execution.run_started", run="other")
    first = history.add("execution.run_started", {"name": "triage"}, at=10, name="planner")
    history.add("execution.message", {"role": "user", "content": "Hello"}, at=11.5, cause=first, name="Ann")
    start, message = items(history)
    assert (start.position, start.sequence, start.offset_ns, start.what) == (2, 1, 0, "run triage started")
    assert (message.offset_ns, message.what, message.who) == (1_500_000_000, "user: Hello", "Ann")
    assert (message.cause, message.cause_position) == (first.event_id, 2)


def test_order_is_the_ledgers_and_an_earlier_time_is_a_negative_offset(history: Any) -> None:
    history.add("execution.message", {"content": "b"}, at=5)
    history.add("execution.message", {"content": "a"}, at=2)
    assert [item.offset_ns for item in items(history)] == [0, -3_000_000_000]


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        ("execution.run_started", "execution.run_completed", "run"),
        ("execution.run_resumed", "execution.run_paused", "run"),
        ("system.workflow_started", "system.workflow_cancelled", "workflow"),
        ("system.task_started", "system.task_cancelled", "task"),
        ("execution.tool_call", "execution.tool_result", "tool"),
        ("execution.human_input_requested", "execution.human_input_received", "question"),
        ("integration.call", "integration.response", "integration"),
    ],
)
def test_a_start_and_its_end_are_partners_with_one_duration(
    history: Any, start: str, end: str, span: str
) -> None:
    named = {"task_id": "x", "call_id": "x", "id": "x", "answers": "x"}
    history.add(start, named, at=0)
    history.add(end, named, at=0.25)
    first, last = items(history)
    assert (first.span, first.edge, first.partner, first.open) == (span, "start", 2, False)
    assert (last.span, last.edge, last.partner, last.unmatched) == (span, "end", 1, False)
    assert first.duration_ns == last.duration_ns == 250_000_000


def test_what_has_no_end_is_open_and_what_has_no_start_is_unmatched(history: Any) -> None:
    history.add("system.task_started", {"task_id": "a"})
    history.add("system.task_completed", {"task_id": "b"})
    start, end = items(history)
    assert (start.open, start.partner, start.duration_ns) == (True, None, None)
    assert (end.unmatched, end.partner) == (True, None)


def test_parallel_calls_find_their_own_results_in_any_order(history: Any) -> None:
    for call in ("a", "b", "c"):
        history.add("execution.tool_call", {"name": "f", "call_id": call})
    for call in ("c", "a"):
        history.add("execution.tool_result", {"name": "f", "call_id": call})
    assert pairs(history) == [(1, 5), (2, None), (3, 4), (4, 3), (5, 1)]


def test_a_result_recorded_before_its_call_is_its_partner(history: Any) -> None:
    history.add("execution.tool_result", {"call_id": "a"}, at=2)
    history.add("execution.tool_call", {"call_id": "a"}, at=1)
    assert pairs(history) == [(1, 2), (2, 1)]
    assert items(history)[0].duration_ns == 1_000_000_000


def test_a_call_id_used_again_goes_with_the_call_before_it(history: Any) -> None:
    history.add("execution.tool_call", {"call_id": "call_1"})
    history.add("execution.tool_call", {"call_id": "call_1"})
    history.add("execution.tool_result", {"call_id": "call_1"})
    assert pairs(history) == [(1, None), (2, 3), (3, 2)]


def test_the_cause_decides_between_calls_of_one_id(history: Any) -> None:
    first = history.add("execution.tool_call", {"call_id": "call_1"})
    history.add("execution.tool_call", {"call_id": "call_1"})
    history.add("execution.tool_result", {"call_id": "call_1"}, cause=first)
    assert pairs(history) == [(1, 3), (2, None), (3, 1)]


def test_without_ids_the_cause_decides_and_then_the_name_in_order(history: Any) -> None:
    history.add("execution.tool_call", {"name": "f"})
    second = history.add("execution.tool_call", {"name": "f"})
    history.add("execution.tool_call", {"name": "g"})
    history.add("execution.tool_result", {"name": "f"}, cause=second)
    history.add("execution.tool_result", {"name": "f"})
    history.add("execution.tool_result", {"name": "h"})
    assert pairs(history) == [(1, 5), (2, 4), (3, None), (4, 2), (5, 1), (6, None)]


def test_a_cause_does_not_join_what_has_other_ids(history: Any) -> None:
    call = history.add("execution.tool_call", {"call_id": "a"})
    history.add("execution.tool_result", {"call_id": "b"}, cause=call)
    assert pairs(history) == [(1, None), (2, None)]


def test_with_two_open_questions_an_answer_must_say_which(history: Any) -> None:
    history.add("execution.human_input_requested", {"question": "a"})
    second = history.add("execution.human_input_requested", {"question": "b"})
    history.add("execution.human_input_received", {"value": "?"})
    history.add("execution.human_input_received", {"value": "!", "answers": second.event_id})
    history.add("execution.human_input_received", {"value": "."})
    assert pairs(history) == [(1, 5), (2, 4), (3, None), (4, 2), (5, 1)]


def test_a_new_run_does_not_pair_with_leftovers_of_the_one_before(history: Any) -> None:
    history.add("execution.run_started", {"run_id": "a"})
    history.add("execution.tool_result", {"call_id": "call_1"})
    history.add("execution.run_completed", {"run_id": "a"})
    history.add("execution.run_started", {"run_id": "b"})
    history.add("execution.tool_call", {"call_id": "call_1"})
    assert [item.partner for item in items(history)] == [3, None, 1, None, None]


def test_a_retried_task_has_a_span_for_each_attempt(history: Any) -> None:
    history.add("system.task_started", {"task_id": "t", "name": "load"})
    history.add("system.task_failed", {"task_id": "t", "error": "timeout"})
    history.add("system.task_retried", {"task_id": "t", "name": "load", "attempt": 2})
    history.add("system.task_started", {"task_id": "t", "attempt": 2})
    history.add("system.task_completed", {"task_id": "t"})
    assert pairs(history) == [(1, 2), (2, 1), (4, 5), (5, 4)]
    assert [item.failed for item in items(history)] == [True, True, False, False, False]
    assert items(history)[2].what == "task load retried (attempt 2)"


def test_an_end_is_shown_with_the_name_of_its_start(history: Any) -> None:
    history.add("execution.run_started", {"run_id": "5f04286f", "name": "triage"})
    history.add("system.task_started", {"task_id": "t1", "name": "load"})
    history.add("system.task_completed", {"task_id": "t1"})
    history.add("execution.run_failed", {"run_id": "5f04286f", "error": "x"})
    assert [item.what for item in items(history)][2:] == ["task load completed", "run triage failed: x"]


def test_a_model_call_is_a_whole_span_of_its_own(history: Any) -> None:
    usage = {"input_tokens": 1200, "output_tokens": 30}
    history.add("execution.model_call", {"model": "m-1", "duration_ns": 77, "usage": usage})
    history.add("execution.model_call", {"model": "m-1", "error": {"type": "RateLimit", "message": "slow"}})
    good, bad = items(history)
    assert (good.span, good.edge, good.duration_ns, good.open) == ("model", "whole", 77, False)
    assert good.what == "model m-1: 1,200 tokens in, 30 tokens out"
    assert (bad.failed, bad.duration_ns, bad.what) == (True, None, "model m-1 failed: RateLimit: slow")


def test_children_are_merged_by_position_with_their_depth(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "ask"}, run="a")
    child = history.add("execution.run_started", run="b", cause=call)
    history.add("execution.run_started", run="c", cause=child)
    history.add("execution.message", {"content": "x"}, run="a")
    assert [(i.position, i.depth, i.cause_position) for i in items(history, "a")] == [
        (1, 0, None),
        (2, 1, 1),
        (3, 2, 2),
        (4, 0, None),
    ]
    alone = view(history, "timeline", "a", children=False)
    assert [item.position for item in alone.items] == [1, 4]


def test_an_item_never_knows_what_is_after_until(history: Any) -> None:
    history.add("system.task_started", {"task_id": "t"})
    history.add("system.task_completed", {"task_id": "t"})
    (item,) = view(history, "timeline", "run-1", until=1).items
    assert item.open
    (item,) = view(history, "timeline", "run-1", until="2026-11-30T02:26:01.000000Z").items
    assert item.open


@pytest.mark.parametrize("event_type", [*TYPES, "acme.thing"])
def test_every_type_has_a_line_for_any_payload(history: Any, event_type: str) -> None:
    for payload in ({}, {"odd": [1, {"x": None}]}, {"name": ["?"], "error": 0, "usage": 3}, "text"):
        history.add(event_type, payload)
    history.add(event_type, {"secret": 1}, erased=True)
    history.add(event_type, raw=b"[1]")
    history.add(event_type, raw=b'{"bro')
    lines = [item.what for item in items(history)]
    assert all(lines)
    assert all("\n" not in line and len(line) <= 200 for line in lines)
    assert "[erased]" in lines[4]


@pytest.mark.parametrize(
    ("event_type", "payload", "line"),
    [
        ("execution.tool_call", {"name": "f", "arguments": {"q": "x", "n": None}}, 'calls f(q="x", n=null)'),
        ("execution.tool_result", {"name": "f", "result": {"a": 1}}, 'f answered: {"a": 1}'),
        ("execution.tool_result", {"name": "f", "error": "no"}, "f failed: no"),
        ("execution.run_failed", {"name": "r", "error": {"type": "E", "message": "m"}}, "run r failed: E: m"),
        ("execution.run_cancelled", {"reason": "by hand"}, "run cancelled: by hand"),
        ("execution.handoff", {"from": "a", "to": {"name": "b"}}, "a hands over to b"),
        (
            "execution.human_input_requested",
            {"kind": "approval", "question": "Go?"},
            "asks for approval: Go?",
        ),
        ("execution.human_input_received", {"decision": "approved", "value": "ok"}, "approved: ok"),
        ("execution.state_change", {"name": "s", "from": "a", "to": "b"}, "state: s a → b"),
        ("integration.response", {"service": "crm", "status": 200}, "answer of crm: status 200"),
        ("system.error", {"message": "disk"}, "error: disk"),
        ("acme.chat", {"role": "user", "content": "hi"}, "user: hi"),
        ("acme.thing", {"a": 1}, 'acme: thing: {"a": 1}'),
        ("execution.message", {"role": "assistant", "content": None}, "assistant: (empty)"),
    ],
)
def test_lines_say_what_happened(history: Any, event_type: str, payload: Any, line: str) -> None:
    history.add(event_type, payload)
    assert items(history)[0].what == line
