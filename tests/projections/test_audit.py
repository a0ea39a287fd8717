"""The audit trail: who, on whose authority, decided and approved by whom, with which outcome, at which positions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chatsnapshot.errors import NotFound
from chatsnapshot.projections.auditreading import audit_of
from chatsnapshot.projections.views import view


def add(history: Any, event_type: str, payload: Any = None, attributes: Any = None, **options: Any) -> Any:
    entry = history.add(event_type, payload, **options)
    if attributes is not None:
        entry = msgspec.structs.replace(entry, attributes_json=msgspec.json.encode(attributes).decode())
        history.entries[-1] = entry
    return entry


def test_a_tool_call_is_one_line_with_authority_approval_and_outcome(history: Any) -> None:
    add(history, "execution.run_started", {"name": "refunds", "user": "odile"})
    add(
        history,
        "execution.tool_call",
        {"name": "refund", "call_id": "a", "arguments": {"eur": 12}},
        name="desk",
    )
    add(
        history,
        "execution.human_input_requested",
        {"kind": "approval", "question_id": "q", "question": "Pay 12?", "call_id": "a"},
    )
    add(history, "execution.human_input_received", {"answers": "q", "decision": "approved", "user": "dana"})
    add(history, "execution.tool_result", {"call_id": "a", "result": "paid"})
    run, tool, approval = view(history, "audit", "run-1").lines
    assert (run.kind, run.outcome, run.principal, run.principal_position) == ("run", "open", "odile", 1)
    assert (tool.kind, tool.actor, tool.outcome, tool.positions) == ("tool", "desk", "ok", (2, 5))
    assert tool.what == "calls refund(eur=12)"
    assert (tool.principal, tool.principal_position) == ("odile", 1)
    assert (tool.decision, tool.approver, tool.approval_position) == ("approved", "dana", 4)
    assert (approval.kind, approval.decision, approval.approver) == ("approval", "approved", "dana")
    assert approval.positions == (3, 4)


def test_an_approval_that_led_to_the_call_is_found_by_its_cause(history: Any) -> None:
    add(history, "execution.human_input_requested", {"kind": "approval", "question_id": "q"})
    answer = add(history, "execution.human_input_received", {"answers": "q", "approved": False}, name="dana")
    add(history, "execution.tool_call", {"name": "refund"}, cause=answer)
    _, tool = view(history, "audit", "run-1").lines
    assert (tool.decision, tool.approver, tool.approval_position) == ("rejected", "dana", 2)


def test_attributes_outlive_an_erased_payload(history: Any) -> None:
    kept = {
        "actor": "desk",
        "principal": "odile",
        "policy": "refunds-3",
        "approver": "dana",
        "outcome": "refused",
        "reason": "over the limit",
        "subjects": ["customer-7", "order-9"],
    }
    add(history, "execution.tool_call", {"name": "refund"}, kept, erased=True)
    add(history, "execution.tool_result", {"name": "refund"}, erased=True)
    line = view(history, "audit", "run-1").lines[0]
    assert (line.actor, line.principal, line.policy, line.approver) == ("desk", "odile", "refunds-3", "dana")
    assert (line.outcome, line.reason) == ("refused", "over the limit")
    assert line.subjects == ("customer-7", "order-9")
    assert line.erased
    assert "[erased]" in line.what
    assert view(history, "audit", "run-1").erased == (1, 2)


def test_a_result_that_was_erased_has_an_unknown_outcome(history: Any) -> None:
    call = add(history, "execution.tool_call", {"name": "refund"})
    add(history, "execution.tool_result", {"name": "refund"}, erased=True, cause=call)
    (line,) = view(history, "audit", "run-1").lines
    assert (line.outcome, line.positions) == ("unknown", (1, 2))


def test_what_attributes_say_of_a_call_stands_where_its_result_says_nothing_of_its_own(history: Any) -> None:
    for name, result in (("held", {"result": 1}), ("broken", {"error": "no answer"})):
        add(history, "execution.tool_call", {"name": name, "call_id": name}, {"outcome": "refused"})
        add(history, "execution.tool_result", {"call_id": name, **result})
    assert [line.outcome for line in view(history, "audit", "run-1").lines] == ["refused", "failed"]


def test_authority_comes_down_to_child_runs(history: Any) -> None:
    add(history, "execution.run_started", {"name": "case"}, {"principal": "odile"})
    call = add(history, "execution.tool_call", {"name": "ask"})
    add(history, "execution.run_started", {"name": "part"}, run="child", cause=call)
    add(history, "execution.tool_call", {"name": "search"}, run="child")
    lines = view(history, "audit", "run-1").lines
    assert [(line.depth, line.principal, line.principal_position) for line in lines] == [
        (0, "odile", 1),
        (0, "odile", 1),
        (1, "odile", 1),
        (1, "odile", 1),
    ]


@pytest.mark.parametrize(
    ("event_type", "payload", "kind", "outcome"),
    [
        ("execution.guardrail", {"name": "cards", "triggered": True}, "guardrail", "triggered"),
        ("execution.handoff", {"from": "desk", "to": "scribe"}, "handoff", None),
        ("execution.evaluation", {"name": "tone", "score": 0.25}, "evaluation", "0.25"),
        ("system.limit_reached", {"name": "budget", "limit": None, "action": "stopped"}, "limit", "stopped"),
        ("ui.interaction", {"action": "press", "user": "odile"}, "interaction", None),
        ("integration.api_triggered", {"service": "mail", "error": "down"}, "service", "failed"),
    ],
)
def test_other_acts_have_a_line_each(
    history: Any, event_type: str, payload: Any, kind: str, outcome: str | None
) -> None:
    add(history, event_type, payload)
    (line,) = view(history, "audit", "run-1").lines
    assert (line.kind, line.outcome, line.positions) == (kind, outcome, (1,))


def test_what_is_no_act_has_a_line_only_when_its_attributes_say_who_or_why(history: Any) -> None:
    add(history, "execution.message", {"role": "user", "content": "Hello"})
    add(history, "execution.message", {"role": "user", "content": "Hello"}, {"trace_id": "7"})
    add(history, "system.task_started", {"task_id": "a"}, {"actor": "worker-3"})
    (line,) = view(history, "audit", "run-1").lines
    assert (line.kind, line.actor, line.position) == ("fact", "worker-3", 3)


def test_facts_of_the_ledger_stand_in_the_trail_of_the_runs_they_concern(history: Any) -> None:
    add(history, "execution.message", erased=True)
    add(history, "execution.message", run="run-2")
    add(history, "ledger.payload_erased", {"positions": [1], "reason": "asked for"}, run="ledger")
    add(history, "ledger.gap", {"events": 3, "correlations": ["run-2"]}, run="ledger")
    assert [line.kind for line in audit_of(history, "run-1").lines] == ["erasure"]
    assert [line.kind for line in audit_of(history, "run-2").lines] == ["gap"]
    assert [line.kind for line in audit_of(history).lines] == ["erasure", "gap"]
    assert audit_of(history, "run-1", until=2).lines == ()


def test_filters_keep_lines_that_say_just_this(history: Any) -> None:
    add(history, "execution.tool_call", {"name": "f"}, {"actor": "desk", "principal": "odile"})
    add(history, "execution.handoff", {"to": "scribe"}, {"actor": "desk"})
    assert len(audit_of(history, actor="desk").lines) == 2
    assert [line.kind for line in audit_of(history, principal="odile").lines] == ["tool"]
    assert [line.kind for line in audit_of(history, outcome="open").lines] == ["tool"]
    assert [line.kind for line in audit_of(history, kind="handoff").lines] == ["handoff"]
    with pytest.raises(NotFound, match="'run-9'"):
        audit_of(history, "run-9")
