"""What clients of MCP call, and where it belongs: a run of the connection, a scope, a tool call of an agent."""

from __future__ import annotations

import asyncio
import types
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.mcp_calls import McpClientRecorder, install
from chatsnapshot.errors import LedgerError

pytest.importorskip("mcp_types", reason="these are tests of the newer line of mcp")
from mcp import Client, ClientSession
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from chatsnapshot.testing.runtimes.mcp_calls import demo_server


def of(ledger: Any, *event_types: str) -> list[Any]:
    return [entry for entry in ledger.read() if entry.event_type in event_types]


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def test_in_a_scope_a_call_belongs_to_it_and_the_connection_is_no_run() -> None:
    async def run(ledger: Any) -> None:
        async with McpClientRecorder(ledger).watch(Client(demo_server())) as client:
            with ledger.scope(correlation_id="c-1"):
                await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == ["call", "response"]
        call, response = of(ledger, "integration.call", "integration.response")
        assert call.correlation_id == response.correlation_id == "c-1"
        assert response.causation_id == call.event_id
        assert call.payload["operation"] == "tools/call add"
        assert call.payload["service"] == "desk"
        assert response.payload["response"]["structuredContent"] == {"result": 5}


def test_inside_of_a_recorded_tool_call_it_is_a_call_of_a_service_caused_by_it() -> None:
    async def run(ledger: Any) -> None:
        agents = RuntimeRecorder(ledger, runtime="mine")
        agent = agents.begin("triage", key="1")
        assert agent is not None
        agents.record(agent.started(), agent.tool_call("call_1", "add", {"a": 2, "b": 3}))
        async with McpClientRecorder(ledger).watch(Client(demo_server())) as client:
            with agent.inside("call_1"):
                await client.call_tool("add", {"a": 2, "b": 3})
        agents.record(agent.tool_result("call_1", "add", result=5), agent.completed())
        agents.end(agent)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == [
            "run_started",
            "tool_call",
            "call",
            "response",
            "tool_result",
            "run_completed",
        ]
        (tool,), (call,) = of(ledger, "execution.tool_call"), of(ledger, "integration.call")
        assert call.causation_id == tool.event_id
        assert call.payload["agent"] == "triage"
        assert call.payload["run_id"] == tool.payload["run_id"]


def test_resources_and_prompts_are_calls_of_a_service() -> None:
    server = MCPServer("desk")
    server.resource("file:///orders", name="orders")(lambda: "none")
    server.prompt(name="greet")(lambda: "Say hello")

    async def run(ledger: Any) -> None:
        async with McpClientRecorder(ledger).watch(Client(server)) as client:
            await client.read_resource("file:///orders")
            await client.get_prompt("greet")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == ["run_started", "call", "response", "call", "response", "run_completed"]
        resource, prompt = of(ledger, "integration.call")
        assert resource.payload["operation"] == "resources/read file:///orders"
        assert prompt.payload["operation"] == "prompts/get greet"


def test_an_error_of_the_protocol_is_raised_and_recorded() -> None:
    async def run(ledger: Any) -> None:
        async with McpClientRecorder(ledger).watch(Client(demo_server())) as client:
            with pytest.raises(MCPError):
                await client.get_prompt("nothing")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        (response,) = of(ledger, "integration.response")
        assert response.payload["error"]["type"] == "MCPError"
        assert kinds(ledger)[-1] == "run_completed"


def test_a_connection_that_is_left_with_an_error_failed() -> None:
    async def run(ledger: Any) -> None:
        async with McpClientRecorder(ledger).watch(Client(demo_server())) as client:
            await client.call_tool("add", {"a": 2, "b": 3})
            raise KeyError("order")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with pytest.raises(Exception, match=r"order|unhandled errors"):
            asyncio.run(run(ledger))
        assert kinds(ledger)[-1] == "run_failed"


def test_a_connection_without_a_call_leaves_nothing() -> None:
    async def run(ledger: Any) -> None:
        async with McpClientRecorder(ledger).watch(Client(demo_server())) as client:
            await client.list_tools()

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == []


def test_a_session_that_somebody_else_entered_is_recorded_once_however_often_it_is_attached() -> None:
    async def run(ledger: Any) -> None:
        async with Client(demo_server()) as client:
            recorder = McpClientRecorder(ledger)
            assert recorder.attach(client) is client
            assert recorder.attach(client.session) is client.session
            McpClientRecorder(ledger).attach(client)
            await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == ["call", "response"]


