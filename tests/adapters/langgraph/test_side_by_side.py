"""Causes of what nodes of LangGraph do beside each other: the same, whichever of them is first."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.langgraph import LangGraphRecorder

graphs = pytest.importorskip("langgraph.graph")
tools = pytest.importorskip("langchain_core.tools")

from chatsnapshot.testing.runtimes.langgraph import scripted  # noqa: E402


@tools.tool
def look(n: int) -> int:
    """Look something up."""
    return n


def played(first: str) -> list[Any]:
    """What is recorded of a node with a tool and one with a model, one of which is through before the other begins."""
    through = threading.Event()
    model, after = scripted("beside"), scripted("after")

    def in_turn(name: str, act: Any) -> Any:
        def node(state: Any) -> Any:
            if name != first:
                assert through.wait(20)
            made = act(state)
            if name == first:
                through.set()
            return made

        return node

    def answered(state: Any) -> Any:
        look.invoke({"type": "tool_call", "id": "c1", "name": "look", "args": {"n": 1}})
        return {}

    builder = graphs.StateGraph(graphs.MessagesState)
    builder.add_node("tool", in_turn("tool", answered))
    builder.add_node("said", in_turn("said", lambda state: {"messages": [model.invoke("Well?")]}))
    builder.add_node("after", lambda state: {"messages": [after.invoke("And then?")]})
    builder.add_edge(graphs.START, "tool")
    builder.add_edge(graphs.START, "said")
    builder.add_edge(["tool", "said"], "after")
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = LangGraphRecorder(ledger)
        builder.compile().invoke({"messages": [("user", "Hello")]}, recorder.config())
        assert recorder.flush(10)
        assert recorder.safe.failures == 0
        return list(ledger.read())


@pytest.mark.parametrize("first", ["tool", "said"])
def test_a_model_is_not_asked_because_of_a_tool_in_a_node_beside_it(first: str) -> None:
    recorded = played(first)
    by_id = {entry.event_id: entry for entry in recorded}
    beside, after = [entry for entry in recorded if entry.event_type == "execution.model_call"]
    asked = by_id[beside.causation_id]
    assert (asked.event_type, asked.payload["parts"][0]["content"]) == ("execution.message", "Well?")
    result = by_id[after.causation_id]
    assert (result.event_type, result.payload["call_id"]) == ("execution.tool_result", "c1")
