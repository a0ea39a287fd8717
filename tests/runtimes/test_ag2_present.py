"""A recorded turn of an AG2 1.x agent, at whatever version of it is installed."""

from __future__ import annotations

import asyncio
import json

import ag2
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_turn_with_a_tool_is_recorded_in_order() -> None:
    call = ToolCallEvent("add", id="call-1", arguments=json.dumps({"a": 1, "b": 2}))
    with chatsnapshot.open("memory:") as ledger:
        recorder = AG2Recorder(ledger, correlation_id="run-1")
        agent = ag2.Agent(
            "sums", config=TestConfig(call, "It is 3."), tools=[add], middleware=[recorder.middleware]
        )
        asyncio.run(agent.ask("What is 1 + 2?"))
        steps = [(entry.event_type, entry.payload.get("role")) for entry in ledger.read()]
        assert steps == [
            ("execution.run_started", None),
            ("execution.message", "user"),
            ("execution.model_call", None),
            ("execution.message", "assistant"),
            ("execution.tool_call", None),
            ("execution.tool_result", None),
            ("execution.model_call", None),
            ("execution.message", "assistant"),
            ("execution.run_completed", None),
        ]
        (result,) = ledger.read(event_type="execution.tool_result")
        assert (result.payload["call_id"], result.payload["result"]) == ("call-1", 3)
        assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
        assert ledger.verify().ok
