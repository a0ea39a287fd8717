"""A real agent behind AG-UI: Pydantic AI tells its run in the events of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.ag_ui import AgUiRecorder

pytest.importorskip("pydantic_ai")
pytest.importorskip("ag_ui")

from ag_ui.core import RunAgentInput, UserMessage
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui.ag_ui import AGUIAdapter


@pytest.mark.parametrize("wire", ["events", "sse"])
def test_the_run_of_a_real_agent_is_recorded_whole(wire: str) -> None:
    agent = Agent(TestModel(custom_output_text="five"), name="desk")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def run(ledger: Any) -> None:
        messages = [UserMessage(id="u-1", content="What is 2+3?")]
        given = RunAgentInput(thread_id="t-1", run_id="r-1", messages=messages)
        adapter = AGUIAdapter(agent=agent, run_input=given)
        stream = adapter.run_stream()
        told: Any = stream if wire == "events" else adapter.encode_stream(stream)
        async for _ in AgUiRecorder(ledger).tee(told, input=given, agent="desk"):
            pass

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        kinds = [entry.event_type.partition(".")[2] for entry in ledger.read()]
        assert kinds[:3] == ["run_started", "input_received", "message"]
        assert kinds[-1] == "run_completed"
        said = [one.payload["parts"][0]["content"] for one in ledger.read(event_type="execution.message")]
        assert said == ["What is 2+3?", "five"]
        (call,) = ledger.read(event_type="execution.tool_call")
        (result,) = ledger.read(event_type="execution.tool_result")
        assert (call.payload["name"], result.causation_id) == ("add", call.event_id)
