"""What the tests of the OpenAI Agents adapter share: a scripted model, tools, and the record as short lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402
from agents.usage import Usage  # noqa: E402

from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_is_uploaded() -> None:
    """No test sends its traces to the vendor."""
    agents.set_trace_processors([])


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
def recorder(ledger: Any) -> Iterator[OpenAIAgentsRecorder]:
    """A recorder that has made no mistake when the test ends."""
    made = OpenAIAgentsRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped) == (0, 0)


@pytest.fixture
def model() -> Callable[..., Any]:
    """``model("text", [call("add", a=1)], error)``: answers in this order."""

    def scripted(*answers: Any) -> Any:
        steps = [[assistant_message(one)] if isinstance(one, str) else one for one in answers]
        usage = Usage(requests=1, input_tokens=5, output_tokens=2, total_tokens=7)
        return ScriptedModel(steps, default_usage=usage)

    return scripted


@pytest.fixture
def call() -> Callable[..., Any]:
    """``call("add", "c1", a=1)``: a tool call in a script."""

    def made(name: str, call_id: str, /, **arguments: Any) -> Any:
        return function_call(name, arguments, call_id=call_id)

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
    about = payload.get("call_id") or payload.get("role") or payload.get("answers") or payload.get("to") or ""
    if entry.event_type.startswith("execution.run_"):
        about = payload["agent"]
    return f"{entry.event_type.partition('.')[2]} {about}".strip()
