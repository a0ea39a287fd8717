"""Two workflows wait for a person in one process, and go on from what was stored in another: URL, folder, part."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

import chatsnapshot
from chatsnapshot.adapters.llama_index import LlamaIndexRecorder


class Waiting(Workflow):  # type: ignore[misc]
    """Waits inside of a step, which is called again from its beginning."""

    @step  # type: ignore[untyped-decorator]
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="Who?"))
        return StopEvent(result=answer.response)


class Asking(Workflow):  # type: ignore[misc]
    """Ends a step with the question, and begins another one with the answer."""

    @step  # type: ignore[untyped-decorator]
    async def ask(self, ev: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Who?")

    @step  # type: ignore[untyped-decorator]
    async def say(self, ev: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=ev.response)


async def first(workflow: Any, snapshot: Path) -> None:
    handler = workflow.run()
    async for event in handler.stream_events(expose_internal=True):
        if type(event).__name__ == "WorkflowIdleEvent":
            break
    snapshot.write_text(json.dumps(handler.ctx.to_dict()))
    # and the process ends, as it may at any time


async def again(workflow: Any, snapshot: Path) -> None:
    handler = workflow.run(ctx=Context.from_dict(workflow, json.loads(snapshot.read_text())))
    handler.ctx.send_event(HumanResponseEvent(response="yes"))
    assert await handler == "yes"


url, folder, part = sys.argv[1:]
with chatsnapshot.open(url) as ledger, LlamaIndexRecorder(ledger) as recorder:
    for kind in (Waiting, Asking):
        asyncio.run({"first": first, "again": again}[part](kind(), Path(folder) / f"{kind.__name__}.json"))
    assert recorder.flush(10)
