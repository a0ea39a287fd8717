"""The Model Context Protocol for the contract of adapters: a real client and a real server, in one process."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.mcp_calls import McpClientRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["McpBench", "demo_server"]

_NO_AGENTS = "MCP connects a host to tools: it knows neither agents nor models"


class McpBench(AdapterBench):
    """A client that calls the tools of a server; a connection is a run."""

    runtime = "mcp"
    package = "mcp"
    title = "MCP"
    lacks: Mapping[str, str] = {
        "plain": _NO_AGENTS,
        "sub_agent": _NO_AGENTS,
        "handoff": _NO_AGENTS,
        "model_error": _NO_AGENTS,
        "model_calls": _NO_AGENTS,
        "own_code": "the recorded client calls a tool that runs in the server",
        "streaming": "the result of a call comes whole",
        "resume": "a question is answered in the middle of a call; no run pauses for it",
    }

    def recorder(self, ledger: Any) -> McpClientRecorder:
        """A recorder of clients."""
        return McpClientRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        return Outcome.of(lambda: asyncio.run(self._play(scenario, self.attached(recorder))))

    async def _play(self, scenario: str, recorders: list[Any]) -> Any:
        types = importlib.import_module("mcp_types")

        async def answer(context: Any, params: Any) -> Any:
            return types.ElicitResult(action="accept", content={"approved": True})

        client: Any = importlib.import_module("mcp").Client(demo_server(), elicitation_callback=answer)
        async with recorders[0].watch(client) if recorders else client as entered:
            for recorder in recorders[1:]:
                recorder.attach(entered)
            if scenario == "parallel_tools":
                calls = [entered.call_tool("add", {"a": a, "b": a + 1}) for a in (2, 4)]
                return " and ".join(_told(result)[1] for result in await asyncio.gather(*calls))
            if scenario == "tool_error":
                return _told(await entered.call_tool("fail", {}))
            return _told(await entered.call_tool("ask", {}))


def _told(result: Any) -> tuple[bool, str]:
    return result.is_error, "".join(content.text for content in result.content)


def demo_server() -> Any:
    """A server with the tools of the stories: ``add``, ``fail`` and ``ask``, which asks a person."""
    types = importlib.import_module("mcp_types")
    mcpserver = importlib.import_module("mcp.server.mcpserver")
    server = mcpserver.MCPServer("desk", log_level="CRITICAL")

    async def ask(ctx: Any) -> Any:
        """Ask a person."""
        answers = ctx.input_responses
        if answers:
            return "approved" if answers["sure"].content["approved"] else "rejected"
        schema = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
        params = types.ElicitRequestFormParams(message="Are you sure?", requested_schema=schema)
        question = types.ElicitRequest(method="elicitation/create", params=params)
        return types.InputRequiredResult(input_requests={"sure": question}, request_state="asked")

    ask.__annotations__ = {"ctx": mcpserver.Context}
    server.tool()(_add)
    server.tool()(_fail)
    server.tool()(ask)
    return server


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    in_tool()
    return a + b


def _fail() -> int:
    """Fail, and tell the client why."""
    try:
        raise ValueError("no such city")
    except ValueError as error:
        exceptions = importlib.import_module("mcp.server.mcpserver.exceptions")
        raise exceptions.ToolError(str(error)) from error


_add.__name__, _fail.__name__ = "add", "fail"
