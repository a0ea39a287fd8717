"""Comparing two runs, or one at two positions: what is said and done counts, ids and times do not."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.projections import diff as diffing
from chatsnapshot.projections.diff import diff_positions, diff_runs


def story(history: Any, run: str, *, city: str = "Bergen", extra: bool = False, fails: bool = False) -> None:
    history.add("execution.run_started", {"name": "triage", "run_id": f"id-{run}"}, run=run)
    history.add("execution.message", {"role": "user", "content": "When is high tide?"}, run=run)
    call = history.add(
        "execution.tool_call", {"name": "tides", "call_id": f"c-{run}", "arguments": {"city": city}}, run=run
    )
    child = f"{run}-child"
    history.add("execution.run_started", {"name": "read table"}, run=child, cause=call)
    history.add("execution.model_call", {"model": "m", "usage": {"input_tokens": len(run)}}, run=child)
    result = {"error": "no answer"} if fails else {"result": "04:12"}
    history.add("execution.tool_result", {"call_id": f"c-{run}", **result}, run=run)
    if extra:
        history.add("execution.handoff", {"from": "desk", "to": "scribe"}, run=run)
    history.add("execution.run_completed", {"output": "At 04:12."}, run=run)


def test_two_runs_that_did_the_same_are_the_same_whatever_their_ids_and_times(history: Any) -> None:
    story(history, "one")
    story(history, "another")
    found = diff_runs(history, "one", "another")
    assert (found.changes, found.divergence) == ((), None)
    assert (found.same, found.before_steps, found.after_steps) == (7, 7, 7)


def test_the_first_divergence_and_all_others_are_told_with_what_differs(history: Any) -> None:
    story(history, "one")
    story(history, "two", city="Oslo", extra=True, fails=True)
    found = diff_runs(history, "one", "two")
    assert [change.kind for change in found.changes] == ["changed", "changed", "added"]
    assert found.divergence is found.changes[0]
    assert found.same_until == 2
    assert [(field.path, field.before, field.after) for field in found.changes[0].fields] == [
        ("arguments.city", "Bergen", "Oslo")
    ]
    assert {field.path for field in found.changes[1].fields} == {"result", "error"}
    added = found.changes[2].after
    assert added is not None
    assert added.what == "desk hands over to scribe"
    back = diff_runs(history, "two", "one")
    assert (back.missing, back.added, back.changed) == (1, 0, 2)


def test_a_type_of_ones_own_is_compared_by_its_payload_without_ids(history: Any) -> None:
    history.add("acme.thing", {"order_id": 7, "amount": {"eur": 1, "time": "now"}}, run="one")
    history.add("acme.thing", {"order_id": 8, "amount": {"eur": 2, "time": "then"}}, run="two")
    (change,) = diff_runs(history, "one", "two").changes
    assert [(field.path, field.before, field.after) for field in change.fields] == [
        ("payload.amount.eur", 1, 2)
    ]


def test_true_is_not_1(history: Any) -> None:
    history.add("execution.tool_result", {"name": "f", "result": True}, run="one")
    history.add("execution.tool_result", {"name": "f", "result": 1}, run="two")
    (change,) = diff_runs(history, "one", "two").changes
    assert change.fields[0].path == "result"


def test_children_may_be_left_out(history: Any) -> None:
    story(history, "one")
    assert diff_runs(history, "one", "one", children=False).before_steps == 5


def test_a_run_at_two_positions_tells_what_came_between_and_which_states_changed(history: Any) -> None:
    story(history, "one")
    found = diff_positions(history, "one", 2)
    assert (found.missing, found.added, found.changed, found.same) == (0, 5, 0, 2)
    assert ("run", "id-one", "unfinished", "completed") in [
        (one.kind, one.id, one.before, one.after) for one in found.states
    ]
    assert diff_positions(history, "one", 3, 3).changes == ()
    assert diff_positions(history, "one", 0, 1).added == 1


def test_bad_names_and_positions_are_refused(history: Any) -> None:
    story(history, "one")
    with pytest.raises(NotFound, match="no events under correlation 'two'"):
        diff_runs(history, "one", "two")
    with pytest.raises(NotFound, match="'two'"):
        diff_positions(history, "two", 1)
    with pytest.raises(InvalidEvent, match="position 2 is before 5"):
        diff_positions(history, "one", 5, 2)
    with pytest.raises(InvalidEvent, match=r"time 2026-11-30.* is before 2026-12-01"):
        diff_positions(history, "one", "2026-12-01T00:00:00.000000Z", "2026-11-30T00:00:00.000000Z")


def test_times_are_taken_as_positions_are(history: Any) -> None:
    story(history, "one")
    at = [entry.recorded_at for entry in history.entries]
    by_time, by_position = diff_positions(history, "one", at[1], at[4]), diff_positions(history, "one", 2, 5)
    assert by_time.changes == by_position.changes
    assert by_time.before_until == at[1]


def test_a_long_difference_is_told_by_what_is_nearby(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffing, "ALIGNED_MAX", 1)
    for n in range(100):
        for run in ("one", "two"):
            said = "other" if run == "two" and n == 40 else f"said {n}"
            if not (run == "two" and n in (3, 4)) and not (run == "one" and n == 90):
                history.add("execution.message", {"role": "user", "content": said}, run=run)
    found = diff_runs(history, "one", "two")
    assert (found.missing, found.added, found.changed, found.same) == (2, 1, 1, 96)
    assert found.same_until == 3


SAID = st.lists(
    st.tuples(
        st.sampled_from(["execution.message", "execution.tool_call", "system.error", "acme.x"]),
        st.dictionaries(
            st.sampled_from(["content", "name", "arguments", "id"]), st.integers(0, 2) | st.none()
        ),
    ),
    max_size=10,
)


@given(SAID, SAID)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
def test_the_counts_add_up_and_a_comparison_turned_round_is_its_mirror(
    history: Any, one: Any, two: Any
) -> None:
    history.entries.clear()
    history.sequences.clear()
    history.add("execution.run_started", {}, run="one")
    history.add("execution.run_started", {}, run="two")
    for run, said in (("one", one), ("two", two)):
        for event_type, payload in said:
            history.add(event_type, copy.copy(payload), run=run)
    found = diff_runs(history, "one", "two")
    assert found.same + found.missing + found.changed == found.before_steps
    assert found.same + found.added + found.changed == found.after_steps
    assert (found.divergence is None) == (found.changes == ())
    msgspec.json.encode(found)
    assert diff_runs(history, "one", "one").changes == ()
    assert (diff_runs(history, "two", "one").divergence is None) == (found.divergence is None)


def test_what_is_said_otherwise_is_one_change_and_another_tool_is_two(history: Any) -> None:
    for run, said, tool in (("one", "Hello", "tides"), ("two", "Good day", "maps")):
        history.add("execution.run_started", {"name": said}, run=run)
        history.add("execution.message", {"role": "user", "content": said}, run=run)
        history.add("execution.tool_call", {"name": tool}, run=run)
    started, message, *tools = diff_runs(history, "one", "two").changes
    assert [field.path for field in (*started.fields, *message.fields)] == ["name", "text"]
    assert [change.kind for change in tools] == ["missing", "added"]
