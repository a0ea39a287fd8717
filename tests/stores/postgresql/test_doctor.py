"""The doctor on a PostgreSQL server: findings of real servers, and judgements of settings that are hard to provoke."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.doctor import diagnose
from chatsnapshot.doctor.postgresql import (
    judge_commits,
    judge_locks,
    judge_long,
    judge_replication,
    judge_rights,
    judge_version,
)
from chatsnapshot.errors import NotFound
from chatsnapshot.stores.postgresql.schema import LOCK_CLASS


def _found(url: str) -> dict[str, Any]:
    return {finding.check: finding for finding in diagnose(url).findings}


def test_a_sound_server_has_no_problem(ledger: Ledger, database: str, tools: Any) -> None:
    ledger.record(**tools.event())
    diagnosis = diagnose(database)
    assert diagnosis.healthy, diagnosis
    checks = {finding.check for finding in diagnosis.findings}
    assert checks >= {
        "server",
        "format",
        "sync",
        "replication",
        "rights",
        "transactions",
        "lock",
        "connections",
        "size",
    }
    assert "1 events" in _found(database)["size"].found


def test_what_is_not_there_is_not_found(database: str, ledger: Ledger, tools: Any) -> None:
    with pytest.raises(NotFound):
        diagnose(tools.with_option(database, ledger="other"))


def test_a_database_without_a_schema_has_no_ledger(database: str) -> None:
    with pytest.raises(NotFound):
        diagnose(database)


def test_a_server_that_cannot_be_reached_is_a_finding_without_secrets(parts: None) -> None:
    diagnosis = diagnose("postgresql://user:hunter2@127.0.0.1:1/nowhere")
    assert not diagnosis.healthy
    assert "hunter2" not in repr(diagnosis)


def test_rights_are_named(ledger: Ledger, database: str, role: Callable[[str], str]) -> None:
    assert "superuser" in _found(database)["rights"].found
    assert "reads and records;" in _found(role("write"))["rights"].found
    assert "reads, records and erases;" in _found(role("erase"))["rights"].found
    assert " reads;" in _found(role("read"))["rights"].found


def test_a_session_that_holds_the_lock_is_shown(ledger: Ledger, database: str, tools: Any) -> None:
    with tools.connect(database) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCK_CLASS,))
        assert f"process {other.info.backend_pid}" in _found(database)["lock"].found


def test_archived_payloads_are_a_note(database: str, tools: Any) -> None:
    chatsnapshot.open(database).close()
    tools.run(database, "UPDATE chatsnapshot.ledger SET payload_positions = 2")
    with chatsnapshot.open(database) as ledger:
        ledger.record_many([tools.event(number) for number in range(5)])
    assert "3 partitions" in _found(database)["size"].found
    tools.run(database, "ALTER TABLE chatsnapshot.payload DETACH PARTITION chatsnapshot.payload_1_3")
    assert "1 partitions of payloads are detached" in _found(database)["archive"].found


def test_judgements_of_settings() -> None:
    sound = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    assert [finding.grade for finding in judge_commits(sound)] == ["ok"]
    for setting, value, grade in (
        ("fsync", "off", "problem"),
        ("full_page_writes", "off", "problem"),
        ("data_checksums", "off", "note"),
        ("archive_mode", "off", "note"),
    ):
        assert grade in [finding.grade for finding in judge_commits({**sound, setting: value})]
    (weaker,) = judge_commits({**sound, "synchronous_commit": "off"})
    assert weaker.grade == "ok" and "each commit of ours sets it to on" in weaker.found
    assert judge_version(130008).grade == "problem"
    assert judge_version(140001).found == "PostgreSQL 14.1"
    assert judge_replication(True, "", 0).grade == "note"
    assert judge_replication(False, "one", 0).grade == "problem"
    assert judge_replication(False, "one", 1).grade == "ok"
    assert judge_replication(False, "", 2).grade == "note"
    assert judge_rights("app", False, False, True, False).grade == "ok"
    assert judge_rights("app", False, True, True, True).grade == "note"
    assert judge_long([]).grade == "ok"
    assert judge_long([(7, "ann", "idle in transaction", 4000)]).grade == "warning"
    assert judge_locks((7, "ann", "active", 1, 0)).grade == "ok"
    assert judge_locks((7, "ann", "idle in transaction", 60, 3)).grade == "problem"
