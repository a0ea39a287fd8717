"""Chats that version 1 saved become runs under the id of the chat; keys of models are never imported."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import guess

FILES = ("direct_7.json", "order_1042.json")


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type == f"execution.{name}"]


@pytest.fixture
def chat() -> dict[str, Any]:
    said = [
        {"role": "user", "name": "ada", "content": "Hello"},
        {"role": "assistant", "content": "Hi", "name": "bob"},
    ]
    states = {
        "bob": {"name": "bob", "system_message": "You greet", "llm_config": {"model": "m", "api_key": "sk-1"}}
    }
    return {
        "chat_id": "c-1", "chat_type": "group", "timestamp": "2026-05-04T10:11:12", "messages": said,
        "agent_states": states, "context_variables": {"bob": {"n": 1}}, "is_terminated": False, "metadata": {},
    }  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_real_chat_gives_what_an_independent_reader_finds_in_it(
    take: Any, strict: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "chatsnapshot" / "v1_json" / name
    saved = json.loads(path.read_text(encoding="utf-8"))
    report, entries = take(path, redact=None)
    assert (report.kind, report.problems, report.correlations) == ("chatsnapshot-v1", (), (saved["chat_id"],))
    spoken = [one for one in saved["messages"] if one["role"] != "tool"]
    assert [
        (one.payload["role"], one.payload["name"], one.payload.get("content"))
        for one in of_type(entries, "message")
    ] == [(one["role"], one["name"], one["content"]) for one in spoken]
    calls, results = of_type(entries, "tool_call"), of_type(entries, "tool_result")
    told = [one for one in saved["messages"] if one["role"] == "tool"]
    assert [(one.payload["call_id"], one.payload["result"]) for one in results] == [
        (one["tool_call_id"], one["content"]) for one in told
    ]
    assert [one.causation_id for one in results] == [one.event_id for one in calls]
    (state,) = of_type(entries, "state_change")
    assert state.payload["to"]["context_variables"] == saved["context_variables"]
    assert state.timestamp.startswith(saved["timestamp"])
    (run,) = strict.view("runs", saved["chat_id"]).runs
    assert run.status == ("completed" if saved["is_terminated"] else "paused")
    assert not any(
        "sk-example" in str(entry.payload) or "llm_config" in str(entry.payload) for entry in entries
    )
    assert strict.view("graph", saved["chat_id"]).dangling == ()


def test_the_sqlite_file_of_the_same_chats_adds_nothing(take: Any, strict: Any, shared_data: Path) -> None:
    folder = shared_data / "chatsnapshot"
    with sqlite3.connect(f"file:{folder / 'v1_states.db'}?mode=ro&immutable=1", uri=True) as connection:
        rows = connection.execute("SELECT chat_id, data FROM chat_snapshots").fetchall()
    connection.close()
    assert {chat: json.loads(data) for chat, data in rows} == {
        name[:-5]: json.loads((folder / "v1_json" / name).read_text()) for name in FILES
    }
    first, _ = take(folder / "v1_states.db")
    assert (first.problems, set(first.correlations)) == ((), {"direct_7", "order_1042"})
    head = strict.head
    for name in FILES:
        assert take(folder / "v1_json" / name)[0].stored == 0
    assert strict.head == head == first.stored


def test_a_later_snapshot_of_a_chat_adds_what_is_new(take: Any, strict: Any, write: Any, chat: Any) -> None:
    first, _ = take(write(chat, "old.json"))
    later = copy.deepcopy(chat)
    later["messages"].append({"role": "user", "name": "ada", "content": "Bye"})
    later |= {"is_terminated": True, "termination_reason": "said bye", "timestamp": "2026-05-04T10:20:00"}
    again, _ = take(write(later, "new.json"))
    assert (first.stored, again.stored, again.problems) == (5, 3, ())
    (run,) = strict.view("runs", "c-1").runs
    assert (run.status, run.messages) == ("completed", 3)


def test_another_chat_with_the_same_id_is_another_run(take: Any, strict: Any, write: Any, chat: Any) -> None:
    take(write(chat, "a.json"))
    chat["messages"] = [{"role": "user", "name": "eve", "content": "Other"}]
    report, _ = take(write(chat, "b.json"))
    assert report.problems == ()
    assert [run.messages for run in strict.view("runs", "c-1").runs] == [2, 1]


def test_copies_of_each_agent_of_a_group_are_told_once(take: Any, write: Any, chat: Any) -> None:
    first, second = chat["messages"]
    third = {"role": "assistant", "name": "bob", "content": "Hi"}
    talk = [first, second, {**first, "content": "Again?"}, third]
    turned = [{**one, "role": "user"} for one in talk]
    chat["messages"] = [*talk, *turned, *turned]
    _, entries = take(write(chat, "blocks.json"))
    assert [one.payload["content"] for one in of_type(entries, "message")] == ["Hello", "Hi", "Again?", "Hi"]
    assert of_type(entries, "state_change")[0].payload["native"]["copies_left_out"] == 8
    chat |= {"chat_id": "c-2", "messages": [one for item in talk for one in (item, {**item, "role": "user"})]}
    _, entries = take(write(chat, "beside.json"))
    assert [one.payload["content"] for one in of_type(entries, "message")] == ["Hello", "Hi", "Again?", "Hi"]
    chat |= {"chat_id": "c-3", "chat_type": "direct", "messages": [first, first]}
    _, entries = take(write(chat, "direct.json"))
    assert len(of_type(entries, "message")) == 2


def test_a_torn_chat_is_a_partial_run_without_an_end(take: Any, strict: Any, write: Any, chat: Any) -> None:
    data = json.dumps(chat).encode()
    report, _ = take(write(data[: data.index(b'"Hi"')]))
    (problem,) = report.problems
    assert data[problem.offset :].startswith(b'{"role": "assistant"')
    (run,) = strict.view("runs", "c-1").runs
    assert (run.status, run.messages, run.run_id.endswith("-partial")) == ("unfinished", 1, True)


def test_rows_that_are_torn_or_none_are_named_and_the_others_taken(
    take: Any, write: Callable[..., Path], tmp_path: Path, chat: Any
) -> None:
    connection = sqlite3.connect(tmp_path / "states.db")
    connection.execute(
        "CREATE TABLE chat_snapshots (chat_id TEXT PRIMARY KEY, chat_type TEXT NOT NULL, timestamp TEXT NOT NULL,"
        " data TEXT NOT NULL, is_terminated BOOLEAN DEFAULT 0)"
    )
    whole = json.dumps(chat)
    for name, data in (
        ("c-0", whole[:-200]),
        ("c-1", whole),
        ("c-2", b"\xff"),
        ("c-3", "[1]"),
        ("c-4", '{"messages": 5}'),
    ):
        connection.execute(
            "INSERT INTO chat_snapshots VALUES (?, 'group', '2026-05-04T10:11:12', ?, 0)", (name, data)
        )
    connection.commit()
    connection.close()
    report, _ = take(tmp_path / "states.db")
    told = sorted(one.reason for one in report.problems)
    assert [one.partition(":")[0] for one in told] == [
        *("data of chat 'c-0'", "data of chat 'c-2'", "data of chat 'c-3'"),
        "there is no 'chat_id' with a list of 'messages'",
    ]
    assert report.problem_count == 4
    data = (tmp_path / "states.db").read_bytes()
    assert all(data[one.offset :].startswith(b"c-") for one in report.problems)
    assert set(report.correlations) == {"c-1"}


def test_hostile_values_are_kept_as_data(take: Any, write: Any, chat: Any) -> None:
    chat["messages"] += ["no object", {"role": 5, "content": "\ud800", "name": {"a": 1}}, {"tool_calls": [5]}]
    chat |= {"agent_states": {"x": 5, "y": {"name": [1]}}, "context_variables": [1], "timestamp": "yesterday"}
    chat |= {"is_terminated": "perhaps", "termination_reason": ["x"], "metadata": {"$type": "decimal"}}
    data = json.dumps(chat).encode()
    report, entries = take(write(data))
    assert [one.reason for one in report.problems] == ["message 2 is no object"]
    assert of_type(entries, "state_change")[0].payload["to"]["metadata"] == {"$$type": "decimal"}
    assert guess(write(data), "chatsnapshot-v1").kind == "chatsnapshot-v1"
