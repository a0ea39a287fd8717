"""Agents of one AG2 line asked inside tools of the other are child runs like any other."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ag2 import Agent
from ag2.testing import TestConfig

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

_spec = importlib.util.spec_from_file_location(
    "classic_chats", Path(__file__).parents[1] / "classic" / "chats.py"
)
assert _spec and _spec.loader
chats = sys.modules.setdefault("classic_chats", importlib.util.module_from_spec(_spec))
if not hasattr(chats, "agent"):
    _spec.loader.exec_module(chats)


def child_of_the_call(ledger: Ledger) -> None:
    (call,) = ledger.read(event_type="execution.tool_call")
    outer, inner = ledger.read(event_type="execution.run_started")
    assert outer.correlation_id == call.correlation_id == "run-1" != inner.correlation_id
    assert (inner.causation_id, inner.payload["parent_run_id"]) == (call.event_id, "run-1")
    ends = [entry.correlation_id for entry in ledger.read(event_type="execution.run_completed")]
    assert ends == [inner.correlation_id, "run-1"]


def test_an_agent_of_1_x_asked_in_a_classic_tool_is_a_child_run(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    expert = Agent("expert", config=TestConfig("42"), middleware=[recorder.middleware])

    async def consult(x: int) -> str:
        return str((await expert.ask("?")).body)

    async def main() -> None:
        assistant, user = chats.pair(chats.calls(("consult", {"x": 1})), "TERMINATE", tools=[consult])
        response = await recorder.watch(user.a_run(assistant, message="go"))
        async for _ in response.events:
            pass

    asyncio.run(main())
    child_of_the_call(ledger)


def test_a_classic_chat_held_in_a_tool_of_1_x_is_a_child_run(
    ledger: Ledger, call: Callable[..., Any]
) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")

    async def consult(x: int) -> str:
        """Consult an expert."""
        response = chats.agent("expert").a_run_iter(chats.agent("novice", "hm"), message="?", max_turns=1)
        async for _ in recorder.watch(response):
            pass
        return "done"

    config = TestConfig(call("consult", x=1), "It is done.", raise_tool_errors=False)
    desk = Agent("desk", config=config, tools=[consult], middleware=[recorder.middleware])
    asyncio.run(desk.ask("go"))
    child_of_the_call(ledger)
