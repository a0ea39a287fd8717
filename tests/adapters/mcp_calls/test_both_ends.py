"""A client and a server of MCP, each recorded, are one history: in one process, and over stdio in two."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.mcp_calls import McpClientRecorder, McpServerRecorder

pytest.importorskip("mcp_types", reason="the older line of mcp has no middleware")
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer

from chatsnapshot.testing.runtimes.mcp_calls import demo_server


def story(ledger: Any) -> list[tuple[str, str, str | None]]:
    """What happened in which correlation, each with the type of its cause."""
    entries = list(ledger.read())
    types = {entry.event_id: entry.event_type for entry in entries}
    return [
        (entry.event_type, entry.correlation_id, types.get(entry.causation_id or "")) for entry in entries
    ]


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


def test_a_request_is_caused_by_the_call_of_the_client_and_its_answer_by_the_request() -> None:
    async def run(ledger: Any) -> None:
        server = McpServerRecorder(ledger).attach(demo_server())
        async with McpClientRecorder(ledger, correlation_id="c-1").watch(Client(server)) as client:
            await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert story(ledger) == [
            ("execution.run_started", "c-1", None),
            ("execution.tool_call", "c-1", "execution.run_started"),
            ("integration.api_triggered", "c-1", "execution.tool_call"),
            ("integration.response", "c-1", "integration.api_triggered"),
            ("execution.tool_result", "c-1", "execution.tool_call"),
            ("execution.run_completed", "c-1", "execution.tool_result"),
        ]
        (request,), (answer,) = of(ledger, "integration.api_triggered"), of(ledger, "integration.response")
        assert request.payload["request"] == {"name": "add", "arguments": {"a": 2, "b": 3}}
        assert (request.payload["service"], request.payload["operation"]) == ("desk", "tools/call add")
        assert answer.payload["response"]["structuredContent"] == {"result": 5}
        assert answer.payload["call_id"] == request.payload["call_id"]


def test_what_a_tool_records_is_caused_by_the_request() -> None:
    with chatsnapshot.open("memory:") as ledger:
        server = MCPServer("desk")

        @server.tool()
        def note(text: str) -> str:
            """Write down."""
            ledger.record("execution.state_change", {"name": "note", "value": text})
            return "noted"

        async def run() -> None:
            recorded = McpServerRecorder(ledger).attach(server)
            async with McpClientRecorder(ledger, correlation_id="c-1").watch(Client(recorded)) as client:
                await client.call_tool("note", {"text": "hi"})

        asyncio.run(run())
        assert ("execution.state_change", "c-1", "integration.api_triggered") in story(ledger)


def test_the_server_tells_what_a_tool_raised_which_mcp_hides_from_the_client() -> None:
    server = MCPServer("desk", log_level="CRITICAL")

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no such city")

    async def run(ledger: Any) -> Any:
        recorded = McpServerRecorder(ledger).attach(server)
        async with McpClientRecorder(ledger).watch(Client(recorded)) as client:
            return await client.call_tool("fail", {})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        result = asyncio.run(run(ledger))
        assert [content.text for content in result.content] == ["Error executing tool fail"]
        (answer,), (told,) = of(ledger, "integration.response"), of(ledger, "execution.tool_result")
        assert answer.payload["error"]["type"] == "ValueError"
        assert answer.payload["error"]["message"] == "no such city"
        assert answer.payload["status"] == "error"
        assert told.payload["is_error"] is True
        assert told.payload["error"] == {"message": "Error executing tool fail"}


def test_a_call_that_is_asked_for_input_and_the_next_are_one_call() -> None:
    async def answer(context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        return ElicitResult(action="accept", content={"approved": True})

    async def run(ledger: Any) -> Any:
        server = McpServerRecorder(ledger).attach(demo_server())
        client = Client(server, elicitation_callback=answer)
        async with McpClientRecorder(ledger, correlation_id="c-1").watch(client) as entered:
            return await entered.call_tool("ask", {})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert [(kind, cause) for kind, _, cause in story(ledger)] == [
            ("execution.run_started", None),
            ("execution.tool_call", "execution.run_started"),
            ("integration.api_triggered", "execution.tool_call"),
            ("integration.response", "integration.api_triggered"),
            ("execution.human_input_requested", "execution.tool_call"),
            ("execution.human_input_received", "execution.human_input_requested"),
            ("integration.api_triggered", "execution.tool_call"),
            ("integration.response", "integration.api_triggered"),
            ("execution.tool_result", "execution.tool_call"),
            ("execution.run_completed", "execution.tool_result"),
        ]
        first, second = of(ledger, "integration.api_triggered")
        asked, done = of(ledger, "integration.response")
        assert first.payload["call_id"] == second.payload["call_id"]
        assert second.event.attributes["links"] == [asked.event_id]
        assert (asked.payload["status"], done.payload["status"]) == ("input required", "ok")
        assert asked.payload["questions"] == {"sure": "Are you sure?"}
        assert second.payload["request"]["inputResponses"]["sure"]["content"] == {"approved": True}


def test_a_question_in_the_middle_of_a_call_of_the_older_protocol_has_its_answer() -> None:
    from mcp.server.mcpserver import Context
    from mcp_types import ElicitResult
    from pydantic import BaseModel

    class Sure(BaseModel):
        ok: bool

    server = MCPServer("desk")

    async def ask(ctx: Context) -> str:
        """Ask."""
        return (await ctx.elicit("Are you sure?", Sure)).action

    ask.__annotations__ = {"ctx": Context, "return": str}
    server.tool()(ask)

    async def answer(context: Any, params: Any) -> Any:
        return ElicitResult(action="decline")

    async def run(ledger: Any) -> Any:
        client = Client(server, mode="legacy", elicitation_callback=answer)
        async with McpClientRecorder(ledger).watch(client) as entered:
            return await entered.call_tool("ask", {})

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        result = asyncio.run(run(ledger))
        assert result.content[0].text == "decline"
        (question,) = of(ledger, "execution.human_input_requested")
        (told,) = of(ledger, "execution.human_input_received")
        (call,) = of(ledger, "execution.tool_call")
        assert question.causation_id == call.event_id
        assert question.payload["question"] == "Are you sure?"
        assert told.causation_id == question.event_id
        assert told.payload["answer"] == {"action": "decline"}


_SERVER = """
import sys
import chatsnapshot
from chatsnapshot.adapters.mcp_calls import McpServerRecorder
from mcp.server.mcpserver import MCPServer

