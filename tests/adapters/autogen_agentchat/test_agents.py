"""Agents of AutoGen AgentChat: what becomes of their streams, tools, models and of the agents in their tools."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.autogen_agentchat import AgentChatRecorder, install
from chatsnapshot.adapters.autogen_agentchat.hooks import agentchat
from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.testing.runtimes.autogen_agentchat import assistant, call

agents = pytest.importorskip("autogen_agentchat.agents")
messages = pytest.importorskip("autogen_agentchat.messages")
base = pytest.importorskip("autogen_agentchat.base")
tools = pytest.importorskip("autogen_agentchat.tools")
core = pytest.importorskip("autogen_core")

ONCE = ["run_started", "message", "model_call", "message", "run_completed"]


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, name: str) -> list[Any]:
    return list(ledger.read(event_type=f"execution.{name}"))


async def read(stream: Any) -> list[Any]:
    return [item async for item in stream]


def recorded(story: Callable[[Any, AgentChatRecorder], Any]) -> Any:
    """Play a story on a new ledger; gives the ledger."""
    ledger = chatsnapshot.open("memory:", validation="strict")
    recorder = AgentChatRecorder(ledger)
    asyncio.run(story(ledger, recorder))
    assert recorder.flush(10)
    assert recorder.safe.failures == 0
    return ledger


def test_a_stream_gives_the_same_items_and_is_recorded_while_it_is_read() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        stream = recorder.tee(assistant("alpha", ["Hi there"]).run_stream(task="Hello"))
        first = await anext(stream)
        assert (first.source, first.content) == ("user", "Hello")
        assert kinds(ledger) == ONCE[:2]
        *_, answer, result = await read(stream)
        assert (answer.content, result.messages[-1]) == ("Hi there", answer)

    ledger = recorded(story)
    assert kinds(ledger) == ONCE
    started, asked, model, said, ended = ledger.read()
    assert started.payload["name"] == "alpha"
    assert "helpful" in started.payload["instructions"]
    assert model.payload["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert [asked.payload["role"], said.payload["role"]] == ["user", "assistant"]
    assert ended.payload["output"] == "Hi there"


def test_the_runs_of_an_agent_are_one_conversation() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        alpha = recorder.attach(assistant("alpha", ["one", "two"]))
        await alpha.run(task="Hello")
        await read(alpha.run_stream(task=messages.TextMessage(source="user", content="Again")))

    ledger = recorded(story)
    assert kinds(ledger) == ONCE * 2
    assert len({entry.correlation_id for entry in ledger.read()}) == 1
    first, second = of(ledger, "run_started")
    assert first.payload["run_id"] != second.payload["run_id"]
    said = [one.payload["parts"][0]["content"] for one in of(ledger, "message")]
    assert said == ["Hello", "one", "Again", "two"]


@pytest.mark.parametrize("threaded", [True, False], ids=["in a thread", "on the loop"])
def test_what_a_tool_records_and_the_agents_it_runs_belong_to_its_call(threaded: bool) -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        beta = assistant("beta", ["hi"])

        def ask() -> str:
            """Ask beta."""
            ledger.record("execution.state_change", {"name": "asking"})
            return str(asyncio.run(beta.run(task="hi?")).messages[-1].content)

        async def ask_on_the_loop() -> str:
            """Ask beta."""
            ledger.record("execution.state_change", {"name": "asking"})
            return str((await beta.run(task="hi?")).messages[-1].content)

        tool = ask if threaded else ask_on_the_loop
        alpha = assistant("alpha", [[call(tool.__name__, {}, "call_1")]], tools=[tool])
        result = (await read(recorder.tee(alpha.run_stream(task="Hello"))))[-1]
        assert result.messages[-1].content == "hi"

    ledger = recorded(story)
    (made,), (noted,) = of(ledger, "tool_call"), of(ledger, "state_change")
    _, child = of(ledger, "run_started")
    assert noted.causation_id == child.causation_id == made.event_id
    assert noted.correlation_id == made.correlation_id != child.correlation_id
    assert child.payload["parent_run_id"] == made.payload["run_id"]


def test_an_agent_as_a_tool_is_told_in_its_own_run_alone_and_keeps_its_conversation() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        beta = tools.AgentTool(assistant("beta", ["first", "second"]), return_value_as_last_message=True)
        asks = [[call("beta", {"task": f"{n}?"}, f"call_{n}")] for n in (1, 2)]
        alpha = assistant("alpha", [*asks, "done"], tools=[beta], max_tool_iterations=3)
        items = await read(recorder.tee(alpha.run_stream(task="Hello")))
        assert [item.source for item in items[:-1]].count("beta") == 2

    ledger = recorded(story)
    root, first, second = of(ledger, "run_started")
    assert first.correlation_id == second.correlation_id != root.correlation_id
    assert [one.event_id for one in of(ledger, "tool_call")] == [first.causation_id, second.causation_id]
    said = [one.payload["parts"][0].get("content") for one in of(ledger, "message")]
    assert [said.count(text) for text in ("Hello", "1?", "first", "2?", "second", "done")] == [1] * 6


@pytest.mark.parametrize(
    ("asked", "told"),
    [(("nothing", "{}"), "not found"), (("add", "{"), "Error"), (("add", '{"a": "x"}'), "validation")],
    ids=["unknown tool", "no JSON", "wrong arguments"],
)
def test_a_call_that_cannot_be_made_is_a_result_with_its_error(asked: tuple[str, str], told: str) -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        wrong = core.FunctionCall(id="call_1", name=asked[0], arguments=asked[1])
        await recorder.attach(assistant("alpha", [[wrong]], tools=[add])).run(task="Hello")

    ledger = recorded(story)
    (made,), (result,) = of(ledger, "tool_call"), of(ledger, "tool_result")
    assert result.causation_id == made.event_id
    assert result.payload["is_error"] is True
    assert told in result.payload["error"]["message"]


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_stream_that_is_not_read_to_its_end_cancels_the_run(how: str) -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        stream: Any = recorder.tee(assistant("alpha", ["one"]).run_stream(task="Hello"))
        await anext(stream)
        if how == "closed":
            await stream.aclose()
        del stream
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)

    *_, last = recorded(story).read()
    assert last.event_type == "execution.run_cancelled"
    assert "closed before its end" in last.payload["reason"]


def test_a_run_that_is_cancelled_in_the_middle_of_a_tool_ends_as_cancelled() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        going = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            going.set()
            await asyncio.Event().wait()
            return "never"

        alpha = assistant("alpha", [[call("wait", {}, "call_1")]], tools=[wait])
        task = asyncio.ensure_future(recorder.attach(alpha).run(task="Hello"))
        await going.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert kinds(recorded(story))[-2:] == ["tool_call", "run_cancelled"]


def test_a_model_that_fails_in_a_stream_fails_the_run_and_the_reader_sees_it() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        alpha = assistant("alpha", [RuntimeError("model is down")], model_client_stream=True)
        with pytest.raises(RuntimeError, match="model is down"):
            await read(recorder.tee(alpha.run_stream(task="Hello")))

    ledger = recorded(story)
    assert kinds(ledger) == ["run_started", "message", "model_call", "run_failed"]
    (model,) = of(ledger, "model_call")
    assert model.payload["error"]["message"] == "model is down"


def test_a_task_that_the_runtime_refuses_fails_the_run_as_the_runtime_says() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        alpha: Any = recorder.attach(assistant("alpha", []))
        with pytest.raises(ValueError, match="Invalid message type"):
            await alpha.run(task=[7])

    assert kinds(recorded(story)) == ["run_started", "run_failed"]


def test_an_agent_of_ones_own_that_has_no_stream_is_told_by_its_result() -> None:
    class Echo(agents.BaseChatAgent):  # type: ignore[misc]
        produced_message_types = (messages.TextMessage,)

        async def on_messages(self, given: Any, token: Any) -> Any:
            thought = messages.ThoughtEvent(source=self.name, content="hm")
            said = messages.TextMessage(source=self.name, content=given[-1].content.upper())
            return base.Response(chat_message=said, inner_messages=[thought])

        async def on_reset(self, token: Any) -> None: ...

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        await recorder.attach(Echo("echo", "says it again")).run(task="Hello")

    ledger = recorded(story)
    assert kinds(ledger) == ["run_started", "message", "message", "run_completed"]
    said = of(ledger, "message")[1].payload["parts"]
    assert [part["type"] for part in said] == ["reasoning", "text"]
    assert said[1]["content"] == "HELLO"


def test_a_stream_of_whatever_items_is_recorded_as_far_as_they_tell() -> None:
    usage = core.models.RequestUsage(prompt_tokens=3, completion_tokens=1)
    result = core.models.FunctionExecutionResult(call_id="c", name="add", content="no", is_error=True)
    text = messages.TextMessage

    async def items() -> AsyncIterator[Any]:
        yield text(source="user", content="Hello")
        yield messages.MemoryQueryEvent(
            source="a", content=[core.memory.MemoryContent(content="x", mime_type="text/plain")]
        )
        asked = [core.FunctionCall(id="c", name="add", arguments="{}")]
        yield messages.ToolCallRequestEvent(source="a", content=asked, models_usage=usage)
        yield messages.ToolCallExecutionEvent(source="a", content=[result])
        block = core.code_executor.CodeBlock(code="1/0", language="python")
        yield messages.CodeGenerationEvent(source="a", content="so:", code_blocks=[block], retry_attempt=0)
        code = core.code_executor.CodeResult(exit_code=1, output="ZeroDivisionError")
        yield messages.CodeExecutionEvent(source="a", result=code, retry_attempt=0)
        yield messages.MultiModalMessage(source="b", content=["look"], models_usage=usage)
        yield messages.ModelClientStreamingChunkEvent(source="b", content="lo")
        yield "something else"

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        assert len(await read(recorder.tee(items(), agent="desk"))) == 9

    ledger = recorded(story)
    assert kinds(ledger) == [
        *("run_started", "message", "state_change", "model_call", "message", "tool_call", "tool_result"),
        *("message", "tool_call", "tool_result", "model_call", "message", "state_change", "run_cancelled"),
    ]
    assert of(ledger, "run_started")[0].payload["name"] == "desk"
    first, second = of(ledger, "tool_result")
    assert first.payload["error"]["message"] == "no"
    assert (second.payload["name"], second.payload["exit_code"]) == ("execute_code", 1)
    assert of(ledger, "tool_call")[1].payload["arguments"]["code_blocks"][0]["code"] == "1/0"
    assert "ended without a result" in of(ledger, "run_cancelled")[0].payload["reason"]


def test_however_often_a_recorder_is_given_a_run_it_records_it_once() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        undo = install(recorder)
        alpha = recorder.attach(recorder.attach(assistant("alpha", ["one", "two"])))
        await read(recorder.tee(recorder.tee(alpha.run_stream(task="Hello"))))
        await alpha.run(task="Again")
        undo()

    assert kinds(recorded(story)) == ONCE * 2


def test_installed_it_records_every_agent_and_undone_none_and_leaves_the_classes_alone() -> None:
    known = agentchat()
    kinds_of = (known.agent, known.team, known.assistant, known.tool)
    gc.collect()
    before = [dict(vars(kind)) for kind in kinds_of]

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        undo = install(recorder)
        assert known.agent.run is not before[0]["run"]
        await assistant("alpha", ["one"]).run(task="Hello")
        undo()
        undo()
        await assistant("alpha", ["one"]).run(task="Hello")

    assert kinds(recorded(story)) == ONCE
    gc.collect()
    assert [dict(vars(kind)) for kind in kinds_of] == before


def test_agents_at_once_keep_apart() -> None:
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        crowd = [assistant("alpha", [[call("add", {"a": n}, "call_1")]], tools=[add]) for n in range(5)]
        await asyncio.gather(*(recorder.attach(one).run(task="Hello") for one in crowd))

    ledger = recorded(story)
    results = of(ledger, "tool_result")
    assert len({one.correlation_id for one in results}) == 5
    for result in results:
        (made,) = ledger.read(correlation_id=result.correlation_id, event_type="execution.tool_call")
        assert result.causation_id == made.event_id
        assert result.payload["result"] == str(made.payload["arguments"]["a"] + 1)


def test_something_of_the_wrong_kind_is_refused_in_one_sentence() -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder: Any = AgentChatRecorder(ledger)
        with pytest.raises(
            TypeError, match=r"tee\(\) takes the stream that run_stream\(...\) gives, not int"
        ):
            recorder.tee(7)
        with pytest.raises(TypeError, match=r"an agent or a team of AgentChat, not int"):
            recorder.attach(7)
        with pytest.raises(TypeError, match="needs an AgentChatRecorder, not int"):
            install(7)  # type: ignore[arg-type]


def test_a_package_that_is_missing_or_too_old_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    agentchat.cache_clear()
    name = "autogen_agentchat.agents"
    with chatsnapshot.open("memory:") as ledger:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        with pytest.raises(LedgerError, match=r"has no autogen_agentchat\.agents\.BaseChatAgent.*needs"):
            AgentChatRecorder(ledger)
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises((MissingExtra, LedgerError), match="autogen"):
            AgentChatRecorder(ledger)
    agentchat.cache_clear()
