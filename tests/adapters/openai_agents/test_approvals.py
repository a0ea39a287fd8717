"""Runs that wait for approval: paused, answered, and gone on with, also as children and as streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, GuardrailFunctionOutput, RunConfig, RunState, function_tool, input_guardrail


@function_tool(needs_approval=True)
def book(city: str) -> str:
    """Book."""
    return f"booked {city}"


def booking(model: Any, call: Any, *cities: str) -> Any:
    calls = [call("book", f"c{n}", city=city) for n, city in enumerate(cities, 1)]
    return Agent(name="alpha", tools=[book], model=model(calls, "done"))


async def restored(agent: Any, result: Any) -> Any:
    """The state as another process would have it."""
    return await RunState.from_json(agent, json.loads(json.dumps(result.to_state().to_json())))


@pytest.mark.parametrize("tracing", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_run_goes_on_in_its_conversation_and_the_answer_is_the_cause(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any, tracing: bool, named: bool
) -> None:
    config = RunConfig(tracing_disabled=not tracing, group_id="talk" if named else None)

    async def run() -> None:
        agent = booking(model, call, "Bruges")
        result = await recorder.run(agent, "Book", run_config=config)
        state = await restored(agent, result)
        for item in state.get_interruptions():
            state.approve(item)
        assert (await recorder.run(agent, state, run_config=config)).final_output == "done"

    asyncio.run(run())
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
    assert len({entry.correlation_id for entry in ledger.read()}) == 1
    (question,) = ledger.read(event_type="execution.human_input_requested")
    assert isinstance(
        question.payload["question"]["arguments"], dict
    )  # values, as in the call, not the text of them


def test_a_rejection_is_recorded_with_its_reason(ledger: Any, recorder: Any, model: Any, call: Any) -> None:
    async def run() -> None:
        agent = booking(model, call, "Bruges")
        state = (await recorder.run(agent, "Book")).to_state()
        for item in state.get_interruptions():
            state.reject(item, rejection_message="too dear")
        await recorder.run(agent, state)

    asyncio.run(run())
    (answer,) = ledger.read(event_type="execution.human_input_received")
    assert (answer.payload["decision"], answer.payload["answer"]) == ("rejected", "too dear")
    assert not list(ledger.read(event_type="execution.tool_call"))


def test_of_two_questions_the_one_that_is_left_open_is_not_asked_again(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    async def run() -> None:
        agent = booking(model, call, "Bruges", "Ghent")
        result = await recorder.run(agent, "Book")
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = await recorder.run(agent, state)
        (left,) = result.interruptions
        state = result.to_state()
        state.approve(left)
        assert (await recorder.run(agent, state)).final_output == "done"

    asyncio.run(run())
    lines = told()
    assert sum(line.startswith("human_input_requested") for line in lines) == 2
    assert sum(line.startswith("run_paused") for line in lines) == 2
    assert [line for line in lines if line.startswith("run_resumed")] == [
        "run_resumed alpha <- human_input_received c1",
        "run_resumed alpha <- human_input_received c2",
    ]
    assert {"tool_result c1 <- tool_call c1", "tool_result c2 <- tool_call c2"} <= set(lines)


@pytest.mark.parametrize("tracing", [True, False])
def test_a_child_that_waits_goes_on_in_its_own_conversation(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any, tracing: bool
) -> None:
    config = RunConfig(tracing_disabled=not tracing)

    async def run() -> None:
        child = booking(model, call, "Bruges").clone(name="child")
        asking = model([call("ask", "p1", input="Book")], "parent done")
        agent = Agent(name="parent", tools=[child.as_tool("ask", "")], model=asking)
        result = await recorder.run(agent, "Go", run_config=config)
        state = await restored(agent, result)
        for item in state.get_interruptions():
            state.approve(item)
        assert (await recorder.run(agent, state, run_config=config)).final_output == "parent done"

    asyncio.run(run())
    parent, child = dict.fromkeys(entry.correlation_id for entry in ledger.read())
    assert [line for line in told(parent) if line.startswith("run_")] == [
        "run_started parent",
        "run_paused parent <- tool_call p1",
        "run_resumed parent <- run_paused parent",
        "run_completed parent <- message assistant",
    ]
    assert "tool_result p1 <- tool_call p1" in told(parent)
    assert [line for line in told(child) if line.startswith("run_")] == [
        "run_started child <- tool_call p1",
        "run_paused child <- human_input_requested c1",
        "run_resumed child <- human_input_received c1",
        "run_completed child <- message assistant",
    ]


def test_a_stream_pauses_and_goes_on_too(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    async def run() -> None:
        agent = booking(model, call, "Bruges")
        result = recorder.run_streamed(agent, "Book")
        async for _ in result.stream_events():
            pass
        state = await restored(agent, result)
        for item in state.get_interruptions():
            state.approve(item)
        result = recorder.run_streamed(agent, state)
        async for _ in result.stream_events():
            pass
        assert result.final_output == "done"

    asyncio.run(run())
    assert "run_resumed alpha <- human_input_received c1" in told()
    assert told()[-1] == "run_completed alpha <- message assistant"
    assert len({entry.correlation_id for entry in ledger.read()}) == 1


def test_what_is_said_beside_the_approval_is_a_message_of_the_run_that_goes_on(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    async def run() -> None:
        agent = booking(model, call, "Bruges")
        state = (await recorder.run(agent, "Book")).to_state()
        for item in state.get_interruptions():
            state.approve(item)
        state.add_input("And hurry")
        await recorder.run(agent, state)

    asyncio.run(run())
    assert "message user <- run_resumed alpha" in told()
    said = [entry.payload for entry in ledger.read(event_type="execution.message")]
    assert [one["parts"][0]["content"] for one in said if one["role"] == "user"] == ["Book", "And hurry"]


def test_a_guardrail_that_judged_before_the_pause_is_recorded_once(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    @input_guardrail
    async def polite(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="fine", tripwire_triggered=False)

    async def run() -> None:
        agent = booking(model, call, "Bruges").clone(input_guardrails=[polite])
        state = await restored(agent, await recorder.run(agent, [{"role": "developer", "content": "Book"}]))
        for item in state.get_interruptions():
            state.approve(item)
        await recorder.run(agent, state)

    asyncio.run(run())
    (verdict,) = ledger.read(event_type="execution.guardrail")
    assert verdict.payload["outcome"] == "passed"
