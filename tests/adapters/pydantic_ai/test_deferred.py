"""Runs that wait: for approval, for a result from outside, in this process or another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic_ai import (
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
)

import chatsnapshot

PROGRAM = str(Path(__file__).with_name("booking.py"))


def book(city: str) -> str:
    """Book."""
    return f"booked {city}"


def waiting(agent: Any, tool: Any, *answers: Any) -> Any:
    return agent(*answers, tools=[tool], output_type=[str, DeferredToolRequests])


def answers(ledger: Any) -> list[dict[str, Any]]:
    return [entry.payload for entry in ledger.read(event_type="execution.human_input_received")]


def test_an_approved_call_is_caused_by_the_approval(agent: Any, call: Any, told: Any) -> None:
    alpha = waiting(agent, Tool(book, requires_approval=True), [call("book", "c1", city="Ghent")], "done")
    first = alpha.run_sync("Book")
    said = DeferredToolResults(approvals={"c1": True})
    assert alpha.run_sync(message_history=first.all_messages(), deferred_tool_results=said).output == "done"
    assert told()[3:] == [
        "message assistant <- model_call",
        "human_input_requested c1 <- message assistant",
        "run_paused alpha <- human_input_requested c1",
        "human_input_received c1 <- human_input_requested c1",
        "run_resumed alpha <- human_input_received c1",
        "tool_call c1 <- human_input_received c1",
        "tool_result c1 <- tool_call c1",
        "model_call <- tool_result c1",
        "message assistant <- model_call",
        "run_completed alpha <- message assistant",
    ]


def test_denials_and_changed_arguments_are_recorded_as_decisions(ledger: Any, agent: Any, call: Any) -> None:
    both = [call("book", "c1", city="Ghent"), call("book", "c2", city="Paris")]
    alpha = waiting(agent, Tool(book, requires_approval=True), both, "done")
    first = alpha.run_sync("Book")
    said = DeferredToolResults(
        approvals={"c1": ToolApproved(override_args={"city": "Bruges"}), "c2": ToolDenied("too far")},
        answered_by={"c2": "odile"},
    )
    alpha.run_sync(message_history=first.all_messages(), deferred_tool_results=said)
    edited, denied = answers(ledger)
    assert (edited["decision"], edited["answer"]) == ("edited", {"city": "Bruges"})
    assert (denied["decision"], denied["answer"], denied["user"]) == ("rejected", "too far", "odile")
    (executed,) = ledger.read(event_type="execution.tool_call")
    assert (executed.payload["call_id"], executed.payload["arguments"]) == ("c1", {"city": "Bruges"})


def test_a_tool_that_asks_while_it_is_executed_is_one_call(
    ledger: Any, agent: Any, call: Any, told: Any
) -> None:
    def pay(context: RunContext[Any], amount: int) -> str:
        """Pay."""
        if not context.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 5})
        return f"paid {amount}"

    alpha = waiting(agent, pay, [call("pay", "c1", amount=9)], "done")
    first = alpha.run_sync("Pay")
    said = DeferredToolResults(approvals={"c1": True})
    alpha.run_sync(message_history=first.all_messages(), deferred_tool_results=said)
    lines = told()
    assert sum(line.startswith("tool_call") for line in lines) == 1
    assert "human_input_requested c1 <- tool_call c1" in lines
    assert "tool_result c1 <- tool_call c1" in lines
    (question,) = ledger.read(event_type="execution.human_input_requested")
    assert question.payload["native"] == {"metadata": {"limit": 5}}


def test_a_result_from_outside_is_the_result_of_its_call(
    ledger: Any, agent: Any, call: Any, told: Any
) -> None:
    def ask_warehouse(item: str) -> str:
        """Ask."""
        raise CallDeferred

    alpha = waiting(agent, ask_warehouse, [call("ask_warehouse", "c1", item="lamp")], "done")
    first = alpha.run_sync("Ask")
    said = DeferredToolResults(calls={"c1": "two lamps"})
    alpha.run_sync(message_history=first.all_messages(), deferred_tool_results=said)
    assert answers(ledger)[0]["answer"] == "two lamps"
    (result,) = ledger.read(event_type="execution.tool_result")
    assert result.payload["result"] == "two lamps"
    assert "tool_result c1 <- tool_call c1" in told()
    assert "run_resumed alpha <- human_input_received c1" in told()


@pytest.mark.parametrize("name", ["runs.db", pytest.param("runs.jsonl", marks=pytest.mark.faults)])
def test_a_run_goes_on_in_a_new_process_after_a_kill(tmp_path: Path, name: str) -> None:
    ledger, history = str(tmp_path / name), str(tmp_path / "history.json")
    first = subprocess.Popen(
        [sys.executable, PROGRAM, "ask", ledger, history], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "asked\n"
    finally:
        first.kill()
        first.communicate()
    second = subprocess.run(
        [sys.executable, PROGRAM, "go", ledger, history],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (second.returncode, second.stdout) == (0, "done\n"), second.stderr
    with chatsnapshot.open(ledger, read_only=True) as snapshot:
        assert snapshot.verify().ok
        entries = {entry.event_id: entry for entry in snapshot.read()}
        assert len({entry.correlation_id for entry in entries.values()}) == 1
        resumed = next(one for one in entries.values() if one.event_type == "execution.run_resumed")
        answer = entries[resumed.causation_id or ""]
        assert answer.event_type == "execution.human_input_received"
        assert entries[answer.causation_id or ""].event_type == "execution.human_input_requested"
