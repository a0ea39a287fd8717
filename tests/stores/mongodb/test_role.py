"""The roles of docs/mongodb.md allow all that the store does, and no change of an entry."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.stores.mongodb import connecting, parts
from chatsnapshot.stores.mongodb.connecting import is_guarded
from chatsnapshot.testing.bench import store_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mongodb.md"

Role = dict[str, set[str]]


def role(name: str) -> Role:
    """The privileges that the page gives to a role, by collection."""
    code = PAGE.read_text().split("db.createRole(")
    (mine,) = [part.partition("]})")[0] for part in code if f'role: "{name}"' in part.partition("roles:")[0]]
    found: Role = {}
    for collection, actions in re.findall(r'on\("(\w+)", ([^)]*)\)', mine):
        found[collection] = {"find", "listIndexes", *re.findall(r'"(\w+)"', actions)}
    return found


WRITER = role("chatsnapshot_writer")
ERASER = {name: WRITER[name] | role("chatsnapshot_eraser").get(name, set()) for name in WRITER}


def needed(command: dict[str, Any], name: str) -> set[tuple[str, str]]:
    """Collection and action of a command, as MongoDB's manual has them ("Privilege Actions")."""
    collection = str(command[name])
    if name == "aggregate":
        changes = "$changeStream" in command["pipeline"][0]
        return {(collection, "changeStream" if changes else "find")}
    if name == "findAndModify":
        return {(collection, "find"), (collection, "update")} | (
            {(collection, "insert")} if command.get("upsert") else set()
        )
    if name == "update":
        upserts = any(one.get("upsert") for one in command["updates"])
        return {(collection, "update")} | ({(collection, "insert")} if upserts else set())
    actions = {
        "find": "find",
        "count": "find",
        "insert": "insert",
        "delete": "remove",
        "listIndexes": "listIndexes",
    }
    if name in actions:
        return {(collection, actions[name])}
    if name in ("hello", "connectionStatus", "commitTransaction", "abortTransaction", "endSessions", "getMore",
                "killCursors"):  # fmt: skip
        return set()  # of every user, about what is his own
    return {(collection, name)}


class Listener:
    """Collects what is asked of the server."""

    def __init__(self) -> None:
        self.needed: set[tuple[str, str]] = set()

    def beyond(self, allowed: Role) -> set[tuple[str, str]]:
        return {(name, action) for name, action in self.needed if action not in allowed.get(name, set())}


@pytest.fixture
def listener(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Listens to the clients that are made from here on; the collections are there already."""
    from pymongo import monitoring

    class Commands(Listener, monitoring.CommandListener):
        def started(self, event: Any) -> None:
            self.needed |= needed(event.command, event.command_name)

        def succeeded(self, event: Any) -> None:
            pass

        def failed(self, event: Any) -> None:
            pass

    chatsnapshot.open(url).close()
    found = Commands()
    monkeypatch.setitem(connecting._DEFAULTS, "event_listeners", [found])
    return found


def test_the_role_of_a_writer_allows_everything_but_erasing(
    url: str, listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "AHEAD_BYTES", 100_000)
    rung = threading.Event()
    with chatsnapshot.open(url.replace("?", "?ledger=new&")) as other:
        other.record("test.made", {"n": 1}, correlation_id="run-1")
    with chatsnapshot.open(url) as ledger, chatsnapshot.open("memory:") as source:
        for number in range(300):
            source.record("test.made", {"n": number}, correlation_id="run-1")
        store_of(ledger).import_rows([entry._identity() for entry in source.read()], {})
        store_of(ledger).watch(rung.set)
        for size in (50_000, 300_000):
            entry = ledger.record("test.made", {"data": os.urandom(size)}, correlation_id="run-2")
        ledger.record("test.made", {"n": 0}, correlation_id="run-2", idempotency_key="k", causation_id=entry)
        ledger.record_many(
            [{"event_type": "test.made", "payload": {}, "correlation_id": f"run-{n}"} for n in range(20)]
        )
        list(ledger.read(correlation_id="run-1", reverse=True, limit=3))
        list(ledger.read(origin="agent", attributes={"actor": "ann"}, event_type="test.*"))
        list(ledger.replay("run-2", children=True))
        ledger.view("timeline", "run-2")
        assert entry.value()
        assert ledger.verify().ok
        assert rung.wait(20)
        assert listener.beyond(WRITER) == set()
        ledger.erase(entry.position, reason="asked to")
    assert {("cs_entry", "update"), ("cs_part", "remove")} <= listener.beyond(WRITER)
    assert listener.beyond(ERASER) == set()


def test_the_role_of_a_reader_is_enough_to_read(url: str, listener: Any) -> None:
    with chatsnapshot.open(url, read_only=True) as ledger:
        list(ledger.read())
        ledger.verify()
    assert {action for _, action in listener.needed} <= {"find", "listIndexes", "changeStream"}


def status(allowed: Role) -> dict[str, Any]:
    privileges = [
        {"resource": {"db": "agents", "collection": name}, "actions": sorted(actions)}
        for name, actions in allowed.items()
    ]
    return {"authInfo": {"authenticatedUsers": [{"user": "ann"}], "authenticatedUserPrivileges": privileges}}


def test_the_guard_is_claimed_with_the_role_of_a_writer_and_not_with_that_of_an_eraser() -> None:
    assert is_guarded(status(WRITER), "agents", "cs_entry")
    assert is_guarded(status(WRITER), "agents", "cs_tile")
    assert not is_guarded(status(ERASER), "agents", "cs_entry")
