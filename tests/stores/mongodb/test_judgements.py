"""The doctor's judgements of what MongoDB servers tell, and our errors for theirs."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.doctor.mongodb import (
    judge_concern,
    judge_indexes,
    judge_members,
    judge_rights,
    judge_server,
    judge_transactions,
)
from chatsnapshot.errors import Corrupt, LedgerError, ReadOnly, StoreFull, StoreUnavailable
from chatsnapshot.stores.mongodb.errors import mapped

PRIMARY = {"isWritablePrimary": True, "maxWireVersion": 21, "setName": "rs0", "hosts": ["a:1", "b:1", "c:1"]}
MONGOS = {"isWritablePrimary": True, "msg": "isdbgrid", "maxWireVersion": 21}


def members(count: int, arbiters: int = 0, **more: Any) -> dict[str, Any]:
    return {"members": [{"arbiterOnly": False}] * count + [{"arbiterOnly": True}] * arbiters, **more}


@pytest.mark.parametrize(
    ("finding", "grade", "says"),
    [
        (judge_server(PRIMARY, "8.0.4"), "ok", "MongoDB 8.0.4, replica set rs0, answered by its primary"),
        (judge_server({**PRIMARY, "isWritablePrimary": False}, "8.0.4"), "ok", "a secondary"),
        (judge_server(MONGOS, None), "ok", "the server, a sharded cluster"),
        (judge_server({"maxWireVersion": 21}, "8.0.4"), "problem", "is a standalone server"),
        (judge_members(PRIMARY, members(3)), "ok", "3 members"),
        (judge_members(PRIMARY, None), "ok", "3 members"),
        (judge_members(PRIMARY, members(1)), "note", "a lost disk loses the ledger"),
        (judge_members(PRIMARY, members(2, arbiters=1)), "warning", "no majority is left"),
        (judge_members(MONGOS, None), "note", "sharded"),
        (judge_concern(members(3), None), "ok", "a majority has it in its journal"),
        (judge_concern(members(3), {"defaultWriteConcern": {"w": 1}}), "ok", "get w: 1"),
        (judge_concern(members(3, writeConcernMajorityJournalDefault=False), None), "problem", "power loss"),
        (judge_concern(None, None), "note", "is not told"),
        (judge_transactions(60), "note", "for up to 60 s"),
        (judge_transactions(10), "ok", "for 10 s"),
        (judge_transactions(None), "note", "not told"),
        (judge_indexes([]), "ok", "are there"),
        (judge_indexes(["cs_entry.position"]), "problem", "cs_entry.position"),
    ],
)
def test_the_doctor_judges(finding: Any, grade: str, says: str) -> None:
    assert (finding.grade, says in finding.found) == (grade, True), finding
    assert (grade == "ok") == (finding.to_do == "") or finding.check == "members"


@pytest.mark.parametrize(
    ("told", "grade", "says"),
    [
        ({"authenticatedUsers": []}, "warning", "no authentication"),
        (
            {
                "authenticatedUsers": [{"user": "ann"}],
                "authenticatedUserRoles": [{"role": "chatsnapshot_writer"}],
                "authenticatedUserPrivileges": [
                    {"resource": {"db": "agents", "collection": "cs_entry"}, "actions": ["insert"]}
                ],
            },
            "ok",
            "ann (chatsnapshot_writer) may add entries and neither change nor remove them",
        ),
        (
            {
                "authenticatedUsers": [{"user": "root"}],
                "authenticatedUserRoles": [{"role": "root"}],
                "authenticatedUserPrivileges": [{"resource": {"anyResource": True}, "actions": ["update"]}],
            },
            "note",
            "may change and remove entries",
        ),
        ({"authenticatedUsers": [{"user": "root"}]}, "note", "does not tell"),
    ],
)
def test_the_doctor_tells_what_a_user_may_do(told: dict[str, Any], grade: str, says: str) -> None:
    finding = judge_rights({"authInfo": told}, "agents")
    assert (finding.grade, says in finding.found) == (grade, True), finding


def failure(code: int, text: str) -> Exception:
    import pymongo.errors

    return pymongo.errors.OperationFailure(text, code, {"errmsg": text, "code": code})


@pytest.mark.parametrize(
    ("code", "text", "kind", "says"),
    [
        (13, "not authorized on x to execute command", ReadOnly, "docs/mongodb.md"),
        (13, "command find requires authentication", StoreUnavailable, "asks who you are"),
        (18, "Authentication failed.", StoreUnavailable, "name, password and authSource"),
        (14031, "available disk space is less than required minimum", StoreFull, "free some space"),
        (8000, "you are over your space quota, using 513 MB of 512 MB", StoreFull, "free some space"),
        (112, "WriteConflict", StoreUnavailable, "try again"),
        (257, "Total size of all transaction operations must be less", StoreUnavailable, "fewer events"),
        (10107, "not primary", StoreUnavailable, "name every member"),
        (59, "no such command", StoreUnavailable, "nothing was stored"),
    ],
)
def test_an_error_of_the_server_becomes_one_of_ours_with_the_next_step(
    code: int, text: str, kind: type[LedgerError], says: str
) -> None:
    error = mapped(failure(code, text), "mongodb://ann:***@h/x", "mongodb://ann:hush@h/x")
    assert type(error) is kind
    assert says in str(error)


def test_who_may_not_read_is_told_so() -> None:
    error = mapped(failure(13, "not authorized"), "mongodb://h/x", "mongodb://h/x", read_only=True)
    assert type(error) is StoreUnavailable
    assert "may not read it" in str(error)


def test_a_document_that_is_no_bson_is_damage() -> None:
    import bson.errors

    assert type(mapped(bson.errors.InvalidBSON("bad utf-8"), "mongodb://h/x", "mongodb://h/x")) is Corrupt
