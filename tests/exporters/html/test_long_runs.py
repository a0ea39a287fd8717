"""Long runs: the page stays small and readable, and says how much it leaves out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chatsnapshot.exporters.html import (
    conversation,
    eventlist,
    graphgroups,
    graphpicture,
    render_page,
    runtree,
)
from chatsnapshot.exporters.html.facts import gather

MEGABYTE = 1_000_000


def test_five_thousand_events_stay_below_five_megabytes_and_every_one_is_there(
    survey: Any, page_of: Any
) -> None:
    page = page_of(survey(5_000))
    assert len(page.bytes) < 5 * MEGABYTE
    places = {given["id"] for name, given, _ in page.elements if name == "li" and "id" in given}
    assert {f"p{position}" for position in range(1, 5_001)} <= places
    assert "left out" not in page.section("events")
    assert "gathered by name of run and agent" in page.section("graph")
    assert "calls ask × 719 1 h 11 m" in page.section("time") and "36 failed" in page.section("time")
    assert (
        "719 runs below: 648 completed, 36 completed with errors, 35 unfinished with errors"
        in page.section("runs")
    )
    # Folded and gathered: what stands open is a page or ten, not five thousand lines.
    assert sum("details" not in around for around, _, text in page.texts if text.strip()) < 1_500


def test_five_thousand_events_of_long_texts_stay_below_five_megabytes(survey: Any) -> None:
    page = render_page(gather(survey(5_000, "<Ebbe & Flut> " * 200), "run-1", verify=False))
    assert len(page) < 5 * MEGABYTE
    assert b"more characters" in page


def test_a_short_run_shows_long_texts_whole_behind_a_fold(ledger: Any, tell: Any, page_of: Any) -> None:
    text = "word " * 1_000 + "end"
    tell("execution.message", {"role": "user", "content": text})
    page = page_of(ledger)
    folded = [inner for around, key, inner in page.texts if key == "transcript" and "details" in around]
    assert text in folded
    assert f"({len(text):,} characters)" in page.section("transcript")


def test_what_does_not_fit_in_the_list_of_events_is_counted_and_gets_no_link(
    survey: Any, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventlist, "EVENTS_MAX", 100)
    ledger = survey(300)
    page = page_of(ledger)
    left = ledger.head - 100
    assert f"100 of {ledger.head:,} events: {left:,} in the middle are left out" in page.section("events")
    ids = {given["id"] for _, given, _ in page.elements if "id" in given}
    assert {"p1", "p50", f"p{ledger.head}"} <= ids and "p51" not in ids
    assert all(given["href"][1:] in ids for _, given, _ in page.elements if "href" in given)


def test_what_does_not_fit_in_the_transcript_is_counted(
    survey: Any, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "ITEMS_MAX", 40)
    text = page_of(survey(300)).section("transcript")
    assert re.search(r"… \d+ items left out …", text)
    assert "survey started" in text and "reader-43" in text and "reader-20" not in text


def test_runs_that_are_not_named_are_counted(
    survey: Any, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtree, "RUNS_MAX", 10)
    text = page_of(survey(300)).section("runs")
    assert "10 of 44 runs are named" in text and "reader-9" in text and "reader-10" not in text


def test_a_long_chain_of_children_does_not_nest_without_end(ledger: Any, page_of: Any) -> None:
    cause = None
    for number in range(300):
        key = f"run-{number + 1}"
        source = {"origin": "agent", "runtime": "x", "name": "digger"}
        start = {"name": f"level {number}"}
        cause = ledger.record(
            "execution.run_started", start, correlation_id=key, causation_id=cause, source=source
        )
    page = page_of(ledger)
    assert "level 299" in page.section("transcript") and "10 of" not in page.section("runs")
    assert max(len(around) for _, _, around in page.elements) < 60


def test_a_short_graph_draws_each_event_and_each_kind_of_edge(ledger: Any, tell: Any, page_of: Any) -> None:
    first = tell("execution.run_started", {"name": "x"})
    tell("execution.tool_call", {"name": "a", "call_id": "1"}, causation_id=first)
    tell("execution.tool_result", {"call_id": "1", "error": "no"})
    other = tell("execution.message", {"content": "b"}, "child", causation_id=first)
    tell("execution.message", {"content": "c"}, causation_id=other, attributes={"links": [first.event_id]})
    page = page_of(ledger)
    edges = [given["class"] for name, given, _ in page.elements if given.get("class", "").startswith("edge")]
    # Four lines of the key follow.
    assert sorted(edges[:-4]) == ["edge", "edge", "edge", "edge derived", "edge link"]
    assert sum(name == "circle" for name, _, _ in page.elements) == 5
    assert "3 failed:" in page.section("graph") and "3 recorded causes" not in page.section("graph")


def test_a_graph_of_many_boxes_draws_the_largest_and_says_so(
    survey: Any, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphgroups, "GROUPS_MAX", 2)
    text = page_of(survey(300)).section("graph")
    assert "gathered by agent" in text and "Of 3 boxes the 2 with the most events are drawn" in text


def test_boxes_count_their_events_runs_and_failures_and_arrows_their_causes(
    survey: Any, page_of: Any
) -> None:
    text = page_of(survey(300)).section("graph")
    assert "gathered by name of run and agent" in text
    assert "survey planner, 88 events survey dana, 1 event" in text
    assert re.search(r"reader [\d,]+ events, 43 runs, 4 failed", text)


def test_lanes_of_runs_that_ended_are_used_again() -> None:
    from chatsnapshot.projections.graphshapes import GraphNode

    def node(position: int, key: str) -> GraphNode:
        return GraphNode(position, 1, key, str(position), "a.b", None, "", None, 0, 0, False)

    nodes = [node(n, key) for n, key in enumerate(["a", "b", "b", "a", "c", "c", "a"], 1)]
    assert graphpicture._lanes(nodes) == {"a": 0, "b": 1, "c": 1}
