"""What the recorder of Google ADK tells of a run, beyond the contract of adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.google_adk import GoogleADKRecorder, install
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.runtimes.google_adk import answered, call, scripted, user


@pytest.fixture
def ledger() -> Iterator[chatsnapshot.Ledger]:
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: chatsnapshot.Ledger) -> Iterator[GoogleADKRecorder]:
    made = GoogleADKRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped) == (0, 0)


def agent(name: str, *answers: Any, **options: Any) -> Any:
    from google.adk.agents import LlmAgent

    return LlmAgent(name=name, description=name, model=scripted(*answers), **options)


def runner(root: Any, *recorders: GoogleADKRecorder) -> Any:
    from google.adk.apps.app import App
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService

    app = App(name="desk", root_agent=root, plugins=[one.plugin for one in recorders])
    return Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)


async def turn(running: Any, message: Any, session: str = "s") -> list[Any]:
    content = user(message) if isinstance(message, str) else message
    return [one async for one in running.run_async(user_id="ann", session_id=session, new_message=content)]


def told(ledger: chatsnapshot.Ledger, kind: str, **filters: Any) -> list[LedgerEntry]:
    return list(ledger.read(event_type=f"execution.{kind}", **filters))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_every_runner_is_recorded_from_install_to_undo(ledger: chatsnapshot.Ledger) -> None:
    recorder = GoogleADKRecorder(ledger)
    undo = install(recorder)
    try:
        inside = runner(agent("alpha", "Hi", "Hi"), recorder)
        assert inside.plugin_manager.plugins == [recorder.plugin]
        bare = runner(agent("alpha", "Hi", "Hi"))
        assert bare.plugin_manager.plugins == [recorder.plugin]
        asyncio.run(turn(bare, "Hello"))
    finally:
        undo()
    assert runner(agent("alpha", "Hi")).plugin_manager.plugins == []
    assert len(told(ledger, "run_completed")) == 1
    with pytest.raises(TypeError, match="needs a GoogleADKRecorder, not str"):
        install("recorder")  # type: ignore[arg-type]


def test_an_agent_that_gets_no_plugins_is_recorded_by_install_alone(ledger: chatsnapshot.Ledger) -> None:
    from google.adk.tools import AgentTool

    def names() -> list[str]:
        alone = AgentTool(agent=agent("beta", "child says hi"), include_plugins=False)
        asking = [call("beta", "call_1", request="hi")]
        before = ledger.head
        asyncio.run(turn(runner(agent("alpha", asking, "done", tools=[alone]), recorder), "Go"))
        return [entry.payload["name"] for entry in told(ledger, "run_started", after=before)]

    recorder = GoogleADKRecorder(ledger)
    assert names() == ["alpha"]
    undo = install(recorder)
    try:
        assert names() == ["alpha", "beta"]
    finally:
        undo()
    alpha, beta = told(ledger, "run_started")[1:]
    assert beta.payload["parent_run_id"] == alpha.payload["run_id"]


def test_turns_of_a_session_are_runs_of_one_correlation(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    running = runner(agent("alpha", "Hi", "Again"), recorder)
    for said in ("Hello", "And now?"):
        asyncio.run(turn(running, said))
    started = told(ledger, "run_started")
    assert {entry.correlation_id for entry in ledger.read()} == {"s"}
    assert len({entry.payload["run_id"] for entry in started}) == 2
    assert [entry.payload["output"] for entry in told(ledger, "run_completed")] == ["Hi", "Again"]


def test_a_cancelled_run_has_its_end(ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder) -> None:
    async def cancelled() -> None:
        began = asyncio.Event()

        async def wait() -> str:
            """Wait for ever."""
            began.set()
            await asyncio.Event().wait()
            return "never"

        running = runner(agent("alpha", [call("wait", "call_1")], tools=[wait]), recorder)
        task = asyncio.create_task(turn(running, "Hello"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert recorder.flush(5)
    ends = [entry.event_type for entry in ledger.read() if entry.event_type.startswith("execution.run_")]
    assert ends == ["execution.run_started", "execution.run_cancelled"]
    assert recorder.safe.runs_open == 0


def test_a_run_that_its_caller_leaves_early_has_its_end(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    async def left() -> None:
        running = runner(agent("alpha", [call("add", "call_1", a=1, b=2)], "3", tools=[add]), recorder)
        events = running.run_async(user_id="ann", session_id="s", new_message=user("Add"))
        async for _ in events:
            break
        await events.aclose()

    asyncio.run(left())
    assert recorder.flush(5)
    assert len(told(ledger, "run_completed")) == 1


def test_agents_beside_each_other_follow_from_what_was_before_them_and_their_join_from_both(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.adk.workflow import START, JoinNode, Workflow

    def check(node_input: str) -> str:
        return f"checked {node_input}"

    both = (agent("one", "from one"), agent("two", "from two"))
    join = JoinNode(name="join")
    flow = Workflow(
        name="flow", edges=[(START, check), (check, both), (both, join), (join, agent("end", "the end"))]
    )
    asyncio.run(turn(runner(flow, recorder), "Hello"))
    entries = {entry.event_id: entry for entry in ledger.read()}

    def causes(entry: LedgerEntry) -> list[str | None]:
        above = [entries[one] for one in (entry.causation_id, *entry.attributes.get("links", ())) if one]
        return sorted(f"{one.event_type.partition('.')[2]} {one.payload.get('name')}" for one in above)

    models = {entry.payload["agent"]: entry for entry in told(ledger, "model_call")}
    assert causes(models["one"]) == causes(models["two"]) == ["output check"]
    for entry in told(ledger, "message")[1:]:
        assert entry.causation_id == models[entry.payload["name"]].event_id
    outputs = {entry.payload["name"]: entry for entry in told(ledger, "output")}
    assert outputs["check"].payload["output"] == "checked Hello"
    assert causes(outputs["join"]) == ["message one", "message two"]
    assert causes(models["end"]) == ["output join"]
    assert told(ledger, "run_completed")[0].payload["output"] == "the end"


@pytest.mark.parametrize("mode", ["single_turn", "task"])
def test_a_sub_agent_that_is_called_like_a_tool_is_a_child_run(
    mode: str, ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    said = (
        "child says hi" if mode == "single_turn" else [call("finish_task", "call_2", result="child says hi")]
    )
    beta = agent("beta", said, mode=mode)
    alpha = agent("alpha", [call("beta", "call_1", request="hi")], "done", sub_agents=[beta])
    asyncio.run(turn(runner(alpha, recorder), "Hello"))
    asked = next(entry for entry in told(ledger, "tool_call") if entry.payload["call_id"] == "call_1")
    child = told(ledger, "run_started")[1]
    assert (child.payload["name"], child.causation_id) == ("beta", asked.event_id)
    assert child.correlation_id == "s/beta@call_1"
    end, whole = told(ledger, "run_completed")
    assert (end.correlation_id, whole.correlation_id) == ("s/beta@call_1", "s")
    result = next(entry for entry in told(ledger, "tool_result") if entry.payload["call_id"] == "call_1")
    assert end.position < result.position
    assert {
        entry.payload["agent"] for entry in ledger.read(correlation_id="s") if "agent" in entry.payload
    } == {"alpha"}


def test_a_task_that_asks_the_user_is_paused_and_goes_on_with_the_next_message(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    beta = agent("beta", "Which city?", [call("finish_task", "call_2", result="Bruges")], mode="task")
    alpha = agent("alpha", [call("beta", "call_1", request="book")], "booked", sub_agents=[beta])
    running = runner(alpha, recorder)
    asyncio.run(turn(running, "Hello"))
    assert [entry.correlation_id for entry in told(ledger, "run_paused")] == ["s/beta@call_1", "s"]
    asyncio.run(turn(running, "Bruges"))
    resumed = {entry.correlation_id: entry for entry in told(ledger, "run_resumed")}
    assert set(resumed) == {"s", "s/beta@call_1"}
    assert [entry.correlation_id for entry in told(ledger, "run_completed")] == ["s/beta@call_1", "s"]
    (result,) = [entry for entry in told(ledger, "tool_result") if entry.payload["call_id"] == "call_1"]
    assert result.causation_id == told(ledger, "tool_call", correlation_id="s")[0].event_id


def test_what_a_plugin_answers_for_a_tool_that_failed_is_told_with_the_error(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.adk.plugins.base_plugin import BasePlugin

    class Comforts(BasePlugin):
        async def on_tool_error_callback(self, **told: Any) -> dict[str, str]:
            return {"try": "again"}

    def fail() -> None:
        """Fail."""
        raise ValueError("no such city")

    running = runner(agent("alpha", [call("fail", "call_1")], "well", tools=[fail]), recorder)
    running.plugin_manager.register_plugin(Comforts("comforts"))
    asyncio.run(turn(running, "Go"))
    (entry,) = told(ledger, "tool_result")
    assert (entry.payload["result"], entry.payload["is_error"]) == ({"try": "again"}, True)
    assert entry.payload["error"]["message"] == "no such city"
    assert len(told(ledger, "run_completed")) == 1


def test_a_long_running_tool_pauses_the_run_until_its_result_comes(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.adk.tools import LongRunningFunctionTool
    from google.genai import types

    def ship(parcel: str) -> None:
        """Ship a parcel."""

    running = runner(
        agent(
            "alpha", [call("ship", "call_1", parcel="lamp")], "shipped", tools=[LongRunningFunctionTool(ship)]
        ),
        recorder,
    )
    asyncio.run(turn(running, "Ship it"))
    assert [entry.payload["reason"] for entry in told(ledger, "run_paused")] == [
        "waits for a long-running tool"
    ]
    result = types.FunctionResponse(id="call_1", name="ship", response={"at": "door"})
    asyncio.run(turn(running, types.Content(role="user", parts=[types.Part(function_response=result)])))
    (entry,) = told(ledger, "tool_result")
    assert entry.causation_id == told(ledger, "tool_call")[0].event_id
    assert entry.payload["result"] == {"at": "door"}
    assert told(ledger, "run_resumed")[0].payload["run_id"] == entry.payload["run_id"]
    assert len(told(ledger, "run_completed")) == 1


def test_a_rejected_tool_is_told_as_rejected(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.adk.tools import FunctionTool

    tools = [FunctionTool(add, require_confirmation=True)]
    running = runner(agent("alpha", [call("add", "call_1", a=1, b=2)], "as you like", tools=tools), recorder)
    asked = asyncio.run(turn(running, "Add"))
    request = next(
        one for event in asked for one in event.get_function_calls() if event.long_running_tool_ids
    )
    asyncio.run(turn(running, answered(request, confirmed=False)))
    assert [entry.payload["decision"] for entry in told(ledger, "human_input_received")] == ["rejected"]
    assert [entry.payload["result"] for entry in told(ledger, "tool_result")] == [
        {"error": "This tool call is rejected."}
    ]


def test_state_and_artifacts_are_told(ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder) -> None:
    def keep(tool_context: Any) -> str:
        """Keep something."""
        tool_context.state["kept"] = {"n": 1}
        tool_context.actions.artifact_delta["label.pdf"] = 2
        return "kept"

    from google.adk.tools import ToolContext

    keep.__annotations__["tool_context"] = ToolContext
    asyncio.run(
        turn(
            runner(
                agent("alpha", [call("keep", "call_1")], "done", tools=[keep], output_key="said"), recorder
            ),
            "Go",
        )
    )
    changes = [entry.payload["to"] for entry in told(ledger, "state_change")]
    assert changes == [{"kept": {"n": 1}}, {"said": "done"}]
    assert [(entry.payload["name"], entry.payload["version"]) for entry in told(ledger, "artifact")] == [
        ("label.pdf", 2)
    ]


def test_what_the_user_records_in_a_tool_is_caused_by_its_call(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    def note() -> str:
        """Note something."""
        ledger.record("app.noted", {"n": 1})
        return "noted"

    asyncio.run(turn(runner(agent("alpha", [call("note", "call_1")], "done", tools=[note]), recorder), "Go"))
    (noted,) = ledger.read(event_type="app.noted")
    assert noted.causation_id == told(ledger, "tool_call")[0].event_id
    assert noted.correlation_id == "s"
    with pytest.raises(chatsnapshot.InvalidEvent):
        ledger.record("app.noted", {"n": 2})  # outside of it there is no scope


def test_thoughts_are_reasoning_and_tokens_are_counted_with_them(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.genai import types

    from chatsnapshot.adapters.google_adk.contents import usage_of

    parts = [types.Part(text="hm", thought=True), types.Part(text="42")]
    asyncio.run(turn(runner(agent("alpha", parts), recorder), "What?"))
    said = told(ledger, "message")[-1].payload["parts"]
    assert said == [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "42"}]
    assert told(ledger, "run_completed")[0].payload["output"] == "42"
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=3, thoughts_token_count=4, cached_content_token_count=8
    )
    assert usage_of(types.GenerateContentResponse(usage_metadata=usage)) == {
        "input_tokens": 10, "output_tokens": 7, "cache_read": 8, "reasoning": 4,
    }  # fmt: skip


def test_secrets_are_taken_out_and_credentials_are_not_recorded(
    ledger: chatsnapshot.Ledger, recorder: GoogleADKRecorder
) -> None:
    from google.genai import types

    from chatsnapshot.adapters.google_adk.contents import CREDENTIAL, answer_facts, question_facts

    def sign_in(api_key: str) -> str:
        """Sign in."""
        return "in"

    key = "sk-proj-" + "a1B2" * 12
    asyncio.run(
        turn(
            runner(agent("alpha", [call("sign_in", "call_1", api_key=key)], "in", tools=[sign_in]), recorder),
            "Go",
        )
    )
    assert not any(key in (entry.payload_json or b"").decode() for entry in ledger.read())
    asked = types.FunctionCall(
        id="q", name=CREDENTIAL, args={"functionCallId": "call_1", "authConfig": {"token": key}}
    )
    given = types.FunctionResponse(id="q", name=CREDENTIAL, response={"token": key})
    assert key not in str(question_facts(asked)) + str(answer_facts(given))
    assert question_facts(asked)["call_id"] == "call_1"


def test_a_version_without_a_hook_is_told_in_one_sentence(
    ledger: chatsnapshot.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.adk.plugins.base_plugin import BasePlugin

    from chatsnapshot.adapters.google_adk import plugin

    monkeypatch.delattr(BasePlugin, "on_run_error_callback")
    plugin._plugin_class.cache_clear()
    with pytest.raises(
        LedgerError, match=r"^google-adk \S+ has no .*on_run_error_callback; recording needs google-adk>="
    ):
        GoogleADKRecorder(ledger).plugin  # noqa: B018
