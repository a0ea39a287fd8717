"""Causes of what agents of ADK do beside each other: the same, whichever of them is first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.google_adk import GoogleADKRecorder
from chatsnapshot.testing.runtimes.google_adk import user

pytest.importorskip("google.adk")


def played(first: str) -> list[Any]:
    """What is recorded of two agents beside each other, one of which is through before the other says anything."""
    from google.adk.agents import BaseAgent, ParallelAgent, SequentialAgent
    from google.adk.apps.app import App
    from google.adk.events import Event, EventActions
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    through = asyncio.Event()

    class Says(BaseAgent):  # type: ignore[misc]
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Any]:
            if self.name in ("one", "two") and self.name != first:
                await through.wait()
            of = {"author": self.name, "branch": ctx.branch, "invocation_id": ctx.invocation_id}
            yield Event(actions=EventActions(state_delta={self.name: 1}, artifact_delta={self.name: 0}), **of)
            yield Event(content=types.Content(role="model", parts=[types.Part(text=self.name)]), **of)
            if self.name == first:
                through.set()

    both = ParallelAgent(name="both", sub_agents=[Says(name="one"), Says(name="two")])
    root = SequentialAgent(name="root", sub_agents=[both, Says(name="end")])
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = GoogleADKRecorder(ledger)
        running = Runner(
            app=App(name="desk", root_agent=root, plugins=[recorder.plugin]),
            session_service=InMemorySessionService(),
            auto_create_session=True,
        )

        async def turn() -> None:
            async for _ in running.run_async(user_id="ann", session_id="s", new_message=user("Go")):
                pass

        asyncio.run(turn())
        assert recorder.flush(5)
        assert recorder.safe.failures == 0
        return list(ledger.read())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of agents that ADK's graphs take the place of
@pytest.mark.parametrize("first", ["one", "two"])
def test_what_agents_beside_each_other_change_follows_from_what_was_before_them(first: str) -> None:
    recorded = played(first)
    said = {entry.payload["name"]: entry for entry in recorded if entry.event_type == "execution.message"}
    asked = said["ann"].event_id
    state = {next(iter(entry.payload["to"])): entry for entry in recorded if "to" in entry.payload}
    kept = {entry.payload["name"]: entry for entry in recorded if entry.event_type == "execution.artifact"}
    for name in ("one", "two"):
        assert said[name].causation_id == state[name].causation_id == kept[name].causation_id == asked
    end = said["end"]
    assert (end.causation_id, end.attributes["links"]) == (said["two"].event_id, [said["one"].event_id])
    assert state["end"].causation_id == kept["end"].causation_id == said["two"].event_id
