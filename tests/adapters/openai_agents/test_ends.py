"""How runs end: errors of tools and models, guardrails, limits, cancellation, streams that are left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    MaxTurnsExceeded,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    ToolGuardrailFunctionOutput,
    UserError,
    function_tool,
    output_guardrail,
    tool_input_guardrail,
)


@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@function_tool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@function_tool(failure_error_function=None)
async def explode() -> str:
    """Raise, and let the run fail."""
    raise ValueError("no such city")


@function_tool
def fail() -> str:
    """Raise, and let the model know."""
    raise ValueError("no such city")


def results(ledger: Any) -> dict[str, Any]:
    return {e.payload["call_id"]: e.payload for e in ledger.read(event_type="execution.tool_result")}


@pytest.mark.parametrize("tracing", [True, False])
def test_what_a_tool_raised_is_recorded_though_the_model_is_not_told(
    ledger: Any, recorder: Any, model: Any, call: Any, tracing: bool
) -> None:
    agent = Agent(name="alpha", tools=[fail], model=model([call("fail", "c1")], "sorry"))
    recorder.run_sync(agent, "Go", run_config={"tracing_disabled": not tracing})
    failed = results(ledger)["c1"]
    assert failed["is_error"] and failed["error"]["type"] == "ValueError"
    assert failed["result"] == "An error occurred while running the tool. Please try again."


def test_a_formatter_of_tool_errors_that_the_caller_gave_is_asked_as_before(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    def formatter(failure: Any) -> str:
        return f"{failure.tool_name}: {failure.error}"

    config = RunConfig(tool_error_formatter=formatter)
    agent = Agent(name="alpha", tools=[fail], model=model([call("fail", "c1")], "sorry"))
    recorder.run_sync(agent, "Go", run_config=config)
    assert results(ledger)["c1"]["result"] == "fail: no such city"
    assert config.tool_error_formatter is formatter


def test_a_tool_that_ends_the_run_is_told_from_the_one_beside_it(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    agent = Agent(
        name="alpha", tools=[explode, wait], model=model([call("explode", "c1"), call("wait", "c2")])
    )
    with pytest.raises(UserError, match="no such city"):
        recorder.run_sync(agent, "Go")
    found = results(ledger)
    assert found["c1"]["error"]["message"] == "no such city"
    assert found["c2"]["error"]["message"] == "cancelled with its run"
    assert told()[-1].startswith("run_failed alpha")


def test_a_model_that_fails_is_a_call_with_its_error(ledger: Any, recorder: Any, model: Any) -> None:
    with pytest.raises(RuntimeError, match="model is down"):
        recorder.run_sync(Agent(name="alpha", model=model(RuntimeError("model is down"))), "Hello")
    (failed,) = ledger.read(event_type="execution.model_call")
    assert failed.payload["error"]["message"] == "model is down"


def test_too_many_turns_end_the_run_as_failed(ledger: Any, recorder: Any, model: Any, call: Any) -> None:
    agent = Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=1)], "2"))
    with pytest.raises(MaxTurnsExceeded):
        recorder.run_sync(agent, "Go", max_turns=1)
    (end,) = ledger.read(event_type="execution.run_failed")
    assert end.payload["error"]["type"] == "MaxTurnsExceeded"


def test_a_guardrail_that_stops_the_run_says_why(ledger: Any, recorder: Any, model: Any, told: Any) -> None:
    @output_guardrail
    async def short(context: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="too long", tripwire_triggered=True)

    with pytest.raises(OutputGuardrailTripwireTriggered):
        recorder.run_sync(Agent(name="alpha", output_guardrails=[short], model=model("Hi")), "Hello")
    (verdict,) = ledger.read(event_type="execution.guardrail")
    assert {k: verdict.payload[k] for k in ("name", "phase", "outcome", "message")} == {
        "name": "short",
        "phase": "output",
        "outcome": "blocked",
        "message": "too long",
    }
    assert told()[-1] == "run_failed alpha <- guardrail"


def test_a_guardrail_of_a_tool_is_recorded(ledger: Any, recorder: Any, model: Any, call: Any) -> None:
    @tool_input_guardrail
    def small(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("too big", output_info={"limit": 3})

    @function_tool(tool_input_guardrails=[small])
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    recorder.run_sync(
        Agent(name="alpha", tools=[double], model=model([call("double", "c1", n=9)], "ok")), "Go"
    )
    (verdict,) = ledger.read(event_type="execution.guardrail")
    assert (verdict.payload["name"], verdict.payload["phase"]) == ("small", "tool_input")
    assert (verdict.payload["triggered"], verdict.payload["message"]) == (True, {"limit": 3})


def test_a_cancelled_run_and_its_tool_are_recorded_as_cancelled(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    waiting = asyncio.Event()

    @function_tool
    async def hang() -> str:
        """Hang."""
        waiting.set()
        await asyncio.Event().wait()
        return "never"

    async def run() -> None:
        agent = Agent(name="alpha", tools=[hang], model=model([call("hang", "c1")]))
        task = asyncio.ensure_future(recorder.run(agent, "Go"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert told()[-2:] == ["tool_result c1 <- tool_call c1", "run_cancelled alpha <- tool_result c1"]


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_stream_that_is_cancelled_ends_as_cancelled(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any, mode: Any
) -> None:
    async def run() -> None:
        agent = Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=1)], "2"))
        result = recorder.run_streamed(agent, "Go")
        async for event in result.stream_events():
            if getattr(event, "name", None) == "tool_called":
                result.cancel(mode)

    asyncio.run(run())
    assert told()[-1].startswith("run_cancelled alpha")
    assert sum(line.startswith("run_") for line in told()) == 2


def test_a_stream_that_fails_ends_as_failed_and_raises_where_it_is_read(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    async def run() -> None:
        result = recorder.run_streamed(Agent(name="alpha", model=model(RuntimeError("model is down"))), "Go")
        with pytest.raises(RuntimeError, match="model is down"):
            async for _ in result.stream_events():
                pass

    asyncio.run(run())
    assert told()[-1].startswith("run_failed alpha <- model_call")


def test_a_stream_that_nobody_reads_is_recorded_to_its_end(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    async def run() -> None:
        result = recorder.run_streamed(Agent(name="alpha", model=model("Hi")), "Hello")
        await result.run_loop_task

    asyncio.run(run())
    assert told()[-1] == "run_completed alpha <- message assistant"


def test_a_call_that_the_runner_refuses_is_recorded_and_refused_the_same(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    agent = Agent(name="alpha", model=model("Hi"))
    with pytest.raises(TypeError, match="Run hooks must be instances of RunHooks"):
        Runner.run_sync(agent, "Hello", hooks=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Run hooks must be instances of RunHooks"):
        recorder.run_sync(agent, "Hello", hooks=object())
    assert told()[-1].startswith("run_failed alpha")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        recorder.run_sync(agent, "Hello", nothing=1)
