"""The doctor's look at a MongoDB server: version, members, what commits wait for, who may change entries, time-outs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning
from chatsnapshot.doctor.machine import judge_clock, now
from chatsnapshot.errors import FormatTooNew, LedgerError, NotFound
from chatsnapshot.stores.mongodb.connecting import (
    Collections,
    collections_of,
    connect,
    is_guarded,
    server_fault,
)
from chatsnapshot.stores.mongodb.errors import MAPPED, mapped
from chatsnapshot.stores.mongodb.reading import head_of
from chatsnapshot.stores.mongodb.schema import FORMAT, find_ledger, missing_indexes
from chatsnapshot.stores.open import Location

__all__ = [
    "judge_concern",
    "judge_indexes",
    "judge_members",
    "judge_rights",
    "judge_server",
    "judge_transactions",
    "look_at_server",
]

LIFETIME_SECONDS = 10
"""A writer that was killed in the middle of a commit holds the ledger for the lifetime of a transaction."""

_ASK = "ask the doctor as a user with the role clusterMonitor"


def look_at_server(location: Location) -> list[Finding]:
    """Findings for one ledger, read-only. Raises :class:`NotFound`; a server that cannot be reached is a finding."""
    client = connect(location.target, location.url)
    try:
        return list(_look(collections_of(client), location))
    except NotFound:
        raise
    except FormatTooNew as error:
        return [problem("format", str(error), "use that version of chatsnapshot")]
    except LedgerError as error:
        return [problem("server", str(error), "see what the message says, then ask the doctor again")]
    except MAPPED as error:
        text = str(mapped(error, location.url, location.target, read_only=True))
        return [problem("server", text, "see what the message says, then ask the doctor again")]
    finally:
        client.close()


def _look(on: Collections, location: Location) -> Iterator[Finding]:
    admin = on.database.client.admin
    hello = admin.command("hello")
    version = _asked(lambda: str(admin.command("buildInfo")["version"]))
    yield judge_server(hello, version)
    if server_fault(hello):
        return
    identity = find_ledger(on, location.ledger, location.url)
    document = on.ledger.find_one({"_id": location.ledger}) or {}
    ledgers = on.ledger.count_documents({"ledger_id": {"$exists": True}})
    more = f", one of {ledgers} ledgers in the database" if ledgers > 1 else ""
    yield ok(
        "format",
        f"ledger format {document.get('format')} (this version reads up to {FORMAT}), id {identity}{more}",
    )
    config = _asked(lambda: admin.command("replSetGetConfig")["config"])
    yield judge_members(hello, config)
    yield judge_concern(config, _asked(lambda: admin.command("getDefaultRWConcern")))
    told = admin.command({"connectionStatus": 1, "showPrivileges": True})
    yield judge_rights(told, on.database.name)
    lifetime = _asked(
        lambda: admin.command({"getParameter": 1, "transactionLifetimeLimitSeconds": 1})[
            "transactionLifetimeLimitSeconds"
        ]
    )
    yield judge_transactions(lifetime)
    yield judge_indexes(missing_indexes(on))
    head = head_of(on.head.find_one({"_id": location.ledger}), location.url)
    yield judge_clock(head.recorded_at, str(document.get("created_at", "")), now())
    yield ok("size", f"{head.size:,} entries")


def _asked(ask: Callable[[], Any]) -> Any:
    """What a server tells those who may know; ``None`` where it does not."""
    try:
        return ask()
    except (*MAPPED, KeyError):
        return None


def judge_server(hello: Mapping[str, Any], version: str | None) -> Finding:
    """The answer to ``hello`` and the version of the server."""
    name = f"MongoDB {version}" if version else "the server"
    fault = server_fault(hello)
    if fault:
        return problem("server", f"{name} {fault}", "see docs/mongodb.md for how to start a replica set")
    if hello.get("msg") == "isdbgrid":
        return ok("server", f"{name}, a sharded cluster")
    state = "its primary" if hello.get("isWritablePrimary") else "a secondary"
    return ok("server", f"{name}, replica set {hello['setName']}, answered by {state}")


def judge_members(hello: Mapping[str, Any], config: Mapping[str, Any] | None) -> Finding:
    """How many members hold the data."""
    if hello.get("msg") == "isdbgrid":
        return note("members", "a sharded cluster; the members of its shards are not looked at")
    if config is not None:
        count = sum(not member.get("arbiterOnly") for member in config.get("members", ()))
    else:
        count = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
    if count == 1:
        return note(
            "members",
            "one member holds the data: what is acknowledged is on its disk, and a lost disk loses the ledger",
            "add two members, or keep backups",
        )
    if count == 2:
        return warning(
            "members",
            "two members hold the data: when one is away no majority is left, and nothing is recorded",
            "add a third member",
        )
    return ok("members", f"{count} members hold the data; a majority has each acknowledged event")


def judge_concern(config: Mapping[str, Any] | None, default: Mapping[str, Any] | None) -> Finding:
    """What commits wait for. Each commit of ours asks for ``{w: "majority", j: true}`` whatever the default is."""
    given = ((default or {}).get("defaultWriteConcern") or {}).get("w")
    others = f"; other programs that ask for nothing get w: {given!r}" if given is not None else ""
    if config is None:
        return note(
            "journal",
            f"commits ask for a majority and its journal{others}; whether members journal before they agree is not told",
            _ASK,
        )
    if config.get("writeConcernMajorityJournalDefault", True) is False:
        return problem(
            "journal",
            "writeConcernMajorityJournalDefault is false: members agree to a commit before it is on their disks, and a "
            "power loss of a majority can take back acknowledged events",
            "set writeConcernMajorityJournalDefault to true with rs.reconfig()",
        )
    return ok("journal", f"a commit is acknowledged when a majority has it in its journal{others}")


def judge_rights(status: Mapping[str, Any], database: str) -> Finding:
    """The answer to ``{connectionStatus: 1, showPrivileges: true}``."""
    told = status.get("authInfo", {})
    users = ", ".join(str(user.get("user")) for user in told.get("authenticatedUsers") or ())
    if not users:
        return warning(
            "role",
            "there is no authentication: whoever reaches the server can change and remove entries, and only verify "
            "finds it",
            "turn authentication on and give each writer the role of docs/mongodb.md",
        )
    roles = ", ".join(str(role.get("role")) for role in told.get("authenticatedUserRoles") or ()) or "no role"
    if is_guarded(status, database, "cs_entry"):
        return ok("role", f"{users} ({roles}) may add entries and neither change nor remove them")
    if not told.get("authenticatedUserPrivileges"):
        return note("role", f"{users} ({roles}); the server does not tell what that allows", "")
    return note(
        "role",
        f"{users} ({roles}) may change and remove entries; erasing payloads needs that, recording does not",
        "record as a user with the role chatsnapshot_writer of docs/mongodb.md",
    )


def judge_transactions(seconds: int | None) -> Finding:
    """``transactionLifetimeLimitSeconds``."""
    if seconds is None:
        return note("transactions", "how long a transaction may stay open is not told", _ASK)
    if seconds > LIFETIME_SECONDS:
        return note(
            "transactions",
            f"a writer that is killed in the middle of a commit holds the ledger for up to {seconds} s",
            f"set the server parameter transactionLifetimeLimitSeconds to {LIFETIME_SECONDS}",
        )
    return ok(
        "transactions", f"a writer that is killed in the middle of a commit holds the ledger for {seconds} s"
    )


def judge_indexes(missing: list[str]) -> Finding:
    """The indexes of the ledger format that are not there."""
    if missing:
        return problem(
            "index",
            f"missing or not as the format asks: {', '.join(missing)}",
            'in mongosh db.cs_ledger.updateOne({_id: "@format"}, {$set: {ready: false}}), then open the ledger for '
            "writing as a user that may make indexes",
        )
    return ok("index", "all indexes of the ledger format are there")
