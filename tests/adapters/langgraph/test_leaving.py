"""Calls that are left or broken in ways that LangGraph itself says nothing of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph

import chatsnapshot
from chatsnapshot.adapters.langgraph import LangGraphRecorder


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


def graph_of(node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("only", node)
    builder.add_edge(START, "only")
    builder.add_edge("only", END)
    return builder.compile(name="alpha")


def types(ledger: Any) -> list[str]:
    return [entry.event_type.removeprefix("execution.") for entry in ledger.read()]


def test_a_stream_of_events_that_is_left_at_its_start_is_a_cancelled_run(ledger: Any) -> None:
    recorder = LangGraphRecorder(ledger)
    graph = graph_of(lambda state: {"messages": [("assistant", "Hi")]})

    async def left() -> None:
        given = {"messages": [("user", "Hello")]}
        stream = graph.astream_events(given, recorder.config("t"), version="v2")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(left())
    assert types(ledger) == ["run_started", "message", "run_cancelled"]
    assert recorder.safe.runs_open == 0


def test_many_calls_in_one_task_leave_nothing_behind_in_it(ledger: Any) -> None:
    recorder = LangGraphRecorder(ledger)
    graph = graph_of(lambda state: {"messages": [("assistant", "Hi")]})

    async def many() -> None:
        task: Any = asyncio.current_task()
        before = len(task._callbacks or ()) if hasattr(task, "_callbacks") else 0
        for number in range(3):
            await graph.ainvoke({"messages": [("user", "Hello")]}, recorder.config(f"t-{number}"))
        assert (len(task._callbacks or ()) if hasattr(task, "_callbacks") else 0) == before

    asyncio.run(many())
    assert types(ledger).count("run_completed") == 3


def test_an_exception_that_has_no_text_ends_its_node_too(ledger: Any) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fails(state: Any) -> Any:
        raise Odd

    recorder = LangGraphRecorder(ledger)
    with pytest.raises(Odd):
        graph_of(fails).invoke({"messages": [("user", "Hello")]}, recorder.config("t"))
    assert types(ledger) == ["run_started", "message", "state_change", "state_change", "run_failed"]
    assert recorder.safe.failures == 0
