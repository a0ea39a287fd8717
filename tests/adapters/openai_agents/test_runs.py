"""What is recorded of a run: its conversation, its messages, its tools, and the runs inside it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    RunConfig,
    Runner,
    function_tool,
    input_guardrail,
    trace,
)
from agents.testing import ScriptedModel, assistant_message
from agents.tracing import generation_span
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_function_web_search import ActionSearch

import chatsnapshot
from chatsnapshot.adapters.openai_agents import ChatSnapshotSession, OpenAIAgentsRecorder


@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def correlations(ledger: Any, event_type: str = "execution.run_started") -> list[str]:
    return [entry.correlation_id for entry in ledger.read(event_type=event_type)]


def messages(ledger: Any) -> list[tuple[str, str]]:
    said = [entry.payload for entry in ledger.read(event_type="execution.message")]
    return [
        (one["role"], "".join(str(part.get("content", part.get("name"))) for part in one["parts"]))
        for one in said
    ]


def test_a_blocking_call_is_recorded_like_one_that_is_awaited(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    result = recorder.run_sync(Agent(name="alpha", model=model("Hi there")), "Hello")
    assert result.final_output == "Hi there"
    assert told() == [
        "run_started alpha",
        "message user <- run_started alpha",
        "model_call <- message user",
        "message assistant <- model_call",
        "run_completed alpha <- message assistant",
    ]


@pytest.mark.parametrize("way", ["group", "session", "around", "recorder"])
def test_the_conversation_is_the_one_that_the_caller_names(ledger: Any, model: Any, way: str) -> None:
    recorder = OpenAIAgentsRecorder(ledger, correlation_id="mine" if way == "recorder" else None)
    agent = Agent(name="alpha", model=model("one", "two"))
    config = RunConfig(group_id="talk-7") if way in ("group", "recorder") else None
    session = ChatSnapshotSession("talk-8", ledger) if way == "session" else None

    async def both() -> str:
        with trace("my workflow", group_id="talk-9", disabled=way != "around"):
            for asked in ("Hello", "Again"):
                await recorder.run(agent, asked, run_config=config, session=session)
        return {"group": "talk-7", "session": "talk-8", "around": "talk-9", "recorder": "mine"}[way]

    named = asyncio.run(both())
    assert correlations(ledger) == [named, named]
    starts = [entry.payload["run_id"] for entry in ledger.read(event_type="execution.run_started")]
    assert starts[0] == named != starts[1]


def test_without_a_name_the_conversation_is_the_trace_and_the_trace_is_searchable(
    ledger: Any, recorder: Any, model: Any
) -> None:
    recorder.run_sync(Agent(name="alpha", model=model("Hi")), "Hello")
    (start,) = ledger.read(event_type="execution.run_started")
    assert start.correlation_id.startswith("trace_")
    assert start.attributes["trace_id"] == start.correlation_id


def test_with_tracing_off_everything_is_recorded_too(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    agent = Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=2)], "3"))
    recorder.run_sync(agent, "1+2?", run_config=RunConfig(tracing_disabled=True))
    assert "tool_result c1 <- tool_call c1" in told()
    assert told()[-1] == "run_completed alpha <- message assistant"


def test_history_that_is_on_record_is_not_recorded_again(ledger: Any, recorder: Any, model: Any) -> None:
    agent = Agent(name="alpha", instructions="Be kind.", model=model("one", "two"))
    config = RunConfig(group_id="talk")

    async def talk() -> None:
        result = await recorder.run(agent, "Hello", run_config=config)
        await recorder.run(
            agent, [*result.to_input_list(), {"role": "user", "content": "Again"}], run_config=config
        )

    asyncio.run(talk())
    assert messages(ledger) == [
        ("user", "Hello"),
        ("system", "Be kind."),
        ("assistant", "one"),
        ("user", "Again"),
        ("assistant", "two"),
    ]


def test_history_that_is_new_to_the_ledger_is_recorded(ledger: Any, recorder: Any, model: Any) -> None:
    given = [
        {"role": "user", "content": "What was it?"},
        {"type": "function_call", "call_id": "c0", "name": "look", "arguments": '{"at": "box"}'},
        {"type": "function_call_output", "call_id": "c0", "output": "a lamp"},
        {"role": "assistant", "content": "A lamp."},
        {"role": "user", "content": [{"type": "input_text", "text": "Thanks"}]},
    ]
    recorder.run_sync(Agent(name="alpha", model=model("Bye")), given)
    assert [role for role, _ in messages(ledger)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


def test_a_call_of_a_model_has_its_tokens_once_and_its_name(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    agent = Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=2)], "3"))
    recorder.run_sync(agent, "1+2?", run_config=RunConfig())
    calls = [entry.payload for entry in ledger.read(event_type="execution.model_call")]
    assert [one["usage"] for one in calls] == [{"input_tokens": 5, "output_tokens": 2}] * 2
    assert all(one["duration_ns"] >= 0 and one["started_at"].endswith("Z") for one in calls)


@pytest.mark.parametrize("named", ["answer", "agent", "call"])
def test_the_model_is_named_as_its_answer_names_it_else_as_it_was_asked_for(
    ledger: Any, recorder: Any, model: Any, named: str
) -> None:
    class Traced(ScriptedModel):
        model = "tiny-1"

        async def get_response(self, *args: Any, **options: Any) -> Any:
            with generation_span(model="tiny-1-2026") if named == "answer" else nullcontext():
                return await super().get_response(*args, **options)

    scripted = Traced([[assistant_message("Hi")]])
    config = RunConfig(model=scripted) if named == "call" else None
    agent = Agent(name="alpha", model="unknown" if named == "call" else scripted)
    recorder.run_sync(agent, "Hello", run_config=config)
    (call,) = ledger.read(event_type="execution.model_call")
    assert call.payload["model"] == ("tiny-1-2026" if named == "answer" else "tiny-1")


def test_what_a_tool_records_itself_belongs_to_the_tool_call(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    @function_tool
    def look() -> str:
        """Look."""
        ledger.record("integration.call", {"service": "warehouse"})
        return "there"

    @function_tool
    async def wait() -> str:
        """Wait."""
        await ledger.arecord("integration.call", {"service": "clock"})
        return "done"

    agent = Agent(
        name="alpha", tools=[look, wait], model=model([call("look", "c1"), call("wait", "c2")], "ok")
    )
    recorder.run_sync(agent, "Look")
    calls = {
        entry.event_id: entry.payload["call_id"] for entry in ledger.read(event_type="execution.tool_call")
    }
    own = {e.payload["service"]: calls[e.causation_id] for e in ledger.read(event_type="integration.call")}
    assert own == {"warehouse": "c1", "clock": "c2"}


@pytest.mark.parametrize("tracing", [True, False])
def test_after_a_tool_nothing_belongs_to_it_any_more(
    ledger: Any, recorder: Any, model: Any, call: Any, tracing: bool
) -> None:
    agent = Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=2)], "3"))

    async def run() -> None:
        await recorder.run(agent, "1+2?", run_config=RunConfig(tracing_disabled=not tracing))
        await ledger.arecord("integration.call", {"service": "outside"}, correlation_id="elsewhere")

    asyncio.run(run())
    (own,) = ledger.read(event_type="integration.call")
    assert own.causation_id is None


def test_agents_as_tools_are_child_runs_each_caused_by_its_own_call(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    one, two = Agent(name="one", model=model("1")), Agent(name="two", model=model("2"))
    agent = Agent(
        name="alpha",
        tools=[one.as_tool("ask_one", ""), two.as_tool("ask_two", "")],
        model=model([call("ask_one", "c1", input="?"), call("ask_two", "c2", input="?")], "12"),
    )
    recorder.run_sync(agent, "Ask both", run_config=RunConfig(group_id="talk"))
    assert "run_started one <- tool_call c1" in told()
    assert "run_started two <- tool_call c2" in told()
    assert len(set(correlations(ledger))) == 3
    children = [e.payload for e in ledger.read(event_type="execution.run_started")][1:]
    assert {child["parent_run_id"] for child in children} == {"talk"}


def test_an_agent_as_a_tool_that_streams_is_a_child_run_that_ends_before_its_call(
    recorder: Any, model: Any, call: Any, told: Any
) -> None:
    heard: list[str] = []
    one = Agent(name="one", model=model("1"))
    tools = [one.as_tool("ask_one", "", on_stream=lambda event: heard.append(event["event"].type))]
    agent = Agent(name="alpha", tools=[*tools], model=model([call("ask_one", "c1", input="?")], "done"))
    recorder.run_sync(agent, "Ask")
    lines = told()
    assert heard
    assert "run_started one <- tool_call c1" in lines
    assert lines.index("run_completed one <- message assistant") < lines.index(
        "tool_result c1 <- tool_call c1"
    )


def test_a_tool_that_the_provider_runs_is_recorded_with_its_result(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    action = ActionSearch(type="search", query="lamp")
    search = ResponseFunctionWebSearch(id="w1", type="web_search_call", status="completed", action=action)
    recorder.run_sync(Agent(name="alpha", model=model([search, assistant_message("A lamp.")])), "What is it?")
    assert "tool_call w1 <- message assistant" in told()
    assert "tool_result w1 <- tool_call w1" in told()
    (hosted,) = ledger.read(event_type="execution.tool_call")
    assert hosted.payload["name"] == "web_search"


def test_an_agent_that_a_tool_runs_by_itself_is_a_child_run(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    helper = Agent(name="helper", model=model("helped"))

    @function_tool
    async def ask_helper() -> str:
        """Ask."""
        return str((await Runner.run(helper, "Help")).final_output)

    agent = Agent(name="alpha", tools=[ask_helper], model=model([call("ask_helper", "c1")], "done"))
    recorder.run_sync(agent, "Go")
    assert "run_started helper <- tool_call c1" in told()
    assert "tool_result c1 <- tool_call c1" in told()


def test_an_agent_that_a_guardrail_asks_is_a_child_run(
    ledger: Any, recorder: Any, model: Any, told: Any
) -> None:
    judge = Agent(name="judge", model=model("fine"))

    @input_guardrail
    async def polite(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        said = await Runner.run(judge, "Is it polite?")
        return GuardrailFunctionOutput(output_info=said.final_output, tripwire_triggered=False)

    recorder.run_sync(Agent(name="alpha", input_guardrails=[polite], model=model("Hi")), "Hello")
    assert "run_started judge <- run_started alpha" in told()
    (verdict,) = ledger.read(event_type="execution.guardrail")
    assert {key: verdict.payload[key] for key in ("name", "phase", "triggered", "message")} == {
        "name": "polite",
        "phase": "input",
        "triggered": False,
        "message": "fine",
    }


def test_a_handoff_names_both_agents_and_the_answer_is_the_second_ones(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    beta = Agent(name="beta", model=model("beta here"))
    agent = Agent(name="alpha", handoffs=[beta], model=model([call("transfer_to_beta", "c1")]))
    recorder.run_sync(agent, "Let beta answer")
    (over,) = ledger.read(event_type="execution.handoff")
    assert (over.payload["from"], over.payload["to"]) == ("alpha", "beta")
    assert told()[-1] == "run_completed beta <- message assistant"
    assert "handoff beta <- message assistant" in told()


def test_two_runs_at_once_keep_their_events_apart(
    ledger: Any, recorder: Any, model: Any, call: Any, told: Any
) -> None:
    async def both() -> None:
        def agent() -> Any:
            return Agent(name="alpha", tools=[add], model=model([call("add", "c1", a=1, b=2)], "3"))

        await asyncio.gather(
            *(recorder.run(agent(), "1+2?", run_config=RunConfig(group_id=f"talk-{n}")) for n in range(5))
        )

    asyncio.run(both())
    assert all(told(f"talk-{n}") == told("talk-0") for n in range(5))
    assert len(told("talk-0")) == 9


def test_the_records_verify_and_are_one_connected_graph(
    ledger: Any, recorder: Any, model: Any, call: Any
) -> None:
    beta = Agent(name="beta", model=model("child says hi"))
    agent = Agent(
        name="alpha", tools=[beta.as_tool("ask", "")], model=model([call("ask", "c1", input="?")], "done")
    )
    recorder.run_sync(agent, "Ask")
    assert ledger.verify().ok
    known = {entry.event_id for entry in ledger.read()}
    assert [e.event_type for e in ledger.read() if e.causation_id not in known] == ["execution.run_started"]


def test_a_wrong_agent_and_a_missing_runtime_say_so_in_one_sentence(
    ledger: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match=r"records an agents\.Agent, not builtins\.str"):
        recorder.run_sync("alpha", "Hello")
    monkeypatch.delattr("agents.RunHooks")
    with pytest.raises(chatsnapshot.errors.LedgerError, match=r"openai-agents .* has no agents\.RunHooks"):
        OpenAIAgentsRecorder(ledger)
