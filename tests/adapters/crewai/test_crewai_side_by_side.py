"""Causes of what methods of CrewAI's flows do beside each other: the same, whichever of them is first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.crewai import CrewAIRecorder

pytest.importorskip("crewai", reason="crewai is not installed")


def played(first: str) -> list[Any]:
    """What is recorded of two methods beside each other, one of which is through before the other does anything."""
    from crewai.events import crewai_event_bus as bus
    from crewai.events.types import memory_events as memory
    from crewai.events.types import tool_usage_events as tools
    from crewai.flow.flow import Flow, start

    through = asyncio.Event()

    async def remembers(flow: Any, name: str) -> None:
        if name != first:
            await through.wait()
        given: dict[str, Any] = {"query": name, "limit": 1}
        bus.emit(flow, memory.MemoryQueryStartedEvent(**given))
        bus.emit(flow, memory.MemoryQueryCompletedEvent(**given, results=[], query_time_ms=1.0))
        bus.emit(
            flow, tools.ToolSelectionErrorEvent(tool_name=name, tool_args={}, tool_class=name, error="no")
        )
        if name == first:
            through.set()

    class Desk(Flow):  # type: ignore[type-arg]
        @start()
        async def one(self) -> None:
            await remembers(self, "one")

        @start()
        async def two(self) -> None:
            await remembers(self, "two")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with CrewAIRecorder(ledger) as recorder:
            asyncio.run(Desk().kickoff_async())
            assert recorder.flush(5)
            assert recorder.safe.failures == 0
        return list(ledger.read())


@pytest.mark.parametrize("first", ["one", "two"])
def test_what_methods_beside_each_other_remember_follows_from_their_own_start(first: str) -> None:
    recorded = played(first)
    changes = [entry for entry in recorded if entry.event_type == "execution.state_change"]
    began = {one.payload["name"]: one.event_id for one in changes if one.payload["to"] == "started"}
    searched = {one.payload["query"]: one for one in recorded if one.event_type == "execution.memory"}
    refused = {one.payload["to"]: one for one in changes if one.payload["name"] == "tool_selection_error"}
    for name in ("one", "two"):
        assert searched[name].causation_id == refused[name].causation_id == began[name]
