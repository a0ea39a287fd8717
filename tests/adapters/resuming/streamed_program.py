"""A program with an AG2 1.x agent that is killed on the way, and the agent as its successor makes it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ag2 import Agent, Context
from ag2.config import OpenAIConfig
from ag2.events import HumanInputRequest, ToolCallEvent
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def call(tool: str, call_id: str, **arguments: Any) -> ToolCallEvent:
    return ToolCallEvent(tool, id=call_id, arguments=json.dumps(arguments))


def openai(url: str) -> OpenAIConfig:
    return OpenAIConfig(model="desk-model", api_key="none", base_url=url)


class Tools:
    """Tools that write down that they ran, and stop for ever where they are told to."""

    def __init__(self, folder: Path, stop_at: str = "", ledger: Ledger | None = None) -> None:
        self.folder = folder
        self.stop_at = stop_at
        self.ledger = ledger

    async def ran(self, name: str) -> None:
        with (self.folder / "executed").open("a") as file:
            file.write(f"{name}\n")
        await self.reached(name)

    async def reached(self, name: str) -> None:
        if self.stop_at == name:
            print("here", flush=True)
            await asyncio.Event().wait()

    async def recorded(self, call_id: str) -> None:
        """Wait until the ledger has the result of another call of the batch: what is killed then is known."""
        while self.ledger is not None and call_id not in [
            entry.payload["call_id"] for entry in self.ledger.read(event_type="execution.tool_result")
        ]:
            await asyncio.sleep(0.01)

    def all(self) -> list[Any]:
        async def look_up(order: str) -> str:
            """Look an order up."""
            await self.ran("look_up")
            return f"{order} is on its way"

        async def refund(order: str) -> str:
            """Pay an order back."""
            await self.recorded("c-1")
            await self.ran("refund")
            return f"{order} is paid back"

        async def count(ctx: Context) -> str:
            """Count."""
            ctx.variables["counted"] = ctx.variables.get("counted", 0) + 1
            await self.ran("count")
            return "counted"

        async def ask(question: str, ctx: Context) -> str:
            """Ask a person."""
            await self.ran("ask")
            answer = await ctx.input(question)
            await self.reached("answered")
            return f"the person says {answer}"

        return [look_up, refund, count, ask]


def agent(recorder: AG2Recorder, config: Any, tools: list[Any], **options: Any) -> Agent:
    return Agent("desk", "Be kind.", config=config, tools=tools, middleware=[recorder.middleware], **options)


SCRIPTS: dict[str, list[Any]] = {
    "parallel": [
        call("count", "c-0"),
        [call("look_up", "c-1", order="A-17"), call("refund", "c-2", order="A-17")],
    ],
    "person": [call("ask", "c-1", question="which colour?")],
}


async def main(url: str, folder: str, script: str, stop_at: str, model: str = "") -> None:
    ledger = chatsnapshot.open(url)
    tools = Tools(Path(folder), stop_at, ledger)

    async def person(event: HumanInputRequest) -> str:
        await tools.reached("asked")
        return "blue"

    config = openai(model) if model else TestConfig(*SCRIPTS[script], "never said")
    recorder = AG2Recorder(ledger, correlation_id="case-7")
    await agent(recorder, config, tools.all(), hitl_hook=person).ask(
        "Where is A-17?", variables={"language": "en"}
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
