"""Saved chats in their ledger: appended, never stored twice, listed, deleted, erased; in every place there is."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import (
    AG2ChatPersistence,
    Corrupt,
    InvalidEvent,
    LedgerClosed,
    NotFound,
    StorageBackend,
    StoreUnavailable,
)
from chatsnapshot.integrity import commit, header_bytes, leaf_hash

FILES = {StorageBackend.JSON: "chats.jsonl", StorageBackend.SQLITE: "chats.db"}


@pytest.fixture
def mongodb_url(servers: Callable[[str], Any], require: Callable[[object, str], None]) -> str:
    """A database of its own on a real server."""
    server = servers("mongodb")
    require(not isinstance(server, Exception), f"a MongoDB server ({server})")
    server.start()  # another test may have stopped it
    url: str = server.database(f"chats-{uuid.uuid4().hex[:8]}")
    return url


@pytest.fixture(params=list(StorageBackend), ids=lambda one: one.value)
def persistence(
    request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AG2ChatPersistence]:
    monkeypatch.chdir(tmp_path)
    config = None
    if request.param is StorageBackend.MONGODB:
        config = {"url": request.getfixturevalue("mongodb_url")}
    with AG2ChatPersistence(storage_backend=request.param, storage_config=config) as opened:
        yield opened


def talk(count: int) -> list[dict[str, Any]]:
    """A talk of so many messages, each of its own text."""
    return [
        {"role": ("user", "assistant")[index % 2], "content": f"message {index} " + "x" * 100}
        for index in range(count)
    ]


def test_a_talk_comes_back_as_it_was_saved(persistence: AG2ChatPersistence) -> None:
    entry = persistence.save_conversation("case-7", messages=talk(3), metadata={"customer": "Ann"})
    loaded = persistence.load_conversation("case-7")
    assert loaded is not None
    assert (loaded.messages, loaded.metadata, loaded.position) == (
        talk(3),
        {"customer": "Ann"},
        entry.position,
    )


@pytest.mark.parametrize("backend", FILES, ids=lambda one: one.value)
def test_the_default_place_is_a_folder_of_snapshots(
    backend: StorageBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with AG2ChatPersistence(storage_backend=backend) as persistence:
        persistence.save_conversation("case-7", messages=talk(1))
    assert (tmp_path / "chat_snapshots" / FILES[backend]).is_file()


@pytest.mark.parametrize("backend", FILES, ids=lambda one: one.value)
def test_looking_for_chats_makes_nothing_on_disk(
    backend: StorageBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with AG2ChatPersistence(backend) as persistence:
        assert persistence.list_conversations() == []
        assert persistence.load_conversation("case-7") is None
        assert persistence.delete_conversation("case-7") is False
        with pytest.raises(NotFound, match="no saved chat 'case-7'"):
            persistence.restore_conversation("case-7", [])
    assert list(tmp_path.iterdir()) == []


def test_a_path_a_url_and_an_open_ledger_are_places_too(tmp_path: Path) -> None:
    path = tmp_path / "50% of it" / "a b.json"
    with AG2ChatPersistence("json", {"path": path}) as persistence:
        persistence.save_conversation("one", messages=talk(1))
    assert json.loads(path.read_text().splitlines()[-1])
    with AG2ChatPersistence("sqlite", {"url": str(tmp_path / "x.db?ledger=chats")}) as persistence:
        persistence.save_conversation("two", messages=talk(1))
    with chatsnapshot.open(tmp_path / "x.db?ledger=chats") as ledger:
        with AG2ChatPersistence(storage_config={"ledger": ledger}) as persistence:
            assert [one.chat_id for one in persistence.list_conversations()] == ["two"]
        assert not ledger.closed
        assert ledger.verify().ok


@pytest.mark.parametrize(
    ("backend", "config", "says"),
    [
        ("json", {"file": "x"}, "not 'file'"),
        ("json", {"path": "x", "url": "y"}, "one of"),
        ("json", {"ledger": "x"}, "an open Ledger"),
        ("memory", {"path": "x"}, "no path"),
        ("mongodb", {"path": "x"}, "no path"),
        ("redis", None, "storage_backend is one of"),
    ],
)
def test_a_wrong_place_is_refused_before_anything_is_made(backend: Any, config: Any, says: str) -> None:
    with pytest.raises(InvalidEvent, match=says):
        AG2ChatPersistence(backend, config)


def test_mongodb_is_looked_for_where_it_mostly_is() -> None:
    with AG2ChatPersistence(storage_backend=StorageBackend.MONGODB) as persistence:
        assert persistence.url == "mongodb://localhost:27017/chatsnapshot?ledger=chats"


def test_a_mongodb_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    url = "mongodb://ann:hush-hush@127.0.0.1:1/chats?serverSelectionTimeoutMS=200"
    with AG2ChatPersistence("mongodb", {"url": url}) as persistence:
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as caught:
            persistence.save_conversation("case-7", messages=talk(1))
        said = f"{caught.value} {persistence.url} {persistence!r}"
    assert "hush" not in said


def test_chats_in_mongodb_are_there_for_the_next_process_and_for_every_tool(mongodb_url: str) -> None:
    with AG2ChatPersistence("mongodb", {"url": mongodb_url}) as persistence:
        persistence.save_conversation("case-7", messages=talk(2))
    with AG2ChatPersistence("mongodb", {"url": mongodb_url}) as persistence:
        persistence.save_conversation("case-7", messages=talk(4))
        loaded = persistence.load_conversation("case-7")
        assert loaded is not None and loaded.messages == talk(4)
    with chatsnapshot.open(mongodb_url, read_only=True) as ledger:
        assert [entry.event_type for entry in ledger.read()] == ["ag2.chat_saved"] * 2
        assert ledger.verify().ok


def test_a_closed_one_says_so(tmp_path: Path) -> None:
    persistence = AG2ChatPersistence("json", {"path": tmp_path / "c.jsonl"})
    persistence.close()
    persistence.close()
    with pytest.raises(LedgerClosed, match="was closed"):
        persistence.list_conversations()


def test_every_save_is_an_event_and_older_ones_load_by_position(persistence: AG2ChatPersistence) -> None:
    places = [
        persistence.save_conversation("case-7", messages=talk(count)).position for count in (1, 2, 2, 5)
    ]
    assert places == [1, 2, 3, 4]
    assert [len(_loaded(persistence, place).messages) for place in places] == [1, 2, 2, 5]
    assert persistence.load_conversation("case-7", 0) is None


def test_a_talk_that_was_cut_or_changed_is_saved_as_it_is_now(persistence: AG2ChatPersistence) -> None:
    edited = [*talk(2), {"role": "user", "content": "another"}, *talk(6)[4:]]
    for messages in (talk(6), talk(2), edited, list(reversed(talk(4))), []):
        place = persistence.save_conversation("case-7", messages=messages).position
        assert _loaded(persistence, place).messages == messages


def test_metadata_stays_until_other_metadata_is_given(persistence: AG2ChatPersistence) -> None:
    for metadata in ({"a": 1}, None, {"a": 2}, {}):
        persistence.save_conversation("case-7", messages=talk(1), metadata=metadata)
    assert [_loaded(persistence, place).metadata for place in (1, 2, 3, 4)] == [
        {"a": 1},
        {"a": 1},
        {"a": 2},
        {},
    ]


def test_a_hundred_saves_of_a_growing_talk_grow_linearly(tmp_path: Path) -> None:
    sizes = []
    with chatsnapshot.open(tmp_path / "c.db") as ledger:
        with AG2ChatPersistence(storage_config={"ledger": ledger}) as persistence:
            for count in range(1, 101):
                entry = persistence.save_conversation("case-7", messages=talk(2 * count), metadata={"a": 1})
                sizes.append(entry.payload_bytes)
            assert _loaded(persistence, None).messages == talk(200)
        assert max(sizes[1:]) < 1.2 * min(
            sizes[1:]
        )  # each save holds its two new messages and nothing of the others
        assert sum(sizes) < 3 * len(json.dumps(talk(200)))
        texts = b"".join(entry.payload_json or b"" for entry in ledger.read())
        assert texts.count(b"message 7 ") == 1


def test_a_process_that_knows_nothing_yet_stores_only_what_is_new(tmp_path: Path) -> None:
    sizes = []
    for count in (50, 52):
        with AG2ChatPersistence("sqlite", {"path": tmp_path / "c.db"}) as persistence:
            sizes.append(persistence.save_conversation("case-7", messages=talk(count)).payload_bytes)
    assert sizes[1] < sizes[0] / 10


def test_two_that_save_one_chat_at_once_lose_nothing(tmp_path: Path) -> None:
    config = {"path": tmp_path / "c.db"}
    with AG2ChatPersistence("sqlite", config) as one, AG2ChatPersistence("sqlite", config) as other:
        for count in range(1, 6):
            for persistence in (one, other):
                persistence.save_conversation("case-7", messages=talk(count))
        assert [len(_loaded(one, place).messages) for place in range(1, 11)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_other_events_of_the_same_correlation_are_no_obstacle() -> None:
    with chatsnapshot.open("memory:") as ledger:
        persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
        for count in (1, 2, 3):
            ledger.record(
                "execution.message", {"role": "user", "content": "recorded"}, correlation_id="case-7"
            )
            persistence.save_conversation("case-7", messages=talk(count))
        assert _loaded(persistence, None).messages == talk(3)
        assert _loaded(persistence, None).saves == 3


def test_chats_are_listed_the_last_one_first(persistence: AG2ChatPersistence) -> None:
    persistence.save_conversation("one", messages=talk(1), metadata={"a": 1})
    persistence.save_conversation("two", messages=talk(2))
    persistence.save_conversation("one", messages=talk(3))
    assert [
        (one.chat_id, one.messages, one.saves, one.metadata) for one in persistence.list_conversations()
    ] == [
        ("one", 3, 2, {"a": 1}),
        ("two", 2, 1, {}),
    ]


def test_deleting_is_a_recorded_retraction(persistence: AG2ChatPersistence) -> None:
    place = persistence.save_conversation("case-7", messages=talk(2)).position
    assert persistence.delete_conversation("case-7", reason="the customer asked") is True
    assert persistence.delete_conversation("case-7") is False
    assert persistence.list_conversations() == []
    assert persistence.load_conversation("case-7") is None
    assert persistence.load_conversation("case-7", place) is None
    ledger = persistence._place.readable()
    assert ledger is not None
    assert [entry.event_type for entry in ledger.read()] == ["ag2.chat_saved", "ag2.chat_deleted"]
    assert (
        ledger.get(next(iter(ledger.read(reverse=True))).event_id).payload["reason"] == "the customer asked"
    )


def test_a_deleted_chat_can_begin_anew(persistence: AG2ChatPersistence) -> None:
    persistence.save_conversation("case-7", messages=talk(2), metadata={"a": 1})
    persistence.delete_conversation("case-7", erase=True)
    persistence.save_conversation("case-7", messages=talk(3))
    loaded = _loaded(persistence, None)
    assert (loaded.messages, loaded.saves, loaded.metadata) == (talk(3), 1, {})
    assert [(one.saves, one.messages) for one in persistence.list_conversations()] == [(1, 3)]


@pytest.mark.parametrize("backend", FILES, ids=lambda one: one.value)
def test_erasing_takes_the_words_out_of_the_files(backend: StorageBackend, tmp_path: Path) -> None:
    path = tmp_path / FILES[backend]
    with AG2ChatPersistence(backend, {"path": path}) as persistence:
        persistence.save_conversation("case-7", messages=[{"role": "user", "content": "a very private word"}])
        persistence.save_conversation("case-8", messages=talk(1))
        persistence.delete_conversation("case-7")
        assert persistence.delete_conversation("case-7", erase=True) is True
        assert [one.chat_id for one in persistence.list_conversations()] == ["case-8"]
    assert b"a very private word" not in b"".join(
        file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )
    with chatsnapshot.open(path) as ledger:
        assert ledger.verify().ok


def test_a_save_whose_forerunner_was_erased_says_so_and_the_next_one_is_whole() -> None:
    with chatsnapshot.open("memory:") as ledger:
        persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
        for count in (1, 2):
            persistence.save_conversation("case-7", messages=talk(count))
        ledger.erase(1, reason="test")
        fresh = AG2ChatPersistence(storage_config={"ledger": ledger})
        with pytest.raises(NotFound, match="position 1 was erased"):
            fresh.load_conversation("case-7")
        fresh.save_conversation("case-7", messages=talk(3))
        assert _loaded(fresh, None).messages == talk(3)


def test_an_entry_that_was_changed_is_refused_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with AG2ChatPersistence("sqlite", {"path": path}) as persistence:
        for count in (1, 2, 3):
            persistence.save_conversation("case-7", messages=talk(count))
    _tamper(path, 2, lambda payload: payload.replace(b"message 1", b"massage 1"))
    with AG2ChatPersistence("sqlite", {"path": path}) as persistence:
        for look in (persistence.load_conversation, persistence.restore_conversation):
            with pytest.raises(Corrupt, match="position 2") as caught:
                look("case-7")
            assert caught.value.position == 2
        assert len(_loaded(persistence, 1).messages) == 1


def test_an_entry_that_was_rewritten_with_its_hash_is_found_by_the_save_after_it(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with AG2ChatPersistence("sqlite", {"path": path}) as persistence:
        for count in (1, 2, 3):
            persistence.save_conversation("case-7", messages=talk(count))
    _tamper(path, 2, lambda payload: payload.replace(b"message 1", b"massage 1"), rehash=True)
    with AG2ChatPersistence("sqlite", {"path": path}) as persistence:
        with pytest.raises(Corrupt, match="position 2") as caught:
            persistence.restore_conversation("case-7")
        assert caught.value.position == 2
        _loaded(persistence, 2)  # alone it looks sound: the tree of the whole ledger knows better
    with chatsnapshot.open(path) as ledger:
        assert not ledger.verify().ok


def test_a_save_that_comes_between_is_stood_on(tmp_path: Path) -> None:
    """Another process saves while this one works out what is new."""
    with chatsnapshot.open(tmp_path / "c.db") as ledger:
        other = AG2ChatPersistence(storage_config={"ledger": ledger})
        left = [3, 2, 1]

        def in_between(event: dict[str, Any]) -> None:
            if left:
                other.save_conversation("case-7", messages=talk(left.pop()))

        persistence = AG2ChatPersistence(storage_config={"ledger": ledger}, redact=in_between)
        entry = persistence.save_conversation("case-7", messages=talk(5))
        assert (entry.sequence, left) == (4, [])
        assert [len(_loaded(other, place).messages) for place in (1, 2, 3, 4)] == [1, 2, 3, 5]
        before = list(ledger.read())[2]
        assert entry.payload["base"]["event_id"] == before.event_id == entry.causation_id


def test_values_that_json_cannot_hold_come_back(persistence: AG2ChatPersistence) -> None:
    picture = bytes(range(256)) * 400
    message = {"role": "user", "content": [{"type": "image", "data": picture}], "$odd": {"$type": "mine"}}
    for _ in range(2):
        persistence.save_conversation("case-7", messages=[message])
    assert _loaded(persistence, None).messages == [message]


def test_a_talk_above_the_limit_of_a_payload_comes_back(persistence: AG2ChatPersistence) -> None:
    messages = [{"role": "user", "content": f"{index} " + "y" * 100_000} for index in range(100)]
    persistence.save_conversation("case-7", messages=messages)
    persistence.save_conversation("case-7", messages=[*messages, {"role": "user", "content": "more"}])
    assert _loaded(persistence, None).messages == [*messages, {"role": "user", "content": "more"}]


def test_secrets_in_messages_are_masked_when_that_is_asked_for(tmp_path: Path) -> None:
    key = "sk-proj-" + "aB3dE5gH" * 5
    for redact, found in (("secrets", False), (None, True)):
        path = tmp_path / f"{found}.jsonl"
        with AG2ChatPersistence("json", {"path": path}, redact=redact) as persistence:
            messages = [{"role": "user", "content": f"my key is {key}"}]
            for _ in range(2):
                messages.append({"role": "user", "content": "and?"})
                persistence.save_conversation("case-7", messages=messages)
            assert len(_loaded(persistence, None).messages) == 3
        assert (key.encode() in path.read_bytes()) is found
        assert path.read_bytes().count(b"my key is") == 1  # what is masked is recognised at the next save


def test_the_redaction_of_the_ledger_is_kept_and_costs_no_second_copy() -> None:
    key = "sk-proj-" + "aB3dE5gH" * 5
    with chatsnapshot.open("memory:", redact="secrets") as ledger:
        messages = [{"role": "user", "content": f"my key is {key}"}]
        for _ in range(2):
            persistence = AG2ChatPersistence(storage_config={"ledger": ledger})  # one that knows nothing yet
            messages.append({"role": "user", "content": "and?"})
            persistence.save_conversation("case-7", messages=messages)
        stored = b"".join(entry.payload_json or b"" for entry in ledger.read())
        assert (key.encode() in stored, stored.count(b"my key is")) == (False, 1)
        assert len(_loaded(persistence, None).messages) == 3


def test_a_hook_that_fails_is_told_and_the_next_save_is_whole() -> None:
    broken = [True]

    def hook(event: dict[str, Any]) -> None:
        if broken and event["payload"].get("format"):
            raise ValueError("the hook is broken")

    persistence = AG2ChatPersistence("memory", redact=hook)
    with pytest.raises(InvalidEvent, match="redaction failed"):
        persistence.save_conversation("case-7", messages=talk(1))
    broken.clear()
    persistence.save_conversation("case-7", messages=talk(2))
    assert _loaded(persistence, None).messages == talk(2)


def test_what_is_restored_is_a_copy(persistence: AG2ChatPersistence) -> None:
    persistence.save_conversation("case-7", messages=talk(1), metadata={"list": [1]})
    loaded = _loaded(persistence, None)
    loaded.messages[0]["content"] = "changed"
    loaded.metadata["list"].append(2)
    assert _loaded(persistence, None).messages == talk(1)
    assert _loaded(persistence, None).metadata == {"list": [1]}


def test_wrong_messages_are_refused(persistence: AG2ChatPersistence) -> None:
    for messages in ("text", 7, [7], {"role": "user"}):
        with pytest.raises(InvalidEvent, match="message"):
            persistence.save_conversation("case-7", messages=messages)
    assert persistence.list_conversations() == []


def test_the_module_loads_without_ag2_and_agents_need_the_extra() -> None:
    code = """
