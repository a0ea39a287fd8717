"""An agent whose tools are on an MCP server: three recorders, two processes, one history."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.mcp_calls import McpClientRecorder, install

pytest.importorskip("agents")
pytest.importorskip("mcp_types")

from agents import Agent, set_trace_processors
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call

from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder

_SERVER = """
import sys
import chatsnapshot
from chatsnapshot.adapters.mcp_calls import McpServerRecorder
from mcp.server.mcpserver import MCPServer

with chatsnapshot.open(sys.argv[1]) as ledger:
    server = McpServerRecorder(ledger).attach(MCPServer("desk"))

    @server.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        ledger.record("execution.state_change", {"name": "sum", "to": a + b})
        return a + b

    server.run("stdio")
"""


def test_the_tool_of_an_agent_the_call_of_its_client_and_the_request_at_the_server_are_a_chain(
    tmp_path: Path,
) -> None:
    file, script = tmp_path / "runs.db", tmp_path / "server.py"
    script.write_text(_SERVER)

    async def run(ledger: Any) -> str:
        set_trace_processors([])
        model = ScriptedModel(
            [[function_call("add", '{"a": 2, "b": 3}', call_id="call_1")], [assistant_message("five")]]
        )
        parameters = {"command": sys.executable, "args": [str(script), str(file)]}
        async with MCPServerStdio(parameters, client_session_timeout_seconds=60) as server:  # type: ignore[arg-type]
            alpha = Agent(name="alpha", mcp_servers=[server], model=model)
            result = await OpenAIAgentsRecorder(ledger).run(alpha, "What is 2+3?")
            return str(result.final_output)

    with chatsnapshot.open(str(file), validation="strict") as ledger:
        undo = install(McpClientRecorder(ledger))
        try:
            assert asyncio.run(run(ledger)) == "five"
        finally:
            undo()
        entries = list(ledger.read())
        by_id = {entry.event_id: entry for entry in entries}
        (noted,) = [one for one in entries if one.event_type == "execution.state_change"]
        chain = [noted]
        while chain[-1].causation_id is not None:
            chain.append(by_id[chain[-1].causation_id])
        assert [one.event_type for one in chain[:5]] == [
            "execution.state_change",  # in the tool, in the server's process
            "integration.api_triggered",
            "integration.call",
            "execution.tool_call",
            "execution.message",
        ]
        assert chain[-1].event_type == "execution.run_started"
        assert len({one.correlation_id for one in chain}) == 1
        assert [one.source.runtime for one in chain[1:4]] == ["mcp", "mcp", "openai_agents"]
        assert len([one for one in entries if one.event_type == "execution.tool_call"]) == 1
        assert ledger.verify().ok
