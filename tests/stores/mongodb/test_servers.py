"""Servers that cannot keep the promises are refused with the reason, judged by what real servers answer to ``hello``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import Corrupt, FormatTooNew, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.stores.mongodb.connecting import is_guarded, server_fault
from chatsnapshot.stores.mongodb.schema import missing_indexes
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.servers.mongodb import MongodbServer

# What mongod answers to hello, in the parts that are looked at (MongoDB's manual, "hello").
STANDALONE = {"isWritablePrimary": True, "maxWireVersion": 21, "readOnly": False, "ok": 1.0}
PRIMARY = {**STANDALONE, "setName": "rs0", "hosts": ["a:27017"], "primary": "a:27017"}
MONGOS = {"isWritablePrimary": True, "msg": "isdbgrid", "maxWireVersion": 21, "ok": 1.0}
FOUR_TWO = {**PRIMARY, "maxWireVersion": 8}


@pytest.mark.parametrize(
    "hello", [PRIMARY, MONGOS, {**PRIMARY, "isWritablePrimary": False, "secondary": True}]
)
def test_a_replica_set_and_a_sharded_cluster_are_taken(hello: dict[str, Any]) -> None:
    assert server_fault(hello) == ""


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (STANDALONE, "standalone server.*--replSet rs0.*rs.initiate"),
        (FOUR_TWO, "older than MongoDB 4.4"),
        ({**PRIMARY, "readOnly": True}, "started read-only"),
        ({}, "standalone"),
    ],
)
def test_other_servers_are_refused_with_the_reason_and_the_next_step(
    hello: dict[str, Any], says: str
) -> None:
    import re

    assert re.search(says, server_fault(hello))


def test_a_standalone_server_is_refused_before_anything_is_written(server: MongodbServer) -> None:
    import pymongo

    with MongodbServer(standalone=True) as alone:
        with pytest.raises(StoreUnavailable, match=r"standalone server, .*run rs\.initiate\(\) once"):
            chatsnapshot.open(alone.url)
        with pymongo.MongoClient(alone.url) as client:
            assert client.get_default_database().list_collection_names() == []


SECRET = "hush-hush%2F%40"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            f"mongodb://ann:{SECRET}@127.0.0.1:1/x?serverSelectionTimeoutMS=200",
            "check that it runs, host, port",
        ),
        (f"mongodb://ann:{SECRET}@127.0.0.1:1/x?colour=red", "(?i)unknown option"),
        (f"mongodb://ann:{SECRET}@127.0.0.1:1/x?serverSelectionTimeoutMS=soon", "correct the URL"),
        (f"mongodb://ann:{SECRET}@127.0.0.1:1/x?w=1&W=2", "the option w is twice.*give it once"),
        ("mongodb://ann:hush-hush%zz@127.0.0.1:1/x", "correct the URL"),
        (f"mongodb://ann:{SECRET}@127.0.0.1:x/x", "cannot be read|correct the URL"),
    ],
)
def test_a_url_that_does_not_work_is_told_in_one_sentence_without_its_password(url: str, says: str) -> None:
    with pytest.raises(LedgerError, match=says) as caught:
        chatsnapshot.open(url)
    said: list[str] = []
    error: BaseException | None = caught.value
    assert error is not None
    said.append(str(error))
    assert "hush" not in said[0]
    assert "\n" not in said[0]


def test_a_password_is_in_no_message_of_ours_nor_in_repr(server: MongodbServer) -> None:
    from chatsnapshot.stores.mongodb.errors import scrubbed

    target = "mongodb://ann:hush%2Fhush@h/x"
    assert scrubbed("tried hush%2Fhush and hush/hush\n twice", target) == "tried *** and *** twice"


def test_a_ledger_that_is_not_there_is_not_found_and_nothing_is_made(url: str, database: Any) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotFound, match="no ledger at mongodb://"):
            chatsnapshot.open(url, **options)
    assert database.list_collection_names() == []


def test_collections_of_somebody_else_are_left_alone(url: str, database: Any) -> None:
    database.cs_entry.insert_one({"mine": True})
    with pytest.raises(Corrupt, match=r"a collection cs_entry that is not of ChatSnapshot.*another database"):
        chatsnapshot.open(url)
    assert database.list_collection_names() == ["cs_entry"]


def test_a_newer_format_is_refused(url: str, database: Any) -> None:
    chatsnapshot.open(url).close()
    database.cs_ledger.update_one({"_id": "@format"}, {"$set": {"format": 2}})
    for options in ({}, {"read_only": True}):
        with pytest.raises(FormatTooNew, match=r"has ledger format 2.*upgrade chatsnapshot"):
            chatsnapshot.open(url, **options)


def test_a_making_that_was_cut_short_is_completed(url: str, database: Any) -> None:
    database.cs_ledger.insert_one(
        {"_id": "@format", "application": "chatsnapshot", "format": 1, "ready": False}
    )
    database.create_collection("cs_entry")
    with chatsnapshot.open(url) as ledger:
        ledger.record("test.made", {}, correlation_id="run-1")
        assert ledger.verify().ok
        assert missing_indexes(store_of(ledger)._collections()) == []  # type: ignore[attr-defined]


def test_verify_names_an_index_that_is_missing(url: str, database: Any) -> None:
    with chatsnapshot.open(url) as ledger:
        ledger.record("test.made", {}, correlation_id="run-1")
        database.cs_entry.drop_index("correlation")
        report = ledger.verify()
    assert not report.ok
    assert "cs_entry.correlation" in str(report.problems)
    database.cs_ledger.update_one({"_id": "@format"}, {"$set": {"ready": False}})
    with chatsnapshot.open(url) as ledger:
        assert ledger.verify().ok


WRITER = [
    {"resource": {"db": "agents", "collection": "cs_entry"}, "actions": ["find", "insert"]},
    {"resource": {"db": "agents", "collection": "cs_head"}, "actions": ["find", "insert", "update"]},
]


def status(*privileges: Any, users: Any = ({"user": "ann", "db": "admin"},)) -> dict[str, Any]:
    return {"authInfo": {"authenticatedUsers": list(users), "authenticatedUserPrivileges": list(privileges)}}


@pytest.mark.parametrize(
    ("told", "guarded"),
    [
        (status(*WRITER), True),
        (status(*WRITER, users=()), False),
        (status(), False),
        (status(*WRITER, {"resource": {"db": "agents", "collection": ""}, "actions": ["update"]}), False),
        (status(*WRITER, {"resource": {"db": "", "collection": ""}, "actions": ["remove"]}), False),
        (status(*WRITER, {"resource": {"anyResource": True}, "actions": ["dropCollection"]}), False),
        (status(*WRITER, {"resource": {"db": "other", "collection": ""}, "actions": ["update"]}), True),
        (status(*WRITER, {"resource": {"cluster": True}, "actions": ["inprog"]}), True),
        ({}, False),
    ],
)
def test_a_guard_is_claimed_only_where_the_server_says_that_the_user_may_not_change_entries(
    told: dict[str, Any], guarded: bool
) -> None:
    assert is_guarded(told, "agents", "cs_entry") is guarded


@pytest.fixture
def guarded_server() -> Any:
    """A server that asks for users: root, one who may only read, and one without any role."""
    import pymongo

    server = MongodbServer()
    if not server.own:
        pytest.skip("the server that the environment names has users of its own")
    with server:
        with pymongo.MongoClient(server.url) as client:
            client.admin.command("createUser", "root", pwd="r00t", roles=["root"])
            client.admin.command("createUser", "reader", pwd="look", roles=[{"role": "read", "db": "agents"}])
            client.admin.command("createUser", "nobody", pwd="none", roles=[])
        server.kill()  # what it acknowledged survives that, and an end in order takes long
        server.auth = True
        server.start()
        yield server


def test_wrong_users_and_missing_privileges_are_told_apart(guarded_server: MongodbServer) -> None:
    def at(user: str) -> str:
        return guarded_server.database("agents", user)

    for user, says in {
        "": r"asks who you are.*mongodb://user:password@host",
        "root:wrong-word": r"refuses the user.*check name, password and authSource",
        "nobody:none": r"may not do this|may not read",
    }.items():
        with pytest.raises(LedgerError, match=says) as caught:
            chatsnapshot.open(at(user))
        assert "wrong-word" not in str(caught.value)
    with chatsnapshot.open(at("root:r00t")) as ledger:
        ledger.record("test.made", {"n": 1}, correlation_id="run-1")
        assert not store_of(ledger).traits.guarded
    with chatsnapshot.open(at("reader:look"), read_only=True) as ledger:
        assert [entry.payload for entry in ledger.read()] == [{"n": 1}]
    with (
        chatsnapshot.open(at("reader:look")) as ledger,
        pytest.raises(LedgerError, match=r"may not do this.*docs/mongodb\.md"),
    ):
        ledger.record("test.made", {"n": 2}, correlation_id="run-1")


@pytest.mark.parametrize(
    "url", ["mongodb://127.0.0.1:1/x", "postgresql://127.0.0.1:1/x", "nats://127.0.0.1:1"]
)
def test_backup_and_fsck_say_that_a_ledger_on_a_server_has_no_files(url: str, tmp_path: Path) -> None:
    from chatsnapshot.backup import backup
    from chatsnapshot.fsck import fsck

    with pytest.raises(LedgerError, match="is on a server and has no files"):
        backup(url, tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="is on a server and has no files"):
        fsck(url)