import sys

class NoAG2:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ag2", "autogen"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoAG2())
from chatsnapshot import AG2ChatPersistence, MissingExtra, PersistentChatMixin, StorageBackend
assert not {"ag2", "autogen"} & set(sys.modules)
with AG2ChatPersistence(StorageBackend.MEMORY) as persistence:
    persistence.save_conversation("case-7", messages=[{"role": "user", "content": "hello"}])
    try:
        persistence.save_conversation("case-7", agents=[object()])
    except MissingExtra as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'chatsnapshot[ag2]'" in done.stdout


def _loaded(persistence: AG2ChatPersistence, position: int | None) -> Any:
    loaded = persistence.load_conversation("case-7", position)
    assert loaded is not None
    return loaded


def _tamper(path: Path, position: int, change: Any, rehash: bool = False) -> None:
    """Change a stored payload behind the ledger's back, keeping its length; ``rehash`` makes its hashes fit again."""
    db = sqlite3.connect(path)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f'DROP TRIGGER "{name}"')
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    (table,) = [name for name in tables if {"position", "payload"} <= _columns(db, name)]
    (payload,) = db.execute(f'SELECT payload FROM "{table}" WHERE position = ?', (position,)).fetchone()
    changed = change(bytes(payload) if isinstance(payload, bytes) else payload.encode())
    assert changed != payload
    db.execute(
        f'UPDATE "{table}" SET payload = ? WHERE position = ?',
        (changed if isinstance(payload, bytes) else changed.decode(), position),
    )
    if rehash:
        db.row_factory = sqlite3.Row
        row = db.execute(f'SELECT * FROM "{table}" WHERE position = ?', (position,)).fetchone()
        commitment = commit(row["salt"], row["payload"])
        header = header_bytes(
            str(uuid.UUID(bytes=row["event_id"])),
            row["event_type"],
            row["timestamp"],
            row["source"],
            row["correlation_id"],
            str(uuid.UUID(bytes=row["causation_id"])) if row["causation_id"] else None,
            row["schema_version"],
            row["attributes"],
            commitment,
            row["payload_bytes"],
            row["recorded_at"],
        )
        changes = (commitment, leaf_hash(header), position)
        db.execute(f'UPDATE "{table}" SET commitment = ?, leaf = ? WHERE position = ?', changes)
    db.commit()
    db.close()


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f'PRAGMA table_info("{table}")')}
