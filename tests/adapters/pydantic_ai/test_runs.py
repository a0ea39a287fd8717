"""What is recorded of a run: all ways of running, messages, tokens, tools, children, ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry, UnexpectedModelBehavior
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
)
from pydantic_ai.usage import RequestUsage

import chatsnapshot
from chatsnapshot.adapters.pydantic_ai import PydanticAIRecorder, install

WHOLE = [
    "run_started alpha",
    "message user <- run_started alpha",
    "model_call <- message user",
    "message assistant <- model_call",
    "run_completed alpha <- message assistant",
]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def messages(ledger: Any) -> list[tuple[str, str]]:
    said = [entry.payload for entry in ledger.read(event_type="execution.message")]
    return [
        (one["role"], "".join(str(part.get("content", part.get("name"))) for part in one["parts"]))
        for one in said
    ]


@pytest.mark.parametrize("way", ["run", "run_sync", "run_stream", "iter"])
def test_every_way_of_running_is_recorded_the_same(agent: Any, told: Any, loop: Any, way: str) -> None:
    alpha = agent("Hi there")

    async def run() -> None:
        if way == "run":
            await alpha.run("Hello")
        elif way == "run_stream":
            async with alpha.run_stream("Hello") as stream:
                assert (await stream.get_output()).strip() == "Hi there"
        else:
            async with alpha.iter("Hello") as steps:
                async for _ in steps:
                    pass

    if way == "run_sync":
        assert alpha.run_sync("Hello").output == "Hi there"
    else:
        loop.run_until_complete(run())
    assert told() == WHOLE


def test_the_model_is_not_made_to_stream(recorder: Any, model: Any) -> None:
    scripted = model("Hi")
    scripted.stream_function = None
    assert Agent(scripted, capabilities=[recorder.capability]).run_sync("Hello").output == "Hi"


def test_a_conversation_is_that_of_pydantic_ai_unless_the_recorder_has_one(
    ledger: Any, agent: Any, model: Any
) -> None:
    first = agent("one", "two", instructions="Be kind.")
    result = first.run_sync("Hello")
    first.run_sync("Again", message_history=result.all_messages())
    mine = PydanticAIRecorder(ledger, correlation_id="mine")
    Agent(model("Hi"), capabilities=[mine.capability]).run_sync("Hello")
    starts = [entry.correlation_id for entry in ledger.read(event_type="execution.run_started")]
    assert starts == [result.conversation_id, result.conversation_id, "mine"]
    assert messages(ledger)[:5] == [
        ("user", "Hello"),
        ("system", "Be kind."),
        ("assistant", "one"),
        ("user", "Again"),
        ("assistant", "two"),
    ]


def test_history_that_is_new_to_the_ledger_is_recorded(
    ledger: Any, agent: Any, model: Any, call: Any
) -> None:
    unseen = Agent(model([call("add", "c0", a=1, b=1)], "two"), tools=[add], system_prompt="Add.").run_sync(
        "1+1?"
    )
    agent("Bye").run_sync("Thanks", message_history=unseen.all_messages())
    assert [role for role, _ in messages(ledger)] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


def test_what_a_user_and_a_model_say_besides_text_is_recorded(ledger: Any, agent: Any) -> None:
    answer = ModelResponse(
        parts=[
            ThinkingPart("hm"),
            NativeToolCallPart("web_search", {"query": "lamp"}, tool_call_id="n1"),
            NativeToolReturnPart("web_search", [{"title": "A lamp"}], tool_call_id="n1"),
            TextPart("A lamp."),
        ],
        usage=RequestUsage(
            input_tokens=9, cache_read_tokens=4, output_tokens=3, details={"reasoning_tokens": 2}
        ),
        provider_name="acme",
        finish_reason="stop",
        provider_response_id="r1",
    )
    alpha = agent(answer)
    alpha.run_sync(
        [
            "What is it?",
            ImageUrl("https://example.org/a.png"),
            BinaryContent(b"\x89PNG", media_type="image/png"),
        ]
    )
    user, assistant = (entry.payload["parts"] for entry in ledger.read(event_type="execution.message"))
    assert [part["type"] for part in user] == ["text", "uri", "blob"]
    assert [part["type"] for part in assistant] == ["reasoning", "tool_call", "tool_call_response", "text"]
    (model_call,) = [entry.payload for entry in ledger.read(event_type="execution.model_call")]
    assert model_call["usage"] == {"input_tokens": 9, "output_tokens": 3, "cache_read": 4, "reasoning": 2}
    assert [model_call[key] for key in ("model", "provider", "finish_reason", "response_id")] == [
        "function:respond:stream",
        "acme",
        "stop",
        "r1",
    ]
    (result,) = ledger.read(event_type="execution.tool_result")
    assert (result.payload["call_id"], result.payload["result"]) == ("n1", [{"title": "A lamp"}])


def test_what_a_tool_records_itself_belongs_to_its_call_also_in_a_thread(
    ledger: Any, agent: Any, call: Any
) -> None:
    def look() -> str:
        """Look."""
        ledger.record("integration.call", {"service": "warehouse"})
        return "there"

    async def wait() -> str:
        """Wait."""
        await ledger.arecord("integration.call", {"service": "clock"})
        return "done"

    agent([call("look", "c1"), call("wait", "c2")], "ok", tools=[look, wait]).run_sync("Look")
    calls = {
        entry.event_id: entry.payload["call_id"] for entry in ledger.read(event_type="execution.tool_call")
    }
    own = {e.payload["service"]: calls[e.causation_id] for e in ledger.read(event_type="integration.call")}
    assert own == {"warehouse": "c1", "clock": "c2"}


def test_agents_that_tools_and_validators_run_are_child_runs(agent: Any, call: Any, told: Any) -> None:
    one, two, judge = agent("1", name="one"), agent("2", name="two"), agent("fine", name="judge")

    async def ask(which: str) -> str:
        """Ask."""
        return str((await {"one": one, "two": two}[which].run("?")).output)

    alpha = agent([call("ask", "c1", which="one"), call("ask", "c2", which="two")], "12", tools=[ask])

    @alpha.output_validator
    async def check(output: str) -> str:
        await judge.run("Is it fine?")
        return output

    alpha.run_sync("Ask both")
    assert {"run_started one <- tool_call c1", "run_started two <- tool_call c2"} <= set(told())
    assert "run_started judge <- run_started alpha" in told()
    assert told()[-1] == "run_completed alpha <- message assistant"


def test_a_tool_that_asks_the_model_to_try_again_is_a_result_with_an_error(
    ledger: Any, agent: Any, call: Any, told: Any
) -> None:
    def book(city: str) -> str:
        """Book."""
        if city == "Nowhere":
            raise ModelRetry("no such city")
        return "booked"

    agent(
        [call("book", "c1", city="Nowhere")], [call("book", "c2", city="Ghent")], "ok", tools=[book]
    ).run_sync("Go")
    first, second = (entry.payload for entry in ledger.read(event_type="execution.tool_result"))
    assert (first["error"]["type"], first["error"]["message"]) == ("ModelRetry", "no such city")
    assert (second["is_error"], second["result"]) == (False, "booked")
    assert told()[-1].startswith("run_completed")


def test_calls_with_wrong_arguments_and_of_unknown_tools_are_results_with_an_error(
    ledger: Any, agent: Any, call: Any, told: Any
) -> None:
    agent([call("add", "c1", a="one", b=2)], [call("nothing", "c2")], "sorry", tools=[add]).run_sync("Go")
    first, second = (entry.payload for entry in ledger.read(event_type="execution.tool_result"))
    assert first["status"] == "retried" and "valid integer" in str(first["error"])
    assert "Unknown tool name: 'nothing'" in second["error"]["message"]
    assert {"tool_result c1 <- tool_call c1", "tool_result c2 <- tool_call c2"} <= set(told())


def test_an_output_that_is_no_text_is_recorded_as_its_fields(ledger: Any, agent: Any, call: Any) -> None:
    class City(BaseModel):
        name: str

    agent([call("final_result", "c1", name="Ghent")], output_type=City).run_sync("Where?")
    (end,) = ledger.read(event_type="execution.run_completed")
    assert end.payload["output"] == {"name": "Ghent"}


def test_errors_of_tools_and_models_are_raised_as_without_a_recorder(
    ledger: Any, agent: Any, model: Any, call: Any
) -> None:
    def fail() -> str:
        """Fail."""
        raise ValueError("no such city")

    def play(make: Any) -> list[str]:
        raised = []
        for answers in (
            [[call("fail", "c1")]],
            [RuntimeError("model is down")],
            [ModelResponse(parts=[])] * 9,
        ):
            with pytest.raises((ValueError, RuntimeError, UnexpectedModelBehavior)) as error:
                make(*answers, tools=[fail]).run_sync("Go")
            raised.append(repr(error.value))
        return raised

    assert play(agent) == play(lambda *answers, **options: Agent(model(*answers), **options))
    failed = [entry.payload["error"]["type"] for entry in ledger.read(event_type="execution.run_failed")]
    assert failed[:2] == ["ValueError", "RuntimeError"] and len(failed) == 3


def test_a_cancelled_run_ends_after_its_tools(agent: Any, call: Any, told: Any) -> None:
    waiting = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        waiting.set()
        await asyncio.Event().wait()
        return "never"

    async def run() -> None:
        task = asyncio.ensure_future(agent([call("hang", "c1")], tools=[hang]).run("Go"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert told()[-2:] == ["tool_result c1 <- tool_call c1", "run_cancelled alpha <- tool_result c1"]


def test_a_stream_that_is_left_is_a_cancelled_run(agent: Any, told: Any) -> None:
    async def run() -> None:
        async with agent("one two three").run_stream("Go") as stream:
            async for _ in stream.stream_text(debounce_by=None):
                break

    asyncio.run(run())
    assert told()[-1].startswith("run_cancelled alpha")
    assert sum(line.startswith("run_") for line in told()) == 2


def test_a_recovery_by_another_capability_is_what_the_record_says(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    class Recovering(AbstractCapability[Any]):
        async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> Any:
            return ModelResponse(parts=[TextPart("from memory")])

    capabilities = [Recovering(), recorder.capability]
    Agent(model(RuntimeError("down")), name="alpha", capabilities=capabilities).run_sync("Go")
    assert told() == WHOLE
    assert messages(ledger)[-1] == ("assistant", "from memory")


def test_a_capability_that_is_there_twice_and_two_recorders_record_once(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    second = PydanticAIRecorder(ledger)
    alpha = Agent(
        model([call("add", "c1", a=1, b=1)], "2"),
        name="alpha",
        tools=[add],
        capabilities=[recorder.capability, second.capability],
    )
    alpha.run_sync("1+1?", capabilities=[recorder.capability])
    assert len(told()) == 9


def test_installed_it_records_every_agent_until_it_is_undone(
    ledger: Any, recorder: Any, agent: Any, model: Any, told: Any
) -> None:
    before = Agent.__dict__["iter"]
    with chatsnapshot.open("memory:") as other:
        undo, undo_other = install(recorder), install(PydanticAIRecorder(other))
        Agent(model("Hi"), name="alpha").run_sync("Hello")
        agent("Hi").run_sync("Hello", capabilities=[])
        undo()
        undo()
        Agent(model("Hi"), name="alpha").run_sync("Hello")
        undo_other()
        assert Agent.__dict__["iter"] is before
        assert other.head == 15
    assert told() == WHOLE * 2


def test_wrong_objects_and_a_missing_hook_say_so_in_one_sentence(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match="install takes a PydanticAIRecorder, not str"):
        install("runs.db")  # type: ignore[arg-type]
    monkeypatch.delattr("pydantic_ai.capabilities.AbstractCapability.wrap_run")
    with pytest.raises(
        chatsnapshot.errors.LedgerError,
        match=r"has no pydantic_ai\.capabilities\.AbstractCapability\.wrap_run",
    ):
        PydanticAIRecorder(ledger)
