"""Pruning and deleting checkpoints: what is kept reads as before, what is not is erased, entries stay."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.adapters.langgraph import ChatSnapshotSaver
from chatsnapshot.adapters.langgraph.checkpoints import keeping
from chatsnapshot.adapters.langgraph.checkpoints.shapes import correlation_of
from chatsnapshot.adapters.langgraph.checkpoints.thread import Threads
from chatsnapshot.cli.main import cli

graphs = pytest.importorskip("langgraph.graph")

from langgraph.types import Command, interrupt  # noqa: E402


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def graph_of(saver: Any, steps: int = 4) -> Any:
    builder = graphs.StateGraph(State)
    builder.add_node("work", lambda state: {"log": [f"entry {len(state['log'])} " + "x" * 100]})
    builder.add_edge(graphs.START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if len(state["log"]) % steps else graphs.END)
    return builder.compile(checkpointer=saver)


def config(thread_id: str = "t") -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
def ledger(url: str) -> Iterator[Any]:
    with chatsnapshot.open(url) as opened:
        yield opened


def unerased(ledger: Any, thread_id: str = "t") -> int:
    return sum(
        entry.payload_bytes
        for entry in ledger.read(correlation_id=correlation_of(thread_id))
        if not entry.erased
    )


def test_pruned_checkpoints_are_erased_and_the_kept_ones_read_as_before(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = graph_of(saver)
    for _ in range(3):
        graph.invoke({"log": ["asked"]}, config())
    before = list(saver.list(config()))
    count, size = len(list(ledger.read(correlation_id=correlation_of("t")))), unerased(ledger)
    saver.prune(["t"], keep=2)
    for reader in (saver, ChatSnapshotSaver(ledger)):
        after = list(reader.list(config()))
        assert after == before[:2]
    entries = list(ledger.read(correlation_id=correlation_of("t")))
    assert len(entries) > count
    assert unerased(ledger) < size / 2
    assert ledger.verify().ok


def test_a_pruned_thread_goes_on_and_can_be_pruned_again(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = graph_of(saver)
    for _ in range(4):
        state = graph.invoke({"log": ["asked"]}, config())
        saver.prune(["t"])
        assert len(list(saver.list(config()))) == 1
        assert graph.get_state(config()).values == state
    assert len(state["log"]) == 16
    assert ChatSnapshotSaver(ledger).get_tuple(config()).checkpoint["channel_values"]["log"] == state["log"]


def test_a_thread_that_waits_for_an_answer_keeps_its_question(ledger: Any) -> None:
    builder = graphs.StateGraph(State)
    builder.add_node("ask", lambda state: {"log": [interrupt("Well?")]})
    builder.add_edge(graphs.START, "ask")
    saver = ChatSnapshotSaver(ledger)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["asked"]}, config())
    saver.prune(["t"])
    assert graph.get_state(config()).interrupts[0].value == "Well?"
    assert graph.invoke(Command(resume="yes"), config())["log"] == ["asked", "yes"]


def test_a_process_that_knew_the_thread_goes_on_after_another_one_pruned_it(url: str, ledger: Any) -> None:
    graph = graph_of(ChatSnapshotSaver(ledger))
    graph.invoke({"log": ["asked"]}, config())
    with chatsnapshot.open(url) as other:
        ChatSnapshotSaver(other).prune(["t"])
    state = graph.invoke({"log": ["again"]}, config())
    assert len(state["log"]) == 8
    assert ChatSnapshotSaver(ledger).get_tuple(config()).checkpoint["channel_values"]["log"] == state["log"]


def test_a_checkpoint_saved_while_the_thread_is_pruned_is_readable(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = graph_of(saver)
    graph.invoke({"log": ["asked"]}, config())
    thread = saver._threads.of("t")
    record, pruned = thread.record, []

    def pruning(events: Any, **options: Any) -> Any:
        if not pruned and events[-1]["event_type"] == "langgraph.checkpoint_saved":
            pruned.append(True)
            keeping.delete(Threads(ledger).of("t"))
        return record(events, **options)

    monkeypatch.setattr(thread, "record", pruning)
    graph.update_state(config(), {"log": ["more"]})
    assert pruned
    found = ChatSnapshotSaver(ledger).get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"]["log"][-1] == "more"
    assert len(found.checkpoint["channel_values"]["log"]) == 5


def test_a_checkpoint_that_is_read_while_the_thread_is_pruned_is_found(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = ChatSnapshotSaver(ledger)
    state = graph_of(saver).invoke({"log": ["asked"]}, config())
    thread = saver._threads.of("t")
    payload, pruned = thread.payload, []

    def pruning(at: Any) -> Any:
        if not pruned:
            pruned.append(
                keeping.keep(Threads(ledger).of("t"), lambda index: keeping.newest(index, 1), "test")
            )
        return payload(at)

    monkeypatch.setattr(thread, "payload", pruning)
    assert saver.get_tuple(config()).checkpoint["channel_values"]["log"] == state["log"]
    assert pruned[0].removed == 4


def test_what_is_added_while_pruning_is_not_lost(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(ChatSnapshotSaver(ledger))
    graph.invoke({"log": ["asked"]}, config())
    thread = Threads(ledger).of("t")
    record, added = thread.record, []

    def adding(events: Any, **options: Any) -> Any:
        if not added:
            added.append(graph.update_state(config(), {"log": ["meanwhile"]}))
        return record(events, **options)

    monkeypatch.setattr(thread, "record", adding)
    keeping.keep(thread, lambda index: keeping.newest(index, 1), "test")
    assert (
        ChatSnapshotSaver(ledger).get_tuple(config()).checkpoint["channel_values"]["log"][-1] == "meanwhile"
    )


def test_what_is_added_while_a_thread_is_deleted_is_whole_or_gone(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(ChatSnapshotSaver(ledger))
    graph.invoke({"log": ["asked"]}, config())
    thread = Threads(ledger).of("t")
    record, added = thread.record, []

    def adding(events: Any, **options: Any) -> Any:
        if not added:
            added.append(graph.update_state(config(), {"log": ["meanwhile"]}))
        return record(events, **options)

    monkeypatch.setattr(thread, "record", adding)
    keeping.delete(thread)
    found = ChatSnapshotSaver(ledger).get_tuple(config())
    assert added
    assert found is None or len(found.checkpoint["channel_values"]["log"]) == 5


def test_a_prune_that_was_killed_before_it_erased_is_finished_by_the_next(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = ChatSnapshotSaver(ledger)
    state = graph_of(saver).invoke({"log": ["asked"]}, config())
    with monkeypatch.context() as patch:
        patch.setattr(type(ledger), "erase", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            saver.prune(["t"])
    fresh = ChatSnapshotSaver(ledger)
    assert len(list(fresh.list(config()))) == 1
    assert fresh.get_tuple(config()).checkpoint["channel_values"]["log"] == state["log"]
    size = unerased(ledger)
    fresh.prune(["t"])
    assert unerased(ledger) < size


def test_a_deleted_thread_is_gone_and_can_begin_anew(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = graph_of(saver)
    graph.invoke({"log": ["asked"]}, config())
    kept = list(saver.list(config()))[-1]
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None
    assert ChatSnapshotSaver(ledger).get_tuple(config()) is None
    secret = b"entry 1".hex()
    assert all(secret not in (entry.payload_json or b"").hex() for entry in ledger.read())
    assert len(graph.invoke({"log": ["anew"]}, config())["log"]) == 4
    # Also under the very id that was deleted.
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    values = {"log": kept.checkpoint["channel_versions"].get("log", "1")}
    saver.put(place, {**kept.checkpoint, "channel_values": {"log": ["back"]}}, kept.metadata, values)
    assert saver.get_tuple(kept.config) is not None


def test_a_copied_thread_goes_on_by_itself(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = graph_of(saver)
    state = graph.invoke({"log": ["asked"]}, config())
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert graph.get_state(config("copy")).values == state
    assert len(graph.invoke({"log": ["more"]}, config("copy"))["log"]) == 8


def test_a_delta_channel_is_kept_with_the_writes_that_it_follows_from(ledger: Any) -> None:
    delta = pytest.importorskip("langgraph.channels.delta")

    def add(before: list[str], writes: Any) -> list[str]:
        return [*before, *(one for write in writes for one in write)]

    state_type = TypedDict("state_type", {"log": Annotated[list[str], delta.DeltaChannel(add)]})  # noqa: UP013
    builder = graphs.StateGraph(state_type)
    builder.add_node("work", lambda state: {"log": [f"entry {len(state['log'])}"]})
    builder.add_edge(graphs.START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if len(state["log"]) % 4 else graphs.END)
    saver = ChatSnapshotSaver(ledger)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["asked"]}, config())
    state = graph.get_state(config()).values
    assert len(state["log"]) == 4
    saver.prune(["t"])
    assert graph.get_state(config()).values == state


# --- the command line --------------------------------------------------------------------------------------------


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["checkpoints", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_threads_are_listed_pruned_and_deleted_by_command(url: str, ledger: Any) -> None:
    graph = graph_of(ChatSnapshotSaver(ledger))
    for name in ("one", "two"):
        graph.invoke({"log": ["asked"]}, config(name))
    listed = [json.loads(line) for line in run("list", "--json", "--ledger", url).splitlines()]
    assert [one["thread_id"] for one in listed] == ["one", "two"]
    assert {one["checkpoints"] for one in listed} == {5}
    assert "one" in run("list", "--ledger", url)
    told = json.loads(run("prune", "one", "--keep", "2", "--json", "--ledger", url))
    assert (told["thread_id"], told["kept"], told["removed"]) == ("one", 2, 3)
    assert told["erased"] > 0
    assert "two: 1 kept, 4 let go" in run("prune", "--all", "--ledger", url)
    assert "one: 0 kept, 1 let go" in run("delete", "one", "--ledger", url)
    listed = [json.loads(line) for line in run("list", "--json", "--ledger", url).splitlines()]
    assert [one["thread_id"] for one in listed] == ["two"]
    assert len(graph.get_state(config("two")).values["log"]) == 4


def test_wrong_use_of_the_command_is_told_in_one_sentence(url: str, ledger: Any) -> None:
    assert "name the threads to prune, or all of them with --all" in run("prune", "--ledger", url, code=1)
    assert "there is no thread 'other'" in run("delete", "other", "--ledger", url, code=1)
    assert "no ledger at" in run("list", "--ledger", url + "x", code=2)
    assert "list" in run(code=1)
