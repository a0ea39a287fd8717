"""AG-UI for the contract of adapters: an agent that tells its runs in events, and a page that reads them."""

from __future__ import annotations

import asyncio
import importlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from chatsnapshot.adapters.ag_ui import AgUiRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome

__all__ = ["AgUiBench", "story"]

_TASKS = {"parallel_tools": "What is 2+3 and 4+5?", "streaming": "What is 2+3 and 4+5?"}


class AgUiBench(AdapterBench):
    """The events of an agent go over SSE to a page that puts them together."""

    runtime = "ag_ui"
    package = "ag-ui-protocol"
    title = "AG-UI"
    lacks: Mapping[str, str] = {
        "handoff": "AG-UI tells of sub-agents; which agent of a run speaks it does not say",
        "tool_error": "the result of a tool (TOOL_CALL_RESULT) does not say whether it failed",
        "model_calls": "AG-UI tells the tokens of a run, not of each call of a model",
        "own_code": "the tools run elsewhere; the stream only tells of them",
    }

    def recorder(self, ledger: Any) -> AgUiRecorder:
        """A recorder of event streams."""
        return AgUiRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        return Outcome.of(lambda: asyncio.run(self._play(scenario, self.attached(recorder))))

    async def _play(self, scenario: str, recorders: list[Any]) -> Any:
        encoder = importlib.import_module("ag_ui.encoder").EventEncoder()
        read: list[Any] = []
        for given, events in story(scenario, _TASKS.get(scenario, "Hello")):
            told: AsyncIterator[Any] = _told(events)
            for recorder in recorders:
                told = recorder.tee(told, input=given, agent="alpha")
            read += [json.loads(encoder.encode(event)[6:]) async for event in told]
        return [event["type"] for event in read], "".join(event.get("delta", "") for event in read)


async def _told(events: list[Any]) -> AsyncIterator[Any]:
    for event in events:
        await asyncio.sleep(0)
        yield event


def story(scenario: str, task: str) -> list[tuple[Any, list[Any]]]:
    """The runs of a story: what each is given, and the events that it tells."""
    core: Any = importlib.import_module("ag_ui.core")
    thread, run = f"thread-{uuid.uuid4()}", f"run-{uuid.uuid4()}"
    user = core.UserMessage(id=f"{run}-u", content=task)
    given = core.RunAgentInput(thread_id=thread, run_id=run, messages=[user])

    def begun(run_id: str = run) -> Any:
        return core.RunStartedEvent(thread_id=thread, run_id=run_id)

    def finished(run_id: str = run, **outcome: Any) -> Any:
        return core.RunFinishedEvent(thread_id=thread, run_id=run_id, **outcome)

    def said(text: str, message_id: str = f"{run}-a", **by: Any) -> list[Any]:
        ids = {"message_id": message_id, **by}
        if scenario == "streaming":
            return [core.TextMessageChunkEvent(delta=piece, **ids) for piece in (text[:2], text[2:])]
        pieces = [core.TextMessageContentEvent(delta=piece, **ids) for piece in (text[:2], text[2:])]
        return [core.TextMessageStartEvent(role="assistant", **ids), *pieces, core.TextMessageEndEvent(**ids)]

    def called(call_id: str, name: str, arguments: dict[str, Any]) -> list[Any]:
        text = json.dumps(arguments)
        ids = {"tool_call_id": call_id, "tool_call_name": name}
        if scenario == "streaming":
            first = core.ToolCallChunkEvent(delta=text[:3], **ids)
            return [first, core.ToolCallChunkEvent(tool_call_id=call_id, delta=text[3:])]
        return [
            core.ToolCallStartEvent(**ids),
            *[core.ToolCallArgsEvent(tool_call_id=call_id, delta=piece) for piece in (text[:3], text[3:])],
            core.ToolCallEndEvent(tool_call_id=call_id),
        ]

    def gave(call_id: str, content: str) -> Any:
        return core.ToolCallResultEvent(message_id=f"{call_id}-r", tool_call_id=call_id, content=content)

    if scenario == "model_error":
        return [(given, [begun(), core.RunErrorEvent(message="model is down", code="RuntimeError")])]
    if scenario == "sub_agent":
        by = {"subagent_run_id": f"{run}-beta"}
        inside = [
            core.SubagentStartedEvent(name="beta", parent_tool_call_id="c-1", **by),
            *said("child says hi", f"{run}-b", **by),
            core.SubagentFinishedEvent(**by),
        ]
        asked = called("c-1", "ask_child", {"question": "hi?"})
        return [(given, [begun(), *asked, *inside, gave("c-1", "child says hi"), *said("done"), finished()])]
    if scenario == "interruption":
        interrupt = core.Interrupt(id="i-1", reason="approval", message="May I?", tool_call_id="c-1")
        outcome = core.RunFinishedInterruptOutcome(interrupts=[interrupt])
        again = f"{run}-2"
        answer = core.ResumeEntry(interrupt_id="i-1", status="resolved", payload={"approved": True})
        resumed = core.RunAgentInput(thread_id=thread, run_id=again, messages=[user], resume=[answer])
        first = [begun(), *called("c-1", "add", {"a": 2, "b": 3}), finished(outcome=outcome)]
        return [
            (given, first),
            (resumed, [begun(again), gave("c-1", "5"), *said("approved"), finished(again)]),
        ]
    tools = []
    if scenario in ("parallel_tools", "streaming"):
        calls = [*called("c-1", "add", {"a": 2, "b": 3}), *called("c-2", "add", {"a": 4, "b": 5})]
        tools = [*calls, gave("c-1", "5"), gave("c-2", "9")]
    return [(given, [begun(), *tools, *said("5 and 9" if tools else "Hi there"), finished()])]
