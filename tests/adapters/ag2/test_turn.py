"""AG2 1.x: a whole turn is recorded in the right order, each event with its cause."""

from __future__ import annotations

from typing import Any

import pytest
from ag2 import tool
from ag2.events import HumanInputRequest
from ag2.exceptions import HumanInputFailedError, HumanInputNotProvidedError
from ag2.tools import ToolResult
from ag2_agents import (
    Call,
    Steps,
    add,
    answer_blue,
    answer_never,
    ask_human,
    entries,
    explode,
    run_one,
    scripted,
)

from chatsnapshot import Ledger


def test_a_turn_with_a_tool_is_recorded_in_order_with_its_causes(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    reply, _ = run_one(ledger, scripted(call("add", a=1, b=2), "It is 3."), [add])
    assert reply.body == "It is 3."
    assert steps(ledger.read()) == [
        ("run_started assistant", ""),
        ("message user", "run_started assistant"),
        ("model_call", "message user"),
        ("message assistant", "model_call"),
        ("tool_call add-1", "message assistant"),
        ("tool_result add-1", "tool_call add-1"),
        ("model_call", "tool_result add-1"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]


def test_the_payloads_say_what_was_said_and_done(ledger: Ledger, call: Call) -> None:
    run_one(ledger, scripted(call("add", a=1, b=2), "It is 3.", provider="openai", model="m-1"), [add])
    by_type = {entry.event_type: entry.payload for entry in ledger.read()}
    started = by_type["execution.run_started"]
    assert (started["name"], started["instructions"]) == ("assistant", ["Be kind."])
    assert len({entry.payload["run_id"] for entry in ledger.read()}) == 1
    user, asks, answers = [entry.payload for entry in entries(ledger, "execution.message")]
    assert user["parts"] == [{"type": "text", "content": "hello"}]
    assert asks["parts"] == [
        {"type": "tool_call", "id": "add-1", "name": "add", "arguments": {"a": 1, "b": 2}}
    ]
    assert (answers["role"], answers["name"]) == ("assistant", "assistant")
    assert answers["parts"] == [{"type": "text", "content": "It is 3."}]
    assert by_type["execution.tool_call"]["arguments"] == {"a": 1, "b": 2}
    assert (by_type["execution.tool_result"]["result"], by_type["execution.tool_result"]["is_error"]) == (
        3,
        False,
    )
    model_call = by_type["execution.model_call"]
    assert (model_call["provider"], model_call["model"], model_call["attempt"]) == ("openai", "m-1", 1)
    assert model_call["duration_ns"] > 0
    assert by_type["execution.run_completed"]["output"] == "It is 3."


def test_the_source_names_the_agent(ledger: Ledger) -> None:
    run_one(ledger, scripted("hi"))
    sources = [(entry.source.origin, entry.source.runtime, entry.source.name) for entry in ledger.read()]
    assert sources == [("agent", "ag2", name) for name in ("assistant", None, *["assistant"] * 3)]


def test_an_event_is_durable_before_the_runtime_goes_on(ledger: Ledger, call: Call) -> None:
    seen: list[str] = []

    def look(x: int) -> int:
        """Look into the ledger while the tool runs."""
        seen.extend(entry.event_type for entry in ledger.read())
        return x

    run_one(ledger, scripted(call("look", x=1), "done"), [look])
    assert seen[-1] == "execution.tool_call"
    assert len(seen) == 5


def test_parallel_tools_are_one_call_each_and_together_cause_the_next_model_call(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    run_one(ledger, scripted([call("add", a=1, b=2), call("add", a=3, b=4)], "3 and 7"), [add])
    told = steps(ledger.read())
    assert ("tool_call add-1", "message assistant") in told
    assert ("tool_call add-2", "message assistant") in told
    assert {one for one in told if one[0].startswith("tool_result")} == {
        ("tool_result add-1", "tool_call add-1"),
        ("tool_result add-2", "tool_call add-2"),
    }
    results = [entry.event_id for entry in entries(ledger, "execution.tool_result")]
    second = entries(ledger, "execution.model_call")[1]
    assert second.causation_id == results[-1]
    assert second.attributes["links"] == results[:-1]


@pytest.mark.parametrize(
    ("tool_name", "arguments", "error"),
    [
        ("explode", {"x": 1}, "ValueError"),
        ("nope", {}, "ToolNotFoundError"),
        ("add", {"a": "many"}, "ValidationError"),
    ],
    ids=["failing", "unknown", "bad arguments"],
)
def test_a_tool_that_fails_leaves_a_result_with_its_error(
    ledger: Ledger, steps: Steps, call: Call, tool_name: str, arguments: dict[str, Any], error: str
) -> None:
    reply, _ = run_one(ledger, scripted(call(tool_name, **arguments), "sorry"), [add, explode])
    assert reply.body == "sorry"
    assert (f"tool_result {tool_name}-1", f"tool_call {tool_name}-1") in steps(ledger.read())
    (result,) = entries(ledger, "execution.tool_result")
    assert result.payload["is_error"] is True
    assert result.payload["error"]["type"] == error
    assert entries(ledger)[-1].event_type == "execution.run_completed"


def test_a_tool_whose_middleware_fails_leaves_a_result_as_well(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    async def broken(call_next: Any, event: Any, context: Any) -> Any:
        raise RuntimeError("the guard broke")

    guarded = tool(add, middleware=[broken])
    run_one(ledger, scripted(call("add", a=1, b=2), "sorry"), [guarded])
    assert ("tool_result add-1", "tool_call add-1") in steps(ledger.read())
    (result,) = entries(ledger, "execution.tool_result")
    assert result.payload["error"]["message"] == "the guard broke"


def test_a_final_tool_result_is_the_answer(ledger: Ledger, steps: Steps, call: Call) -> None:
    def finish() -> ToolResult:
        """Finish."""
        return ToolResult("done by the tool", final=True)

    reply, _ = run_one(ledger, scripted(call("finish")), [finish])
    assert reply.body == "done by the tool"
    assert steps(ledger.read())[-3:] == [
        ("tool_result finish-1", "tool_call finish-1"),
        ("message assistant", "tool_result finish-1"),
        ("run_completed", "message assistant"),
    ]


def test_a_question_and_its_answer_stand_between_call_and_result(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    reply, _ = run_one(
        ledger,
        scripted(call("ask_human", question="colour?"), "blue it is"),
        [ask_human],
        hitl_hook=answer_blue,
    )
    assert reply.body == "blue it is"
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    told = steps(ledger.read())
    at = told.index(("tool_call ask_human-1", "message assistant"))
    assert told[at + 1] == (
        f"human_input_requested {question.payload['question_id']}",
        "tool_call ask_human-1",
    )
    assert told[at + 2][1] == told[at + 1][0]
    assert told[at + 3] == ("tool_result ask_human-1", "tool_call ask_human-1")
    assert (question.payload["kind"], question.payload["question"]) == ("question", "colour?")
    assert (answer.payload["answer"], answer.payload["answers"]) == ("blue", question.payload["question_id"])


@pytest.mark.parametrize(
    ("hook", "error", "end"),
    [
        (None, HumanInputNotProvidedError, "run_paused"),
        (answer_never, HumanInputFailedError, "run_failed"),
    ],
)
def test_a_question_that_nobody_is_there_for_pauses_the_run_and_one_that_fails_fails_it(
    ledger: Ledger, steps: Steps, call: Call, hook: Any, error: type[Exception], end: str
) -> None:
    raised, _ = run_one(
        ledger, scripted(call("ask_human", question="colour?"), "-"), [ask_human], hitl_hook=hook
    )
    assert type(raised) is error
    told = steps(ledger.read())
    assert told[-2][0].startswith("human_input_requested")
    assert told[-1] == (end, told[-2][0])
    last = entries(ledger)[-1].payload
    assert (last["reason"] if hook is None else last["error"]["type"]) == error.__name__


@pytest.mark.parametrize(
    ("said", "decision", "result"), [("yes", "approved", 3), ("no", "rejected", "denied")]
)
def test_an_approval_tells_the_decision(
    ledger: Ledger, call: Call, said: str, decision: str, result: Any
) -> None:
    from ag2.middleware.builtin.tools.approval import approval_required

    async def answer(event: HumanInputRequest) -> str:
        return said

    guarded = tool(add, middleware=[approval_required(denied_message="denied")])
    run_one(ledger, scripted(call("add", a=1, b=2), "ok"), [guarded], hitl_hook=answer)
    (question,) = entries(ledger, "execution.human_input_requested")
    (answered,) = entries(ledger, "execution.human_input_received")
    assert (question.payload["kind"], question.payload["call_id"]) == ("approval", "add-1")
    assert answered.payload["decision"] == decision
    assert answered.attributes["outcome"] == decision
    assert answered.causation_id == question.event_id
    assert entries(ledger, "execution.tool_result")[0].payload["result"] == result