def test_without_carry_nothing_goes_along() -> None:
    seen: list[Any] = []
    server = demo_server()

    async def look(context: Any, call_next: Any) -> Any:
        if context.method == "tools/call":
            seen.append(dict(context.meta or {}))
        return await call_next(context)

    server.middleware.append(look)

    async def run(ledger: Any, carry: bool) -> None:
        async with McpClientRecorder(ledger, carry=carry).watch(Client(server)) as client:
            await client.call_tool("add", {"a": 2, "b": 3}, meta={"mine": 1})

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(run(ledger, carry=False))
        asyncio.run(run(ledger, carry=True))
    without, with_it = seen
    assert "chatsnapshot-context" not in without
    assert "chatsnapshot-context" in with_it
    assert without["mine"] == with_it["mine"] == 1


def test_installed_it_records_every_session_and_undone_none() -> None:
    before = ClientSession.call_tool

    async def call() -> Any:
        async with Client(demo_server()) as client:
            return await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:") as ledger:
        recorder = McpClientRecorder(ledger)
        undo = install(recorder)
        try:
            result = asyncio.run(call())
        finally:
            undo()
        assert result.structured_content == {"result": 5}
        assert kinds(ledger) == ["call", "response"]
        asyncio.run(call())
        assert kinds(ledger) == ["call", "response"]
    assert ClientSession.call_tool is before


def test_installed_and_watched_a_call_is_recorded_once() -> None:
    async def call(recorder: McpClientRecorder) -> None:
        async with recorder.watch(Client(demo_server())) as client:
            await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:") as ledger:
        recorder = McpClientRecorder(ledger)
        undo = install(recorder)
        try:
            asyncio.run(call(recorder))
        finally:
            undo()
        assert kinds(ledger) == ["run_started", "tool_call", "tool_result", "run_completed"]


def test_a_question_is_told_once_and_of_its_own_call_while_another_is_going_on() -> None:
    async def run(ledger: Any) -> None:
        answered = asyncio.Event()
        server = demo_server()

        @server.tool()
        async def wait() -> str:
            """Wait until the question is answered."""
            await answered.wait()
            return "waited"

        async def answer(context: Any, params: Any) -> Any:
            answered.set()
            return ElicitResult(action="accept", content={"approved": True})

        client = Client(server, elicitation_callback=answer)
        async with McpClientRecorder(ledger).watch(client) as entered:
            await asyncio.gather(entered.call_tool("ask", {}), entered.call_tool("wait", {}))

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        (question,) = of(ledger, "execution.human_input_requested")
        ask, _ = of(ledger, "execution.tool_call")
        assert ask.payload["name"] == "ask"
        assert question.causation_id == ask.event_id


def test_something_that_is_no_client_is_refused_in_one_sentence() -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder = McpClientRecorder(ledger)
        with pytest.raises(TypeError, match="a Client or a ClientSession of mcp, not str"):
            recorder.attach("desk")
        with pytest.raises(TypeError, match=r"recorder\.watch"):
            recorder.attach(Client(demo_server()))


def test_a_version_that_is_too_old_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mcp", types.ModuleType("mcp"))
    told = r"mcp .* has no mcp.ClientSession.call_tool; recording needs mcp>="
    with chatsnapshot.open("memory:") as ledger, pytest.raises(LedgerError, match=told):
        McpClientRecorder(ledger).attach(object())


def test_auto_mode_records_the_calls_of_clients_in_the_run_of_the_process() -> None:
    async def call() -> Any:
        async with Client(demo_server()) as client:
            return await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with chatsnapshot.autorecord(ledger, runtimes=["mcp"]) as recording:
            asyncio.run(call())
            assert not recording.failures
        started, call_made, response, ended = ledger.read()
        assert call_made.event_type == "integration.call"
        assert call_made.payload["operation"] == "tools/call add"
        assert call_made.causation_id == started.event_id
        assert call_made.correlation_id == response.correlation_id == started.correlation_id
        assert response.causation_id == call_made.event_id
        assert (started.event_type, ended.event_type) == ("execution.run_started", "execution.run_completed")