with chatsnapshot.open(sys.argv[1]) as ledger:
    server = McpServerRecorder(ledger, accept=sys.argv[2] == "accept").attach(MCPServer("desk"))

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    server.run("stdio")
"""


@pytest.mark.parametrize("accept", [True, False], ids=["believed", "not believed"])
def test_two_processes_over_stdio_write_one_history(tmp_path: Path, accept: bool) -> None:
    file = tmp_path / "runs.db"
    script = tmp_path / "server.py"
    script.write_text(_SERVER)

    async def run(ledger: Any) -> Any:
        arguments = [str(script), str(file), "accept" if accept else "doubt"]
        client = Client(StdioServerParameters(command=sys.executable, args=arguments))
        async with McpClientRecorder(ledger, correlation_id="c-1").watch(client) as entered:
            return await entered.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open(str(file)) as ledger:
        result = asyncio.run(run(ledger))
        assert result.structured_content == {"result": 5}
        (call,) = of(ledger, "execution.tool_call")
        (request,) = of(ledger, "integration.api_triggered")
        (answer,) = of(ledger, "integration.response")
        assert answer.causation_id == request.event_id
        if accept:
            assert (request.correlation_id, request.causation_id) == ("c-1", call.event_id)
        else:
            assert request.correlation_id != "c-1"
            assert request.causation_id is None
        assert ledger.verify().ok


def test_attaching_a_server_twice_records_once_and_two_recorders_of_a_ledger_record_once() -> None:
    async def run(ledger: Any) -> None:
        recorder = McpServerRecorder(ledger)
        server = recorder.attach(recorder.attach(demo_server()))
        McpServerRecorder(ledger).attach(server)
        async with Client(server) as client:
            await client.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(run(ledger))
        kinds = [kind for kind, _, _ in story(ledger)]
        assert kinds == ["integration.api_triggered", "integration.response"]


@pytest.mark.parametrize("trouble", ["raises", "closed"])
def test_a_server_answers_the_same_whatever_becomes_of_the_ledger(trouble: str) -> None:
    ledger = chatsnapshot.open("memory:")
    recorder = McpServerRecorder(ledger)
    if trouble == "closed":
        ledger.close()
    else:
        recorder.safe.ledger = object()  # type: ignore[assignment]  # nothing can be recorded with it

    async def run() -> Any:
        async with Client(recorder.attach(demo_server())) as client:
            return await client.call_tool("add", {"a": 2, "b": 3})

    assert asyncio.run(run()).structured_content == {"result": 5}
    assert recorder.safe.failures + recorder.safe.dropped > 0


def test_something_that_is_no_server_is_refused_in_one_sentence() -> None:
    with (
        chatsnapshot.open("memory:") as ledger,
        pytest.raises(TypeError, match="an MCPServer or a Server of mcp"),
    ):
        McpServerRecorder(ledger).attach("desk")


@contextmanager
def over_http(server: Any) -> Iterator[str]:
    """The server behind streamable HTTP on 127.0.0.1; gives its address."""
    uvicorn = pytest.importorskip("uvicorn")
    held = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [held]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join(10)
        held.close()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_over_http_goes_on_with_the_history_of_each_of_its_clients(mode: str) -> None:
    async def run(ledger: Any, url: str, correlation_id: str) -> None:
        recorder = McpClientRecorder(ledger, correlation_id=correlation_id)
        async with recorder.watch(Client(url, mode=mode)) as client:
            await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(3)))

    async def both(ledger: Any, url: str) -> None:
        await asyncio.gather(run(ledger, url, "c-1"), run(ledger, url, "c-2"))

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = McpServerRecorder(ledger)
        with over_http(recorder.attach(demo_server())) as url:
            asyncio.run(both(ledger, url))
        calls = {one.event_id: one for one in of(ledger, "execution.tool_call")}
        requests = of(ledger, "integration.api_triggered")
        assert len(requests) == len(calls) == 6
        assert {one.causation_id for one in requests} == set(calls)
        for request in requests:
            call = calls[request.causation_id]
            assert request.correlation_id == call.correlation_id
            assert request.payload["request"]["arguments"] == call.payload["arguments"]
        assert recorder.safe.failures == 0
        assert ledger.verify().ok
