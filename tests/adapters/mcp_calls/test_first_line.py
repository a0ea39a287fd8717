"""Sessions of the older line of ``mcp`` (1.x), which has no middleware: only clients are recorded."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.mcp_calls import McpClientRecorder, McpServerRecorder, install
from chatsnapshot.errors import LedgerError

pytest.importorskip("mcp")
if not version("mcp").startswith("1."):
    pytest.skip("these are tests of the older line of mcp", allow_module_level=True)

from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import BaseModel


class Sure(BaseModel):
    ok: bool


def demo_server() -> Any:
    server = FastMCP("desk")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail() -> int:
        """Fail."""
        raise ValueError("no such city")

    async def ask(ctx: Context) -> str:  # type: ignore[type-arg]
        """Ask."""
        return (await ctx.elicit("Are you sure?", Sure)).action

    ask.__annotations__ = {"ctx": Context, "return": str}
    server.tool()(ask)
    return server


async def answer(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"ok": True})


def connected() -> Any:
    return create_connected_server_and_client_session(demo_server()._mcp_server, elicitation_callback=answer)


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def test_a_session_of_the_older_line_is_recorded_with_its_errors_and_questions() -> None:
    async def run(ledger: Any) -> Any:
        async with connected() as session:
            McpClientRecorder(ledger).attach(session)
            with ledger.scope(correlation_id="c-1"):
                results = [await session.call_tool(name, given) for name, given in CALLS]
            return [result.isError for result in results]

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        assert asyncio.run(run(ledger)) == [False, True, False]
        assert kinds(ledger) == [
            *("call", "response"),
            *("call", "response"),
            *("call", "human_input_requested", "human_input_received", "response"),
        ]
        responses = list(ledger.read(event_type="integration.response"))
        assert responses[0].payload["response"]["structuredContent"] == {"result": 5}
        assert "no such city" in responses[1].payload["error"]["message"]
        assert {entry.correlation_id for entry in ledger.read()} == {"c-1"}


CALLS: list[tuple[str, dict[str, Any]]] = [("add", {"a": 2, "b": 3}), ("fail", {}), ("ask", {})]


def test_installed_it_records_sessions_of_the_older_line() -> None:
    async def run() -> None:
        async with connected() as session:
            await session.call_tool("add", {"a": 2, "b": 3})

    with chatsnapshot.open("memory:") as ledger:
        undo = install(McpClientRecorder(ledger))
        try:
            asyncio.run(run())
        finally:
            undo()
        assert kinds(ledger) == ["call", "response"]


def test_a_server_of_the_older_line_says_what_it_lacks() -> None:
    told = r"mcp 1\.[\d.]+ has no mcp\.server\.context.*needs mcp>=2"
    with chatsnapshot.open("memory:") as ledger, pytest.raises(LedgerError, match=told):
        McpServerRecorder(ledger).attach(demo_server())
