"""Whatever is saved in whatever order, the saver gives what LangGraph's own saver in memory gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.adapters.langgraph import ChatSnapshotSaver

memory = pytest.importorskip("langgraph.checkpoint.memory")
base = pytest.importorskip("langgraph.checkpoint.base")

CHANNELS = ("log", "files", "count")

values = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=6),
    st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 3), max_size=3),
    st.integers(0, 9),
    st.none(),
    st.binary(max_size=4),
)
saves = st.tuples(
    st.just("put"),
    st.sampled_from(["one", "two"]),
    st.sampled_from(["", "inner:1"]),
    st.dictionaries(st.sampled_from(CHANNELS), st.one_of(values, st.just(...)), max_size=3),
    st.integers(0, 3),
)
writes = st.tuples(
    st.just("writes"),
    st.lists(st.tuples(st.sampled_from([*CHANNELS, "__interrupt__"]), values), min_size=1, max_size=3),
    st.sampled_from(["task-1", "task-2"]),
    st.sampled_from(["", "~path"]),
    st.integers(0, 5),
)
others = st.sampled_from([("cold",), ("delete", "one"), ("delete", "two")])
steps = st.lists(st.one_of(saves, saves, writes, others), max_size=14)


class Pair:
    """The two savers, given the same."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.ours, self.theirs = ChatSnapshotSaver(ledger), memory.InMemorySaver()
        self.places: list[Any] = []
        self.versions: dict[tuple[str, str, str], str] = {}
        self.ids = iter(range(1, 10_000))

    def put(self, thread: str, ns: str, changed: dict[str, Any], back: int) -> None:
        known = [one for one in self.places if one["configurable"]["thread_id"] == thread]
        known = [one for one in known if one["configurable"]["checkpoint_ns"] == ns]
        parent = known[-1 - back % len(known)] if known else None
        before = self.theirs.get_tuple(parent) if parent else None
        held: dict[str, Any] = dict(before.checkpoint["channel_values"]) if before else {}
        versions = dict(before.checkpoint["channel_versions"]) if before else {}
        new = {}
        for channel, value in changed.items():
            new[channel] = self.ours.get_next_version(versions.get(channel), None)
            if value is ...:
                held.pop(channel, None)
            else:
                held[channel] = value
        versions |= new
        checkpoint = {
            **base.empty_checkpoint(),
            "id": f"{next(self.ids):08}",
            "channel_values": held,
            "channel_versions": versions,
        }
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
        if parent:
            config["configurable"]["checkpoint_id"] = parent["configurable"]["checkpoint_id"]
        metadata = {"source": "loop", "step": len(self.places), "parents": {}}
        made = [saver.put(config, checkpoint, metadata, new) for saver in (self.theirs, self.ours)]
        assert made[0] == made[1]
        self.places.append(made[0])

    def writes(self, given: Any, task: str, path: str, back: int) -> None:
        if self.places:
            for saver in (self.theirs, self.ours):
                saver.put_writes(self.places[-1 - back % len(self.places)], given, task, path)

    def cold(self) -> None:
        self.ours = ChatSnapshotSaver(self.ledger)

    def delete(self, thread: str) -> None:
        for saver in (self.theirs, self.ours):
            saver.delete_thread(thread)
        self.places = [one for one in self.places if one["configurable"]["thread_id"] != thread]

    def compare(self) -> None:
        for saver in (self.ours, ChatSnapshotSaver(self.ledger)):
            for thread in ("one", "two"):
                config: Any = {"configurable": {"thread_id": thread}}
                assert list(saver.list(config)) == sorted(
                    self.theirs.list(config), key=lambda one: self._order(saver, config, one)
                )
                for ns in ("", "inner:1"):
                    inner: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
                    assert saver.get_tuple(inner) == self.theirs.get_tuple(inner)
            for place in self.places:
                assert saver.get_tuple(place) == self.theirs.get_tuple(place)

    def _order(self, saver: Any, config: Any, wanted: Any) -> int:
        return [one.config for one in saver.list(config)].index(wanted.config)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_saver_gives_what_the_saver_in_memory_gives(given_steps: list[Any]) -> None:
    with chatsnapshot.open("memory:") as ledger:
        pair = Pair(ledger)
        for name, *rest in given_steps:
            getattr(pair, name)(*rest)
        pair.compare()
        for thread in ("one", "two"):
            newest = pair.ours.get_tuple({"configurable": {"thread_id": thread}})
            pair.ours.prune([thread])
            assert pair.ours.get_tuple({"configurable": {"thread_id": thread}}) == newest
        assert ledger.verify().ok
