"""ChatSnapshotSaver: state that grows by what changes, is read without scanning, and survives kills."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.langgraph import ChatSnapshotSaver
from chatsnapshot.adapters.langgraph.checkpoints.shapes import correlation_of

graphs = pytest.importorskip("langgraph.graph")
messages = pytest.importorskip("langchain_core.messages")

PROGRAM = Path(__file__).with_name("resumed_program.py")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Any]:
    with chatsnapshot.open(str(tmp_path / "runs.db")) as opened:
        yield opened


class Growing(graphs.MessagesState):
    count: int
    files: Annotated[dict[str, str], lambda before, more: {**before, **more}]
    log: Annotated[list[str], operator.add]


def growing(steps: int) -> Any:
    """A graph whose state grows by about 1 KB in each of so many steps."""

    def work(state: Any) -> Any:
        n = state["count"]
        return {
            "count": n + 1,
            "messages": [messages.AIMessage("m" * 400, id=f"m{n}")],
            "files": {f"file-{n:06}": "f" * 400},
            "log": [f"{n:06} " + "l" * 100],
        }

    builder = graphs.StateGraph(Growing)
    builder.add_node("work", work)
    builder.add_edge(graphs.START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if state["count"] % steps else graphs.END)
    return builder


def config(thread_id: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": 1_000, **more}


# --- growth ------------------------------------------------------------------------------------------------------


def test_bytes_a_step_stay_flat_while_the_state_grows(ledger: Any) -> None:
    graph = growing(20).compile(checkpointer=ChatSnapshotSaver(ledger))
    sizes, states = [], []
    for turn in range(5):
        before = ledger.head
        state = graph.invoke({"count": turn * 20, "files": {}, "messages": [], "log": []}, config())
        sizes.append(sum(entry.payload_bytes for entry in ledger.read(after=before)) / 20)
        states.append(len(repr(state)))
    assert states[-1] > 4 * states[0]
    assert max(sizes[1:]) < 1.1 * min(sizes[1:])
    # About 1 KB of news, once in what the task wrote and once in the channel, as base64, and a fixed rest.
    assert max(sizes) < 8_000


def test_the_state_is_what_the_memory_saver_gives(ledger: Any) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    histories = []
    for saver in (ChatSnapshotSaver(ledger), InMemorySaver()):
        graph = growing(7).compile(checkpointer=saver)
        for turn in range(3):
            graph.invoke({"count": turn * 7, "files": {}, "messages": [], "log": []}, config())
        histories.append(
            [(state.values, state.next, state.metadata) for state in graph.get_state_history(config())]
        )
    assert histories[0] == histories[1]


def test_a_long_chain_of_changes_is_read_back(ledger: Any) -> None:
    graph = growing(60).compile(checkpointer=ChatSnapshotSaver(ledger))
    graph.invoke({"count": 0, "files": {}, "messages": [], "log": []}, config())
    found = ChatSnapshotSaver(ledger).get_tuple(config())
    assert found is not None
    values = found.checkpoint["channel_values"]
    assert [one.id for one in values["messages"]] == [f"m{n}" for n in range(60)]
    assert list(values["files"]) == [f"file-{n:06}" for n in range(60)]


def test_a_large_value_goes_into_a_blob_and_comes_back(ledger: Any) -> None:
    large = bytes(range(256)) * 1_000
    builder = graphs.StateGraph(dict)
    builder.add_node("a", lambda state: {"data": large})
    builder.add_edge(graphs.START, "a")
    builder.compile(checkpointer=ChatSnapshotSaver(ledger)).invoke({"data": b""}, config())
    found = ChatSnapshotSaver(ledger).get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"]["__root__"] == {"data": large}


def test_a_ledger_that_redacts_does_not_touch_the_state(tmp_path: Path) -> None:
    with chatsnapshot.open(str(tmp_path / "r.db"), redact="secrets") as ledger:
        graph = growing(3).compile(checkpointer=ChatSnapshotSaver(ledger))
        state = graph.invoke({"count": 0, "files": {}, "messages": [], "log": ["sk-" + "a1" * 24]}, config())
        assert (
            ChatSnapshotSaver(ledger).get_tuple(config()).checkpoint["channel_values"]["log"] == state["log"]
        )


# --- reading -----------------------------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_read_without_scanning_the_ledger(ledger: Any) -> None:
    graph = growing(3).compile(checkpointer=ChatSnapshotSaver(ledger))
    graph.invoke({"count": 0, "files": {}, "messages": [], "log": []}, config("mine"))
    ledger.record_many(
        [{"event_type": "noise.made", "correlation_id": f"noise-{n % 7}"} for n in range(2_000)]
    )
    looked_at: list[Any] = []
    read = ledger.read

    def counting(**filters: Any) -> Any:
        for entry in read(**filters):
            looked_at.append(entry)
            yield entry

    ledger.read = counting
    try:
        assert ChatSnapshotSaver(ledger).get_tuple(config("mine")) is not None
        assert {entry.correlation_id for entry in looked_at} == {correlation_of("mine")}
        looked_at.clear()
        saver = ChatSnapshotSaver(ledger)
        saver.get_tuple(config("mine"))
        looked_at.clear()
        saver.get_tuple(config("mine"))
        assert looked_at == []
    finally:
        del ledger.read


def test_of_a_write_saved_twice_the_first_counts_and_of_an_interrupt_the_last(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    growing(1).compile(checkpointer=saver).invoke({"count": 0}, config())
    place = saver.get_tuple(config()).config
    for value in ("first", "second"):
        saver.put_writes(place, [("log", [value]), ("__interrupt__", value)], "task")
    for reader in (saver, ChatSnapshotSaver(ledger)):
        writes = {channel: value for _, channel, value in reader.get_tuple(config()).pending_writes}
        assert writes == {"log": ["first"], "__interrupt__": "second"}


def test_another_process_of_the_same_thread_is_seen(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.db")
    with chatsnapshot.open(url) as one, chatsnapshot.open(url) as other:
        first, second = ChatSnapshotSaver(one), ChatSnapshotSaver(other)
        graph = growing(2).compile(checkpointer=first)
        graph.invoke({"count": 0, "files": {}, "messages": [], "log": []}, config())
        assert second.get_tuple(config()).checkpoint["channel_values"]["count"] == 2
        growing(2).compile(checkpointer=second).invoke({"count": 10}, config())
        assert first.get_tuple(config()).checkpoint["channel_values"]["count"] == 12


def test_checkpoints_of_all_threads_are_listed(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    graph = growing(2).compile(checkpointer=saver)
    for thread in ("a", "b"):
        graph.invoke({"count": 0, "files": {}, "messages": [], "log": []}, config(thread))
    found = list(saver.list(None))
    assert {one.config["configurable"]["thread_id"] for one in found} == {"a", "b"}
    assert len(list(saver.list(None, limit=3))) == 3


def test_an_async_graph_keeps_its_state(ledger: Any) -> None:
    async def main() -> Any:
        graph = growing(4).compile(checkpointer=ChatSnapshotSaver(ledger))
        await graph.ainvoke({"count": 0, "files": {}, "messages": [], "log": []}, config())
        return [state.values.get("count") async for state in graph.aget_state_history(config())]

    assert asyncio.run(main()) == [4, 3, 2, 1, 0, None]


def test_a_thread_can_be_forked_at_an_earlier_checkpoint(ledger: Any) -> None:
    graph = growing(4).compile(checkpointer=ChatSnapshotSaver(ledger))
    graph.invoke({"count": 0, "files": {}, "messages": [], "log": []}, config())
    earlier = next(state for state in graph.get_state_history(config()) if state.values["count"] == 2)
    forked = graph.update_state(earlier.config, {"count": 102}, as_node="work")
    assert graph.get_state(forked).values["count"] == 102
    assert len(graph.get_state(forked).values["messages"]) == 2
    ended = graph.invoke(None, forked)
    assert ended["count"] == 104
    assert graph.get_state(earlier.config).values["count"] == 2


def test_thread_ids_that_are_no_ids_are_kept_apart(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    names = ["x" * 500, "x" * 499 + "y", "two\nlines", "e\u0301", "\u00e9", "sha256:00", "plain"]
    graph = growing(1).compile(checkpointer=saver)
    for n, name in enumerate(names):
        graph.invoke({"count": n, "files": {}, "messages": [], "log": []}, config(name))
    assert len({correlation_of(name) for name in names}) == len(names)
    for n, name in enumerate(names):
        assert (
            ChatSnapshotSaver(ledger).get_tuple(config(name)).checkpoint["channel_values"]["count"] == n + 1
        )


# --- beside the run ----------------------------------------------------------------------------------------------


def test_checkpoints_stay_out_of_the_history_of_the_run_and_of_the_list_of_runs(ledger: Any) -> None:
    from chatsnapshot.adapters.langgraph import LangGraphRecorder

    recorder = LangGraphRecorder(ledger)
    graph = growing(2).compile(checkpointer=ChatSnapshotSaver(ledger))
    with ledger.run("outer", name="outer"):
        graph.invoke(
            {"count": 0, "files": {}, "messages": [], "log": []}, recorder.config("t", config=config())
        )
    assert not [one for one in ledger.read(correlation_id="t") if one.event_type.startswith("langgraph.")]
    first = next(iter(ledger.read(correlation_id=correlation_of("t"))))
    assert first.causation_id is None
    assert {one.correlation_id for one in ledger.replay("outer", children=True)} == {"outer", "t"}
    assert {run.correlation_id for run in ledger.view("runs")} == {"outer"}
    assert ledger.verify().ok


def test_a_newer_format_is_refused_and_foreign_events_are_passed_over(ledger: Any) -> None:
    growing(1).compile(checkpointer=ChatSnapshotSaver(ledger)).invoke({"count": 0}, config())
    ledger.record("user.note", {"x": 1}, correlation_id=correlation_of("t"))
    assert ChatSnapshotSaver(ledger).get_tuple(config()) is not None
    ledger.record("langgraph.writes_saved", {"format": 2}, correlation_id=correlation_of("t"))
    saver = ChatSnapshotSaver(ledger)
    for _ in range(2):
        with pytest.raises(chatsnapshot.FormatTooNew, match="is of format 2 and this version reads format 1"):
            saver.get_tuple(config())


def test_only_a_ledger_is_taken() -> None:
    with pytest.raises(TypeError, match="takes a ledger"):
        ChatSnapshotSaver("runs.db")


def test_a_graph_does_not_go_on_without_its_state(ledger: Any) -> None:
    saver = ChatSnapshotSaver(ledger)
    ledger.close()
    with pytest.raises(chatsnapshot.LedgerClosed):
        growing(2).compile(checkpointer=saver).invoke({"count": 0}, config())


# --- kills and new processes -------------------------------------------------------------------------------------


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.parametrize("store", ["runs.db", pytest.param("runs.jsonl", marks=pytest.mark.faults)])
def test_a_process_killed_between_super_steps_is_gone_on_with_where_it_was(
    tmp_path: Path, store: str
) -> None:
    url, done = str(tmp_path / store), tmp_path / "done"
    killed = run_program("steps", url, str(done), "3")
    assert killed.returncode == -9, killed.stderr
    assert done.read_text().split() == ["0", "1", "2", "3"]
    resumed = run_program("steps", url, str(done), "never")
    assert resumed.returncode == 0, resumed.stderr
    # The step that was killed in its middle is done again, those before are not.
    assert done.read_text().split() == ["0", "1", "2", "3", "3", "4", "5"]
    assert resumed.stdout.split() == ["0,1,2,3,4,5"]
    with chatsnapshot.open(url) as ledger:
        assert ledger.verify().ok
        runs = [one for one in ledger.read(correlation_id="t") if one.event_type.startswith("execution.run_")]
        assert [one.event_type for one in runs] == [
            "execution.run_started",
            "execution.run_resumed",
            "execution.run_completed",
        ]
        before = [one for one in ledger.read(correlation_id="t") if one.position < runs[1].position]
        assert runs[1].causation_id == before[-1].event_id


def test_an_interrupted_run_is_resumed_in_a_new_process_as_one_history(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.db")
    asked = run_program("ask", url)
    assert asked.stdout.split() == ["paused"], asked.stderr
    answered = run_program("answer", url, "yes")
    assert answered.stdout.split() == ["approved", "yes"], answered.stderr
    with chatsnapshot.open(url) as ledger:
        history = list(ledger.read(correlation_id="t"))
        by_type = {one.event_type.partition(".")[2]: one for one in history}
        question, answer = by_type["human_input_requested"], by_type["human_input_received"]
        resumed, result = by_type["run_resumed"], by_type["tool_result"]
        assert answer.causation_id == question.event_id
        assert resumed.causation_id == answer.event_id
        assert ledger.get(result.causation_id).event_type == "execution.tool_call"
        assert [one.event_type for one in history].count("execution.tool_call") == 1
        assert history[-1].event_type == "execution.run_completed"
        assert ledger.view("runs")[-1].status == "completed"
