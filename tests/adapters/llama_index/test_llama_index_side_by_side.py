"""Causes of what steps of LlamaIndex do beside each other: the same, whichever of them is first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatsnapshot.testing.runtimes.llama_index import scripted

pytest.importorskip("llama_index.core")

from llama_desk import Done, Part, of, recorded
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step


def look(number: int) -> int:
    """Look something up."""
    return number


async def say(words: str) -> None:
    await scripted([[words]]).achat([ChatMessage(role="user", content=f"{words}?")])


class Beside(Workflow):  # type: ignore[misc]
    """Looks something up in one step and asks a model in another, one of which is through before the other begins."""

    first = 1

    @step  # type: ignore[untyped-decorator]
    async def share(self, ctx: Context, ev: StartEvent) -> Part | None:
        self.through = asyncio.Event()
        for number in (1, 2):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=2)  # type: ignore[untyped-decorator]
    async def work(self, ev: Part) -> Done:
        if ev.number != self.first:
            await self.through.wait()
        await (FunctionTool.from_defaults(look).acall(number=1) if ev.number == 1 else say("beside"))
        if ev.number == self.first:
            self.through.set()
        return Done(number=ev.number)

    @step  # type: ignore[untyped-decorator]
    async def collect(self, ctx: Context, ev: Done) -> StopEvent | None:
        if ctx.collect_events(ev, [Done, Done]) is None:
            return None
        return StopEvent(result="done")


class Looking(Workflow):  # type: ignore[misc]
    """Looks something up in one step and asks a model about it in the next."""

    @step  # type: ignore[untyped-decorator]
    async def looks(self, ev: StartEvent) -> Part:
        await FunctionTool.from_defaults(look).acall(number=1)
        return Part(number=1)

    @step  # type: ignore[untyped-decorator]
    async def says(self, ev: Part) -> StopEvent:
        await say("after")
        return StopEvent(result="done")


class Both(Workflow):  # type: ignore[misc]
    """Two steps begin with one event."""

    @step  # type: ignore[untyped-decorator]
    async def share(self, ev: StartEvent) -> Part:
        return Part(number=1)

    @step  # type: ignore[untyped-decorator]
    async def left(self, ev: Part) -> Done:
        return Done(number=1)

    @step  # type: ignore[untyped-decorator]
    async def right(self, ev: Part) -> Done:
        return Done(number=2)

    @step  # type: ignore[untyped-decorator]
    async def collect(self, ctx: Context, ev: Done) -> StopEvent | None:
        return None if ctx.collect_events(ev, [Done, Done]) is None else StopEvent(result="done")


async def run(workflow: Any) -> None:
    await workflow.run()


@pytest.mark.parametrize("first", [1, 2])
def test_a_model_is_not_asked_because_of_a_tool_in_a_step_beside_it(first: int) -> None:
    workflow = Beside()
    workflow.first = first
    with recorded() as (ledger, _):
        asyncio.run(run(workflow))
        (asked,) = of(ledger, "execution.model_call")
        cause = ledger.get(asked.causation_id)
        assert (cause.event_type, cause.payload["parts"][0]["content"]) == ("execution.message", "beside?")


def test_a_model_is_asked_because_of_a_tool_in_the_step_before() -> None:
    with recorded() as (ledger, _):
        asyncio.run(run(Looking()))
        (asked,), (result,) = of(ledger, "execution.model_call"), of(ledger, "execution.tool_result")
        assert asked.causation_id == result.event_id


def test_steps_that_begin_with_one_event_all_follow_from_the_step_that_gave_it() -> None:
    with recorded() as (ledger, _):
        asyncio.run(run(Both()))
        began = {entry.payload["name"]: entry for entry in of(ledger, "system.task_started")}
        share = next(
            one for one in of(ledger, "system.task_completed") if one.payload["task_id"] == "share-1"
        )
        assert began["left"].causation_id == began["right"].causation_id == share.event_id
