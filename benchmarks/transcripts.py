"""The messages of one conversation read back: our transcript, LangGraph's checkpointer, an eventsourcing aggregate."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable
from typing import Any

import chatsnapshot
from benchmarks.measure import interleave, ratio
from benchmarks.projections import Bare
from chatsnapshot.projections import engine
from chatsnapshot.projections.views import view

MESSAGES = 400
LATEST = 10

Said = list[tuple[str, str]]
"""Role and text of each message."""


def conversation() -> Said:
    roles = ("user", "assistant")
    return [
        (roles[n % 2], f"Message {n}: the parcel left the harbour this morning. " * 3)
        for n in range(MESSAGES)
    ]


class Ours:
    """The transcript view: out of its stored state, folded from the entries, and as of earlier positions."""

    def __init__(self, path: str, messages: Said) -> None:
        self.ledger = chatsnapshot.open(path, validation="off")
        for role, text in messages:
            self.ledger.record("execution.message", {"role": role, "content": text}, correlation_id="talk")
        engine.run(self.ledger, ["transcript"])
        self.bare: Any = Bare(self.ledger)

    def stored(self) -> Said:
        return self._said(view(self.ledger, "transcript", "talk"))

    def folded(self) -> Said:
        return self._said(view(self.bare, "transcript", "talk"))

    def latest(self) -> Said:
        head = self.ledger.head
        return [
            self._said(view(self.ledger, "transcript", "talk", until=head - n))[-1] for n in range(LATEST)
        ]

    def _said(self, transcript: Any) -> Said:
        return [(item.role, item.text) for item in transcript.items]


class LangGraph:
    """A thread in ``SqliteSaver``: a checkpoint after each message with all messages so far, as a graph makes them."""

    def __init__(self, path: str, messages: Said) -> None:
        from langchain_core.messages import AIMessage, HumanMessage
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
        self.config: Any = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}
        kinds = {"user": HumanMessage, "assistant": AIMessage}
        config, held = self.config, []
        for step, (role, text) in enumerate(messages):
            held.append(kinds[role](content=text, id=str(uuid.uuid4())))
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(held)}
            checkpoint["channel_versions"] = {"messages": step + 1}
            config = self.saver.put(
                config, checkpoint, {"source": "loop", "step": step}, {"messages": step + 1}
            )

    def get(self) -> Said:
        found = self.saver.get_tuple(self.config)
        assert found is not None
        return self._said(found)

    def latest(self) -> Said:
        return [self._said(one)[-1] for one in self.saver.list(self.config, limit=LATEST)]

    def _said(self, found: Any) -> Said:
        roles = {"human": "user", "ai": "assistant"}
        return [(roles[one.type], one.content) for one in found.checkpoint["channel_values"]["messages"]]


class EventSourcing:
    """An aggregate with an event for each message: rebuilt from its events, and from its last snapshot."""

    def __init__(self, path: str, messages: Said) -> None:
        from eventsourcing.application import Application
        from eventsourcing.domain import Aggregate, event

        class Talk(Aggregate):
            def __init__(self) -> None:
                self.messages: Said = []

            @event("Spoken")
            def speak(self, role: str, text: str) -> None:
                self.messages.append((role, text))

        class Plain(Application):
            env = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path}  # noqa: RUF012
            is_snapshotting_enabled = False

        class Snapped(Plain):
            is_snapshotting_enabled = True

        self.plain, self.snapped = Plain(), Snapped()
        talk = Talk()
        for role, text in messages:
            talk.speak(role, text)
            self.snapped.save(talk)
        self.id = talk.id

    def events(self) -> Said:
        return self._said(self.plain)

    def snapshot(self) -> Said:
        return self._said(self.snapped)

    def _said(self, application: Any) -> Said:
        return [(role, text) for role, text in application.repository.get(self.id).messages]


def run(folder: str, rounds: int) -> None:
    said = conversation()
    ours = Ours(os.path.join(folder, "ours.db"), said)
    graph = LangGraph(os.path.join(folder, "langgraph.db"), said)
    sourced = EventSourcing(os.path.join(folder, "eventsourcing.db"), said)
    sourced.snapped.take_snapshot(sourced.id)
    print(f"{MESSAGES} messages of one conversation read back (CPU time; the same messages from each)")
    ways: dict[str, Callable[[], Said]] = {
        "our transcript, stored": ours.stored,
        "our transcript, folded from entries": ours.folded,
        "langgraph get_tuple": graph.get,
        "eventsourcing, from events": sourced.events,
        "eventsourcing, from a snapshot": sourced.snapshot,
    }
    for name, way in ways.items():
        assert way() == said, name
    _table(ways, rounds)
    print(f"The last {LATEST} states of it, each with all its messages")
    states: dict[str, Callable[[], Said]] = {
        "our transcript until=": ours.latest,
        "langgraph list": graph.latest,
    }
    assert ours.latest() == graph.latest()
    _table(states, rounds)
    ours.ledger.close()


def _table(ways: dict[str, Callable[[], Said]], rounds: int) -> None:
    def once(way: Callable[[], Said]) -> Callable[[], int]:
        return lambda: len(way()) and 1

    found = interleave({name: once(way) for name, way in ways.items()}, rounds, clock=time.process_time)
    first = next(iter(found))
    for name, result in found.items():
        times = "" if name == first else f"   {ratio(found[first], result):5.1f} times {first}"
        print(f"  {name:<36} {1000 / result.median:8.2f} ms ±{result.spread:4.0%}{times}")
