"""What is recorded of an agent's run: all ways of running, messages, tokens, tools, retries, ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from chatsnapshot.adapters.agno import AgnoRecorder

BOTH = [("add", {"a": 2, "b": 3}), ("add", {"a": 4, "b": 5})]
WHOLE = [
    "run_started alpha",
    "message user <- run_started alpha",
    "model_call <- message user",
    "message assistant <- model_call",
    "run_completed alpha <- message assistant",
]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def go(agent: Any, way: str, asked: Any = "Hello", **options: Any) -> Any:
    """Run an agent in one of the ways that there are; gives the output, or what the stream yielded."""
    if way.startswith("arun"):

        async def run() -> Any:
            if "stream" not in way:
                return await agent.arun(asked, **options)
            events = way.endswith("events")
            return [one async for one in agent.arun(asked, stream=True, stream_events=events, **options)]

        return asyncio.run(run())
    if "stream" in way:
        return list(agent.run(asked, stream=True, stream_events=way.endswith("events"), **options))
    return agent.run(asked, **options)


def said(ledger: Any) -> list[tuple[str, str]]:
    return [
        (
            one.payload["role"],
            "".join(str(part.get("content", part.get("name"))) for part in one.payload["parts"]),
        )
        for one in ledger.read(event_type="execution.message")
    ]


def payloads(ledger: Any, kind: str) -> list[Any]:
    return [one.payload for one in ledger.read(event_type=f"execution.{kind}")]


@pytest.mark.parametrize(
    "way", ["run", "run stream", "run stream events", "arun", "arun stream", "arun stream events"]
)
def test_every_way_of_running_is_recorded_the_same(recorder: Any, agent: Any, told: Any, way: str) -> None:
    go(recorder.attach(agent("alpha", "Hi there")), way)
    assert told() == WHOLE


@pytest.mark.parametrize("way", ["run", "arun", "arun stream"])
def test_tools_of_one_answer_are_caused_by_it_and_their_results_by_them(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    go(recorder.attach(agent("alpha", BOTH, "5 and 9", tools=[add])), way)
    lines = told()
    assert lines.count("tool_call call_1 <- message assistant") == 1
    assert lines.count("tool_result call_2 <- tool_call call_2") == 1
    results = {one["call_id"]: one["result"] for one in payloads(ledger, "tool_result")}
    assert results == {"call_1": 5, "call_2": 9}
    usage = [one["usage"] for one in payloads(ledger, "model_call")]
    assert usage == [{"input_tokens": 9, "output_tokens": 3}] * 2


def test_a_session_is_the_conversation_unless_the_recorder_has_one(
    ledger: Any, recorder: Any, agent: Any
) -> None:
    alpha = recorder.attach(agent("alpha", "one", "two", instructions="Be kind."))
    alpha.run("Hello", session_id="s1")
    alpha.run("Again", session_id="s1")
    AgnoRecorder(ledger, correlation_id="mine").attach(agent("beta", "three")).run("Hello", session_id="s1")
    starts = list(ledger.read(event_type="execution.run_started"))
    assert [one.correlation_id for one in starts] == ["s1", "s1", "mine"]
    assert len({one.payload["run_id"] for one in starts}) == 3
    assert said(ledger)[:5] == [
        ("user", "Hello"),
        ("system", "Be kind."),
        ("assistant", "one"),
        ("user", "Again"),
        ("assistant", "two"),
    ]


def test_history_that_is_new_to_the_ledger_is_recorded_once(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.db.in_memory import InMemoryDb

    options = {"db": InMemoryDb(), "add_history_to_context": True, "session_id": "s1"}
    alpha = agent("alpha", "one", "two", "three", **options)
    alpha.run("first")
    recorder.attach(alpha)
    alpha.run("second")
    alpha.run("third")
    texts = [text for _, text in said(ledger)]
    assert texts == ["first", "one", "second", "two", "third", "three"]


def test_what_a_user_says_besides_text_is_recorded(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.media import File, Image
    from agno.models.message import Message

    alpha = recorder.attach(agent("alpha", "A lamp.", "Well.", "Yes."))
    picture, page = Image(content=b"\x89PNG", mime_type="image/png"), File(url="https://lamps.example/a.pdf")
    alpha.run("What is it?", images=[picture], files=[page])
    alpha.run([Message(role="user", content="How are you?"), Message(role="user", content="Well?")])
    alpha.run({"lamp": 7})
    first, _, second, third, _, fourth, _ = payloads(ledger, "message")
    assert [part["type"] for part in first["parts"]] == ["text", "blob", "uri"]
    assert first["parts"][1]["mime_type"] == "image/png"
    assert [second["parts"][0]["content"], third["parts"][0]["content"]] == ["How are you?", "Well?"]
    assert fourth["parts"] == [{"type": "text", "content": {"lamp": 7}}]


def test_thoughts_and_structured_output_are_recorded(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.models.response import ModelResponse
    from pydantic import BaseModel

    class Lamp(BaseModel):
        watts: int

    answer = ModelResponse(role="assistant", content='{"watts": 7}', reasoning_content="hm")
    alpha = recorder.attach(agent("alpha", answer, output_schema=Lamp, use_json_mode=True))
    assert alpha.run("Which?").content == Lamp(watts=7)
    message = payloads(ledger, "message")[-1]
    assert message["parts"][0] == {"type": "reasoning", "content": "hm"}
    (ended,) = payloads(ledger, "run_completed")
    assert ended["output"] == {"watts": 7}


def test_what_a_tool_of_several_kinds_gives_is_recorded(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.media import Image
    from agno.tools.function import ToolResult

    def count() -> Any:
        """Count."""
        yield "one, "
        yield "two"

    def draw() -> Any:
        """Draw."""
        return ToolResult(content="drawn", images=[Image(url="https://lamps.example/a.png")])

    alpha = agent("alpha", [("count", {}), ("draw", {})], "done", tools=[count, draw])
    recorder.attach(alpha).run("Go")
    counted, drawn = payloads(ledger, "tool_result")
    assert counted["result"] == "one, two"
    assert drawn["result"]["content"] == "drawn"
    assert drawn["result"]["media"][0]["uri"] == "https://lamps.example/a.png"


def test_a_tool_that_fails_while_it_yields_is_a_result_with_its_error(
    recorder: Any, ledger: Any, agent: Any
) -> None:
    def count() -> Any:
        """Count."""
        yield "one"
        raise ValueError("no such number")

    recorder.attach(agent("alpha", [("count", {})], "done", tools=[count])).run("Go")
    (result,) = payloads(ledger, "tool_result")
    assert result["is_error"] and result["error"]["message"] == "no such number"


def test_calls_that_no_tool_is_executed_for_are_recorded_with_their_errors(
    recorder: Any, ledger: Any, agent: Any
) -> None:
    wrong = [("gone", {}), ("add", {"a": "x"}), ("add", {"a": 1, "b": 2})]
    recorder.attach(agent("alpha", wrong, "fine", tools=[add], tool_call_limit=1)).run("Go")
    calls = {one["call_id"]: one["name"] for one in payloads(ledger, "tool_call")}
    results = {one["call_id"]: one for one in payloads(ledger, "tool_result")}
    assert calls == {"call_1": "gone", "call_2": "add", "call_3": "add"}
    assert results["call_1"]["is_error"] and "does not exist" in results["call_1"]["error"]["message"]
    assert results["call_2"]["is_error"] and "validation error" in results["call_2"]["error"]["message"]
    assert results["call_3"]["is_error"] and "limit" in results["call_3"]["error"]["message"]


def test_a_tool_that_stops_the_run_is_a_result_with_its_error(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.exceptions import StopAgentRun

    def stop() -> str:
        """Stop."""
        raise StopAgentRun("enough")

    recorder.attach(agent("alpha", [("stop", {})], tools=[stop])).run("Go")
    (result,) = payloads(ledger, "tool_result")
    assert result["error"]["type"] == "StopAgentRun"
    assert payloads(ledger, "run_completed")


@pytest.mark.parametrize("way", ["run", "run stream", "arun", "arun stream"])
def test_each_try_of_a_model_is_told(recorder: Any, ledger: Any, agent: Any, way: str) -> None:
    from agno.exceptions import ModelProviderError

    alpha = recorder.attach(agent("alpha", ModelProviderError("busy"), "fine"))
    alpha.model.retries, alpha.model.delay_between_retries = 1, 0
    go(alpha, way)
    first, second = payloads(ledger, "model_call")
    assert (first["attempt"], first["error"]["message"]) == (1, "busy")
    assert (second["attempt"], second.get("error")) == (2, None)


def test_a_run_that_is_tried_again_is_one_run_and_its_message_is_told_once(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    options: dict[str, Any] = {"retries": 1, "delay_between_retries": 0}
    recorder.attach(agent("alpha", ValueError("busy"), "fine", **options)).run("Hello")
    assert said(ledger) == [("user", "Hello"), ("assistant", "fine")]
    assert told()[2:4] == ["model_call <- message user", "model_call <- model_call"]


@pytest.mark.parametrize("way", ["run", "run stream", "arun", "arun stream"])
def test_a_run_that_is_refused_before_it_asks_the_model_has_failed(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.exceptions import InputCheckError

    def refuse(run_input: Any) -> None:
        raise InputCheckError("no lamps")

    go(recorder.attach(agent("alpha", "never", pre_hooks=[refuse])), way, session_id="s1")
    assert told() == [
        "run_started alpha",
        "message user <- run_started alpha",
        "run_failed alpha <- message user",
    ]
    (failed,) = ledger.read(event_type="execution.run_failed")
    assert (failed.correlation_id, failed.payload["error"]["message"]) == ("s1", "no lamps")


@pytest.mark.parametrize("way", ["run", "run stream", "arun stream events"])
def test_a_model_that_fails_fails_the_run_with_its_error(
    recorder: Any, ledger: Any, agent: Any, way: str
) -> None:
    go(recorder.attach(agent("alpha", RuntimeError("model is down"))), way)
    (failed,) = payloads(ledger, "run_failed")
    assert (failed["error"]["type"], failed["error"]["message"]) == ("RuntimeError", "model is down")


def test_a_run_that_cannot_go_on_raises_and_leaves_nothing(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.db.in_memory import InMemoryDb

    alpha = recorder.attach(agent("alpha", "never", db=InMemoryDb()))
    with pytest.raises(Exception, match="gone"):
        alpha.continue_run(run_id="gone", session_id="s1")
    assert ledger.head == 0


def test_a_stream_that_is_closed_early_is_a_cancelled_run(recorder: Any, ledger: Any, agent: Any) -> None:
    stream = recorder.attach(agent("alpha", "a b c")).run("Hello", stream=True)
    next(stream)
    stream.close()
    (ended,) = payloads(ledger, "run_cancelled")
    assert "closed" in ended["reason"]


def test_a_stream_that_nobody_reads_is_no_run(recorder: Any, ledger: Any, agent: Any) -> None:
    recorder.attach(agent("alpha", "a b c")).run("Hello", stream=True).close()
    assert ledger.head == 0


def test_a_stream_that_is_left_at_its_last_event_has_completed(
    recorder: Any, ledger: Any, agent: Any
) -> None:
    stream = recorder.attach(agent("alpha", "a b c")).run("Hello", stream=True, stream_events=True)
    for event in stream:
        if event.event == "RunCompleted":
            break
    stream.close()
    (ended,) = payloads(ledger, "run_completed")
    assert ended["output"] == "a b c"


def test_a_task_that_is_cancelled_ends_its_tool_and_its_run(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    async def run() -> None:
        waiting = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            waiting.set()
            await asyncio.Event().wait()
            return "never"

        alpha = recorder.attach(agent("alpha", [("wait", {})], tools=[wait]))
        task = asyncio.create_task(alpha.arun("Go"))
        await asyncio.wait_for(waiting.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert told()[-2:] == [
        "tool_result call_1 <- tool_call call_1",
        "run_cancelled alpha <- tool_result call_1",
    ]


def test_a_tool_in_a_thread_that_outlives_its_run_is_told_once(recorder: Any, agent: Any, told: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        begun.set()
        go_on.wait(60)
        return "too late"

    async def run() -> None:
        alpha = recorder.attach(agent("alpha", [("wait", {})], tools=[wait]))
        task = asyncio.create_task(alpha.arun("Go"))
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(run())
    assert told()[-2:] == [
        "tool_result call_1 <- tool_call call_1",
        "run_cancelled alpha <- tool_result call_1",
    ]


def test_a_run_that_agno_cancels_is_cancelled(recorder: Any, ledger: Any, agent: Any) -> None:
    def stop(run_context: Any) -> str:
        """Stop."""
        alpha.cancel_run(run_context.run_id)
        return "stopping"

    alpha = recorder.attach(agent("alpha", [("stop", {})], "never", tools=[stop]))
    alpha.run("Go")
    assert payloads(ledger, "run_cancelled") and not payloads(ledger, "run_completed")


def test_a_run_in_the_background_ends_when_it_does(recorder: Any, agent: Any, told: Any) -> None:
    from agno.db.in_memory import InMemoryDb
    from agno.run.background import await_background_runs

    async def run() -> None:
        alpha = recorder.attach(agent("alpha", "Hi there", db=InMemoryDb()))
        output = await alpha.arun("Hello", background=True)
        assert output.status.value == "PENDING"
        await await_background_runs()

    asyncio.run(run())
    assert told() == WHOLE


def test_what_a_second_model_is_asked_beside_the_run_counts_tokens_and_says_nothing(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    from chatsnapshot.testing.runtimes.agno import scripted

    recorder.attach(agent("alpha", "Hi", output_model=scripted("Hi there"))).run("Hello")
    main, beside = payloads(ledger, "model_call")
    assert (main.get("native"), beside["native"]) == (None, {"purpose": "output_model"})
    assert beside["usage"] == {"input_tokens": 9, "output_tokens": 3}
    assert said(ledger) == [("user", "Hello"), ("assistant", "Hi")]
    assert payloads(ledger, "run_completed")[0]["output"] == "Hi there"
    assert told()[-2:] == ["model_call <- run_started alpha", "run_completed alpha <- message assistant"]


@pytest.mark.parametrize("way", ["run", "run stream", "arun"])
def test_an_answer_from_the_cache_is_a_message_without_a_call_of_the_model(
    recorder: Any, agent: Any, told: Any, tmp_path: Any, way: str
) -> None:
    def cached() -> Any:
        made = agent("alpha", "Hi there", system_message="Be kind.")
        made.model.cache_response, made.model.cache_dir = True, str(tmp_path)
        return made

    go(cached(), way)
    go(recorder.attach(cached()), way)
    assert told() == [
        "run_started alpha",
        "message user <- run_started alpha",
        "message assistant <- message user",
        "run_completed alpha <- message assistant",
    ]


def test_a_run_on_an_event_loop_that_it_blocks_is_recorded(recorder: Any, agent: Any, told: Any) -> None:
    async def run() -> None:
        recorder.attach(agent("alpha", "Hi there")).run("Hello")

    asyncio.run(run())
    assert recorder.flush(5)
    assert told() == WHOLE


def test_a_way_of_running_that_calls_another_is_one_run(recorder: Any, told: Any) -> None:
    from agno.agent import Agent

    from chatsnapshot.testing.runtimes.agno import scripted

    class Mine(Agent):
        def run(self, *args: Any, **options: Any) -> Any:
            return super().run(*args, **options)

    recorder.attach(Mine(name="alpha", model=scripted("Hi there"), telemetry=False)).run("Hello")
    assert told() == WHOLE


def test_a_run_that_goes_on_after_its_end_is_a_new_one(recorder: Any, ledger: Any, agent: Any) -> None:
    alpha = recorder.attach(agent("alpha", "one", "two"))
    first = alpha.run("Hello")
    alpha.continue_run(run_response=first, input="And?")
    starts = payloads(ledger, "run_started")
    assert len(starts) == 2 and starts[1]["native"]["forked_from"] == first.run_id
    assert [text for _, text in said(ledger)] == ["Hello", "one", "And?", "two"]
