"""An agent of a real runtime uses the server: AG2 with its own MCP client, over pipes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig
from ag2.tools import MCPStdioServerConfig, MCPToolkit

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder


def test_an_agent_reads_the_past_and_what_it_read_is_recorded(ledger_file: Path) -> None:
    async def main() -> None:
        past = MCPToolkit(
            MCPStdioServerConfig(
                command=sys.executable, args=["-m", "chatsnapshot", "mcp", "--ledger", str(ledger_file)]
            )
        )
        model = TestConfig(
            ToolCallEvent("search", arguments='{"query": "brass lamp"}'),
            ToolCallEvent("transcript", arguments='{"run": "order-1042"}'),
            "It left on Monday.",
        )
        agent = Agent("desk", config=model, tools=[past], middleware=[recorder.middleware])
        await agent.ask("Where is order 1042?")

    with chatsnapshot.open("memory:") as ledger:
        recorder = AG2Recorder(ledger)
        asyncio.run(main())
        told = [entry.payload for entry in ledger.read(event_type="execution.tool_result")]
    assert "order-1042" in str(told[0])
    assert "It left on Monday." in str(told[1])
