"""Views of a real ledger: read, folded, bounded by a position or a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.projections.words import status_text


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    url = "memory:" if request.param == "memory" else str(tmp_path / "runs.db")
    with chatsnapshot.open(url) as opened:
        yield opened


def record_a_family(ledger: Any) -> None:
    start = ledger.record("system.workflow_started", {"name": "refunds"}, correlation_id="w")
    task = ledger.record("system.task_started", {"task_id": "t"}, correlation_id="w", causation_id=start)
    with ledger.run(correlation_id="a", name="triage", cause=task) as run:
        run.record("execution.message", {"role": "user", "content": "Hello"})
        call = run.record("execution.tool_call", {"name": "ask", "call_id": "1"})
        with ledger.run(correlation_id="b", name="policy", cause=call) as child:
            child.record("execution.tool_result", {"name": "f", "is_error": True})
        run.record("execution.tool_result", {"call_id": "1", "result": "30 days"}, causation_id=call)
    ledger.record("system.task_completed", {"task_id": "t"}, correlation_id="w")
    ledger.record("system.workflow_completed", {}, correlation_id="w")


def test_runs_of_a_ledger_are_one_tree_over_correlations(ledger: Any) -> None:
    record_a_family(ledger)
    (workflow,) = list_runs(ledger)
    (triage,) = workflow.children
    (policy,) = triage.children
    assert [one.name for one in (workflow, triage, policy)] == ["refunds", "triage", "policy"]
    assert status_text(workflow) == "completed, 1 tool error"
    assert triage.duration_ns is not None


def test_a_ledger_gives_each_view_by_name(ledger: Any) -> None:
    record_a_family(ledger)
    assert [run.name for run in ledger.view("runs", "a").runs] == ["triage"]
    assert ledger.view("timeline", "w").last_position == ledger.head
    assert {item.correlation_id for item in ledger.view("timeline", "w").items} == {"w", "a", "b"}
    assert ledger.view("transcript", "a").name == "triage"
    assert ledger.view("runs") == list_runs(ledger)


def test_an_event_recorded_with_its_cause_still_missing_hangs_once_the_cause_is_there(ledger: Any) -> None:
    cause = "0199c0de-0000-7000-8000-000000000001"
    ledger.record("execution.run_started", {}, correlation_id="child", causation_id=cause)
    assert [run.link for run in list_runs(ledger)] == ["dangling"]
    ledger.record("execution.tool_call", {}, correlation_id="parent", event_id=cause)
    (parent,) = list_runs(ledger)
    assert [run.correlation_id for run in parent.children] == ["child"]


def test_a_view_of_the_past_sees_nothing_later(ledger: Any) -> None:
    record_a_family(ledger)
    early = view(ledger, "runs", "a", until=5)
    assert (early.runs[0].status, early.runs[0].children, early.last_position) == ("unfinished", (), 5)
    moment = ledger.get(next(iter(ledger.replay("w"))).event_id).recorded_at
    assert view(ledger, "timeline", "w", until=moment).last_position >= 1
    with pytest.raises(chatsnapshot.NotFound):
        view(ledger, "timeline", "a", until=1)
    with pytest.raises(chatsnapshot.NotFound):
        view(ledger, "timeline", "a", until=datetime(2001, 1, 1, tzinfo=timezone.utc))


def test_an_unknown_correlation_and_an_unknown_view_are_not_found(ledger: Any) -> None:
    record_a_family(ledger)
    with pytest.raises(chatsnapshot.NotFound, match="nobody"):
        ledger.view("runs", "nobody")
    with pytest.raises(chatsnapshot.NotFound, match="did you mean timeline"):
        ledger.view("timelines", "a")
    with pytest.raises(TypeError, match="'timeline' needs a correlation_id"):
        ledger.view("timeline")


def test_erased_payloads_are_shown_as_erased(ledger: Any) -> None:
    entry = ledger.record("execution.message", {"role": "user", "content": "secret"}, correlation_id="a")
    ledger.erase(entry.position, reason="asked for")
    (message,) = ledger.view("transcript", "a").items
    assert (message.text, message.erased) == ("[erased]", True)
    assert ledger.view("timeline", "a").items[0].erased
    assert [run.correlation_id for run in list_runs(ledger)] == ["a"]
    assert ledger.view("timeline", "ledger").items[0].event_type == "ledger.payload_erased"


def test_an_integer_id_is_the_text_it_was_recorded_as(ledger: Any) -> None:
    ledger.record("execution.run_started", {}, correlation_id=7)
    assert ledger.view("runs", 7).correlation_id == "7"


def test_an_empty_ledger_has_no_runs(ledger: Any) -> None:
    assert list_runs(ledger) == []
