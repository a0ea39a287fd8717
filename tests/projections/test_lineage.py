"""Child runs hang under the event that led to them, over any number of correlations; nothing is lost or repeated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.projections.lineage import Start, depths, links, upwards
from chatsnapshot.projections.shapes import Run
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.projections.words import status_text

S = "execution.run_started"
NOBODY = "00000000-0000-0000-0000-00000000ffff"


def flat(runs: Any, depth: int = 0) -> list[tuple[int, str]]:
    return [line for run in runs for line in [(depth, run.run_id), *flat(run.children, depth + 1)]]


@pytest.fixture
def family(history: Any) -> Any:
    root = history.add(S, {"name": "root"}, run="a")
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "1"}, run="a", cause=root)
    child = history.add(S, {"name": "child"}, run="b", cause=call)
    inner = history.add("execution.tool_call", {"name": "ask", "call_id": "1"}, run="b", cause=child)
    history.add(S, {"name": "grandchild"}, run="c", cause=inner)
    history.add("execution.tool_result", {"name": "x", "is_error": True}, run="c")
    history.add("execution.run_completed", run="c")
    history.add("execution.run_completed", run="b")
    history.add("execution.run_completed", run="a")
    return history


def test_children_and_grandchildren_are_found_by_cause(family: Any) -> None:
    assert flat(list_runs(family)) == [(0, "a"), (1, "b"), (2, "c")]
    assert flat(view(family, "runs", "a").runs) == [(0, "a"), (1, "b"), (2, "c")]
    assert flat(view(family, "runs", "a", children=False).runs) == [(0, "a")]


def test_an_error_of_a_grandchild_shows_on_every_run_above(family: Any) -> None:
    (root,) = list_runs(family)
    assert status_text(root) == "completed, 1 tool error"
    assert (root.errors.total, root.errors_below.tool) == (0, 1)


def test_a_child_asked_for_by_itself_says_where_it_hangs(family: Any) -> None:
    (child,) = view(family, "runs", "b").runs
    assert (child.link, child.cause_position) == ("child", 2)


def test_a_cause_that_is_nowhere_makes_a_root_with_a_mark(history: Any) -> None:
    history.add(S, run="a", cause=NOBODY)
    (run,) = list_runs(history)
    assert (run.link, run.cause, run.cause_position) == ("dangling", NOBODY, None)


def test_a_cause_that_comes_later_is_found_once_it_is_there(history: Any) -> None:
    late = "00000000-0000-0000-0000-0000000000aa"
    history.add(S, run="child", cause=late)
    history.add(S, run="parent")
    history.add("execution.tool_call", run="parent", event_id=late)
    assert flat(list_runs(history)) == [(0, "parent"), (1, "child")]
    assert [run.link for run in list_runs(history, until=2)] == ["dangling", "root"]


def inside_out(history: Any) -> Any:
    """What happened in the child comes before its start, and its start before what led to it."""
    call, start = "00000000-0000-0000-0000-0000000000ca", "00000000-0000-0000-0000-00000000005a"
    said = history.add("execution.message", {"role": "user", "content": "which?"}, run="child", cause=start)
    history.add("execution.tool_call", {"name": "look", "call_id": "1"}, run="child", cause=said)
    history.add(S, {"name": "scribe"}, run="child", cause=call, event_id=start)
    history.add("execution.run_completed", run="child", cause=start)
    history.add("execution.message", {"role": "user", "content": "go"}, run="parent")
    root = history.add(S, {"name": "desk"}, run="parent")
    history.add(
        "execution.tool_call", {"name": "ask", "call_id": "2"}, run="parent", cause=root, event_id=call
    )
    history.add("execution.run_completed", run="parent")
    return history


def test_a_child_that_was_told_from_the_inside_out_hangs_by_its_start(history: Any) -> None:
    inside_out(history)
    assert flat(list_runs(history)) == [(0, "parent"), (1, "child")]
    (parent,) = list_runs(history)
    (child,) = parent.children
    assert (child.link, child.cause, child.cause_position) == ("child", history.entries[6].event_id, 7)
    assert [run.link for run in list_runs(history, until=3)] == ["dangling"]
    assert [run.link for run in list_runs(history, until=2)] == ["dangling"]
    for name in ("timeline", "graph", "transcript", "metrics", "audit", "state"):
        both, alone = view(history, name, "parent"), view(history, name, "parent", children=False)
        assert both != alone, name
    assert {node.correlation_id for node in view(history, "graph", "parent").nodes} == {"child", "parent"}


def test_a_later_start_does_not_move_what_began_without_a_cause_or_under_another(history: Any) -> None:
    one, two = history.add(S, run="one"), history.add(S, run="two")
    history.add("execution.message", run="chat")
    history.add(S, run="chat", cause=one)
    history.add("execution.message", run="child", cause=two)
    history.add(S, run="child", cause=one)
    history.add("execution.message", run="orphan", cause=NOBODY)
    history.add(S, run="orphan", cause=one)
    assert flat(list_runs(history)) == [(0, "one"), (0, "two"), (1, "child"), (0, "chat"), (0, "orphan")]


def test_of_several_late_starts_the_first_with_a_cause_tells(history: Any) -> None:
    one, two = history.add(S, run="one"), history.add(S, run="two")
    start = "00000000-0000-0000-0000-00000000005a"
    history.add("execution.message", run="child", cause=start)
    history.add(S, {"run_id": "c1"}, run="child", event_id=start)
    history.add(S, {"run_id": "c2"}, run="child", cause=two)
    history.add(S, {"run_id": "c3"}, run="child", cause=one)
    assert [(depth, run) for depth, run in flat(list_runs(history)) if not depth] == [(0, "one"), (0, "two")]
    assert {child.run_id for child in list_runs(history)[1].children} >= {"c1", "c2", "c3"}


def test_correlations_that_hang_under_each_other_are_cut_at_the_earliest(history: Any) -> None:
    later = "00000000-0000-0000-0000-0000000000bb"
    history.add(S, run="a", cause=later)
    history.add(S, run="b", cause=history.entries[0])
    history.add("execution.tool_call", run="b", event_id=later)
    (run,) = list_runs(history)
    assert (run.run_id, run.link) == ("a", "cycle")
    assert flat([run]) == [(0, "a"), (1, "b")]
    assert flat(view(history, "runs", "b").runs)[0] == (0, "b")
    assert view(history, "timeline", "b").items[0].correlation_id == "a"
    assert view(history, "transcript", "b").correlation_id == "b"


def test_a_first_event_caused_inside_its_own_correlation_is_a_root(history: Any) -> None:
    own = "00000000-0000-0000-0000-0000000000cc"
    history.add(S, cause=own)
    history.add("execution.message", event_id=own)
    (run,) = list_runs(history)
    assert run.link == "root"


def test_a_correlation_seen_from_its_middle_does_not_hang_by_a_later_cause(history: Any) -> None:
    other = history.add(S, run="a")
    history.add(S, run="b")
    history.add("execution.message", run="b", cause=other)
    del history.entries[1]
    assert [(run.run_id, run.link, run.status) for run in list_runs(history)] == [
        ("a", "root", "unfinished"),
        ("b", "root", "unknown"),
    ]


def test_a_child_hangs_under_the_run_of_its_parents_correlation_that_holds_the_cause(history: Any) -> None:
    history.add(S, {"run_id": "t1"}, run="chat")
    history.add("execution.run_completed", {"run_id": "t1"}, run="chat")
    history.add(S, {"run_id": "t2"}, run="chat")
    call = history.add("execution.tool_call", {"name": "ask"}, run="chat")
    history.add("execution.run_completed", {"run_id": "t2"}, run="chat")
    history.add(S, run="child", cause=call)
    assert flat(list_runs(history)) == [(0, "t1"), (0, "t2"), (1, "child")]


def test_the_last_runs_are_the_ones_that_began_last(history: Any) -> None:
    for name in "abc":
        history.add(S, run=name)
    history.add("execution.run_completed", run="a")
    assert [run.run_id for run in list_runs(history, last=2)] == ["b", "c"]
    assert list_runs(history, last=0) == []
    assert len(list_runs(history, last=99)) == 3
    with pytest.raises(ValueError, match="last must be 0 or more"):
        list_runs(history, last=-1)


def test_a_thousand_generations_are_no_problem(history: Any) -> None:
    cause = None
    for number in range(1200):
        cause = history.add(S, run=f"r{number}", cause=cause)
    (run,) = list_runs(history)
    deep = 0
    at: Run = run
    while at.children:
        at = at.children[0]
        deep += 1
    assert deep == 1199


@given(st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12)), min_size=1, max_size=12))
def test_any_causes_give_a_forest_that_holds_each_correlation_once(causes: list[tuple[int, int]]) -> None:
    def said(cause: int) -> str | None:
        return None if cause < 0 else str(cause)

    starts = {str(i): Start(i + 1, said(first), said(late)) for i, (first, late) in enumerate(causes)}
    where = {str(i): (str(i), i + 1) for i in range(len(causes))}
    found = links(starts, where.get)
    assert sorted(upwards(found)) == sorted(starts)
    deep = depths(found)
    for one, link in found.items():
        if link.parent is not None:
            assert deep[one] == deep[link.parent] + 1
