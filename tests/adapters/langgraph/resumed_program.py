"""The program that the tests of kills start: graphs whose state and runs are in one ledger."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import chatsnapshot
from chatsnapshot.adapters.langgraph import ChatSnapshotSaver, LangGraphRecorder
from chatsnapshot.testing.runtimes.langgraph import agent, calling, scripted


class Steps(TypedDict):
    """What was done."""

    done: Annotated[list[int], lambda before, more: before + more]


def steps(ledger: Any, path: str, dies_at: str) -> None:
    """Six steps, each told in a file; in the middle of one of them the process kills itself."""

    def step(state: Any) -> Any:
        n = len(state["done"])
        with Path(path).open("a") as file:
            file.write(f"{n}\n")
        if str(n) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"done": [n]}

    builder = StateGraph(Steps)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if len(state["done"]) < 6 else "__end__")
    graph = builder.compile(checkpointer=ChatSnapshotSaver(ledger), name="stepping")
    config = LangGraphRecorder(ledger).config("t")
    known = graph.get_state(config).values
    state = graph.invoke(None if known else {"done": []}, config, durability="sync")
    print(",".join(map(str, state["done"])))


def person(ledger: Any, answer: str | None) -> None:
    """An agent whose tool asks a person, and what becomes of the answer."""

    def ask_person(question: str) -> str:
        """Ask a person."""
        return str(interrupt({"question": question}))

    turns = ["approved"] if answer else [[calling("ask_person", question="May I?")]]
    graph = agent("alpha", scripted(*turns), [ask_person], ChatSnapshotSaver(ledger))
    config = LangGraphRecorder(ledger).config("t")
    state = graph.invoke(Command(resume=answer) if answer else {"messages": [("user", "Go")]}, config)
    if "__interrupt__" in state:
        print("paused")
    else:
        print(state["messages"][-1].content, state["messages"][-2].content)


if __name__ == "__main__":
    what, url, *rest = sys.argv[1:]
    with chatsnapshot.open(url) as opened:
        if what == "steps":
            steps(opened, *rest)
        else:
            person(opened, rest[0] if rest else None)
