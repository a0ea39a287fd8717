"""How a run comes to be recorded, and that nothing else about the SDK changes by it."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, RunHooks, Runner, UserError, add_trace_processor, function_tool
from agents.tracing import TracingProcessor, get_trace_provider

import chatsnapshot
from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder, install
from chatsnapshot.adapters.openai_agents.entering import Entrance, entrance


def ours() -> dict[str, Any]:
    return {name: Runner.__dict__[name] for name in ("run", "run_sync", "run_streamed")}


def types(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


WHOLE = ["run_started", "message", "model_call", "message", "run_completed"]


def test_the_hooks_of_a_recorder_record_the_call_that_they_are_given_to(
    ledger: Any, recorder: Any, model: Any
) -> None:
    async def run() -> None:
        await Runner.run(Agent(name="alpha", model=model("Hi")), "Hello", hooks=recorder.hooks)
        await Runner.run(Agent(name="other", model=model("Hi")), "Hello")

    asyncio.run(run())
    assert types(ledger) == WHOLE


def test_installed_it_records_every_run_until_it_is_undone(
    ledger: Any, recorder: Any, model: Any, loop: Any
) -> None:
    undo = install(recorder)

    async def run() -> None:
        await Runner.run(Agent(name="alpha", model=model("Hi")), "Hello")
        result = Runner.run_streamed(Agent(name="beta", model=model("Hi")), "Hello")
        async for _ in result.stream_events():
            pass

    loop.run_until_complete(run())
    Runner.run_sync(Agent(name="gamma", model=model("Hi")), "Hello")
    assert types(ledger) == WHOLE * 3
    undo()
    undo()
    Runner.run_sync(Agent(name="delta", model=model("Hi")), "Hello")
    assert len(types(ledger)) == 15


def test_the_runner_looks_the_same_while_there_are_recorders_and_is_itself_again_without() -> None:
    before = ours()
    around = Entrance()
    around.open()
    around.open()
    for name, function in before.items():
        changed = getattr(Runner, name)
        assert Runner.__dict__[name] is not function
        assert inspect.signature(changed) == inspect.signature(function.__get__(None, Runner))
        assert inspect.iscoroutinefunction(changed) == inspect.iscoroutinefunction(function.__func__)
    around.close()
    assert ours() != before
    around.close()
    assert ours() == before


def test_whoever_else_goes_around_the_runner_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ours()
    around = Entrance()
    around.open()
    inside = Runner.__dict__["run"]

    async def theirs(cls: Any, *args: Any, **options: Any) -> Any:
        return await inside.__func__(cls, *args, **options)

    monkeypatch.setattr(Runner, "run", classmethod(theirs))
    kept = Runner.__dict__["run"]
    around.close()
    around.open()
    assert Runner.__dict__["run"] is kept
    monkeypatch.undo()
    around.close()
    assert ours() == before


def test_a_recorder_needs_the_way_in_as_long_as_it_is_there(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(entrance, "open", lambda: asked.append("open"))
    monkeypatch.setattr(entrance, "close", lambda: asked.append("close"))
    recorder = OpenAIAgentsRecorder(ledger)
    assert asked == ["open"]
    install(recorder)()
    assert asked == ["open", "open", "close"]
    gone = weakref.ref(recorder)
    del recorder
    assert gone() is None, "a recorder that nobody uses goes without the garbage collector"
    assert asked == ["open", "open", "close", "close"]


def test_a_run_is_recorded_once_by_the_recorders_of_a_ledger_and_by_each_ledger(
    ledger: Any, model: Any
) -> None:
    with chatsnapshot.open("memory:") as other:
        first, second, third = (OpenAIAgentsRecorder(one) for one in (ledger, ledger, other))
        undo = install(third)
        try:
            first.run_sync(Agent(name="alpha", model=model("Hi")), "Hello", hooks=second.hooks)
        finally:
            undo()
        assert types(ledger) == types(other) == WHOLE


def test_hooks_of_the_callers_own_are_called_and_may_still_break_the_run(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    heard: list[str] = []

    class Own(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            heard.append("agent_start")

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            heard.append("llm_start")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            heard.append("llm_end")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            heard.append(f"tool_start {context.tool_call_id}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(f"tool_end {result}")

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            heard.append(f"handoff {to_agent.name}")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            heard.append(f"agent_end {output}")
            raise ValueError("not good enough")

    @function_tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    beta = Agent(name="beta", model=model("Hi"))
    script = model([call("add", "c1", a=1, b=2)], [call("transfer_to_beta", "c2")])
    agent = Agent(name="alpha", tools=[add], handoffs=[beta], model=script)

    def play(runner: Any) -> tuple[list[str], str]:
        heard.clear()
        with pytest.raises(ValueError, match="not good enough") as raised:
            runner.run_sync(agent, "Hello", hooks=Own())
        beta.model, agent.model = (
            model("Hi"),
            model([call("add", "c1", a=1, b=2)], [call("transfer_to_beta", "c2")]),
        )
        return list(heard), repr(raised.value)

    unrecorded = play(Runner)
    assert play(recorder) == unrecorded
    assert "handoff beta" in unrecorded[0]
    (failed,) = ledger.read(event_type="execution.run_failed")
    assert failed.payload["error"]["message"] == "not good enough"


def test_processors_that_were_there_stay_and_the_vendors_is_neither_added_nor_removed(
    ledger: Any, recorder: Any, model: Any
) -> None:
    class Own(TracingProcessor):
        def __init__(self) -> None:
            self.traces = 0

        def on_trace_start(self, trace: Any) -> None:
            self.traces += 1

        def on_trace_end(self, trace: Any) -> None: ...
        def on_span_start(self, span: Any) -> None: ...
        def on_span_end(self, span: Any) -> None: ...
        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    own = Own()
    add_trace_processor(own)
    held: Any = get_trace_provider()
    for _ in range(3):
        recorder.run_sync(Agent(name="alpha", model=model("Hi")), "Hello")
    processors = held._multi_processor._processors
    assert own.traces == 3
    assert sorted(type(one).__name__ for one in processors) == ["Listener", "Own"]


def test_a_tool_that_fails_by_the_runtimes_rules_fails_the_same(recorder: Any, model: Any, call: Any) -> None:
    @function_tool(failure_error_function=None)
    def fail() -> str:
        """Fail."""
        raise ValueError("no such city")

    def play(runner: Any) -> str:
        with pytest.raises(UserError) as raised:
            runner.run_sync(Agent(name="alpha", tools=[fail], model=model([call("fail", "c1")])), "Go")
        return f"{raised.value} from {raised.value.__cause__!r}"

    assert play(recorder) == play(Runner)


def test_install_takes_a_recorder_of_this_runtime() -> None:
    with pytest.raises(TypeError, match="install takes an OpenAIAgentsRecorder, not str"):
        install("runs.db")  # type: ignore[arg-type]
