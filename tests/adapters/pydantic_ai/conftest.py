"""What the tests of the Pydantic AI adapter share: a scripted model, and the record as short lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import DeltaToolCall, FunctionModel  # noqa: E402
from pydantic_ai.usage import RequestUsage  # noqa: E402

from chatsnapshot.adapters.pydantic_ai import PydanticAIRecorder  # noqa: E402


@pytest.fixture(autouse=True)
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """``run_sync`` leaves the loop that it runs on open; here it is this one, and closed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def ledger() -> Iterator[Any]:
    """A ledger in memory that refuses payloads that do not fit their schemas."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Any) -> Iterator[PydanticAIRecorder]:
    """A recorder that has made no mistake when the test ends."""
    made = PydanticAIRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped) == (0, 0)


@pytest.fixture
def call() -> Callable[..., Any]:
    """``call("add", "c1", a=1)``: a tool call in a script."""

    def made(name: str, call_id: str, /, **arguments: Any) -> Any:
        return ToolCallPart(name, arguments, tool_call_id=call_id)

    return made


@pytest.fixture
def model() -> Callable[..., Any]:
    """``model("text", [call("add", "c1", a=1)], error)``: answers in this order; a response is given as it is."""

    def scripted(*answers: Any) -> Any:
        left = list(answers)

        def respond(messages: Any, info: Any) -> Any:
            given = left.pop(0)
            if isinstance(given, Exception):
                raise given
            if isinstance(given, ModelResponse):
                return given
            parts = [TextPart(given)] if isinstance(given, str) else given
            return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=5, output_tokens=2))

        async def stream(messages: Any, info: Any) -> Any:
            for n, part in enumerate(respond(messages, info).parts):
                if isinstance(part, TextPart):
                    for word in part.content.split():
                        yield f"{word} "
                else:
                    yield {n: DeltaToolCall(part.tool_name, part.args_as_json_str(), part.tool_call_id)}

        return FunctionModel(respond, stream_function=stream)

    return scripted


@pytest.fixture
def agent(recorder: Any, model: Any) -> Callable[..., Any]:
    """``agent("text", [call(...)], tools=[...])``: a recorded agent with these answers."""

    def made(*answers: Any, name: str = "alpha", **options: Any) -> Any:
        return pydantic_ai.Agent(model(*answers), name=name, capabilities=[recorder.capability], **options)

    return made


@pytest.fixture
def told(ledger: Any) -> Callable[..., list[str]]:
    """The record as lines: type, what it is about, and the type of its cause."""

    def lines(correlation_id: str | None = None) -> list[str]:
        entries = {entry.event_id: entry for entry in ledger.read()}
        return [
            f"{_short(entry)} <- {_short(entries[entry.causation_id])}"
            if entry.causation_id
            else _short(entry)
            for entry in entries.values()
            if correlation_id in (None, entry.correlation_id) and entry.event_type.startswith("execution.")
        ]

    return lines


def _short(entry: Any) -> str:
    payload = entry.payload
    about = payload.get("call_id") or payload.get("role") or payload.get("answers") or ""
    if entry.event_type.startswith("execution.run_"):
        about = payload["agent"]
    return f"{entry.event_type.partition('.')[2]} {about}".strip()
