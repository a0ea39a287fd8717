"""Who may do what: roles with one right each, and an owner whom triggers refuse what nobody may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import ReadOnly
from chatsnapshot.testing.attacks_postgresql import _STATEMENTS


@pytest.fixture
def six(ledger: Ledger, tools: Any) -> Ledger:
    for number in range(6):
        ledger.record(**tools.event(number))
    return ledger


def test_triggers_refuse_the_owner(six: Ledger, database: str, tools: Any) -> None:
    with tools.connect(database) as connection:
        for name, statement in _STATEMENTS.items():
            with pytest.raises(psycopg.errors.IntegrityConstraintViolation) as found:
                connection.execute(statement, {"name": "main"})
            assert "append only" in str(found.value), name
    assert six.verify().ok


@pytest.mark.parametrize("right", ["read", "write", "erase"])
def test_privileges_refuse_every_other_role(
    six: Ledger, role: Callable[[str], str], tools: Any, right: str
) -> None:
    with tools.connect(role(right)) as connection:
        for name, statement in _STATEMENTS.items():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement, {"name": "main"})
                pytest.fail(f"the role could {name}")
    assert six.verify().ok


def test_a_reader_reads_and_cannot_record(six: Ledger, role: Callable[[str], str], tools: Any) -> None:
    url = role("read")
    with chatsnapshot.open(url, read_only=True) as ledger:
        assert ledger.head == 6
        assert len(list(ledger.read())) == 6
        assert ledger.verify().ok
    with pytest.raises(ReadOnly, match=r"may not record.*chatsnapshot\.allow"):
        chatsnapshot.open(url)


def test_a_writer_records_keeps_views_makes_ledgers_and_cannot_erase(
    six: Ledger, role: Callable[[str], str], tools: Any
) -> None:
    url = role("write")
    with chatsnapshot.open(url) as ledger:
        assert ledger.record(**tools.event(7)).position == 7
        ledger.record(**tools.event(8, payload={"data": b"x" * 100_000}))
        assert ledger.view("transcript", "run-1")
        with pytest.raises(ReadOnly, match="may not do that"):
            ledger.erase(1, reason="asked to")
        assert ledger.head == 8
        assert ledger.verify().ok
    with chatsnapshot.open(tools.with_option(url, ledger="another")) as ledger:
        assert ledger.record(**tools.event()).position == 1
        assert [entry.position for entry in ledger.read()] == [1]


def test_the_right_to_erase_is_a_right_of_its_own(six: Ledger, role: Callable[[str], str]) -> None:
    with chatsnapshot.open(role("erase")) as ledger:
        ledger.erase(1, reason="asked to")
        assert next(iter(ledger.read())).erased
        assert ledger.verify().ok


def test_a_role_without_any_right_is_told_so(six: Ledger, role: Callable[[str], str]) -> None:
    for options in ({}, {"read_only": True}):
        with pytest.raises(ReadOnly, match="permission denied for schema chatsnapshot"):
            chatsnapshot.open(role(""), **options)


def test_a_role_can_own_the_schema_without_owning_the_database(
    database: str, role: Callable[[str], str], tools: Any
) -> None:
    url = role("")
    owner = url.partition("://")[2].partition(":")[0]
    tools.run(database, f"CREATE SCHEMA chatsnapshot AUTHORIZATION {owner}")
    with chatsnapshot.open(url) as ledger:
        ledger.record(**tools.event())
        ledger.erase(1, reason="asked to")
        assert ledger.verify().ok


def test_an_unknown_right_is_refused(ledger: Ledger, database: str, tools: Any) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="read, write or erase"):
        tools.run(database, "SELECT chatsnapshot.allow(current_user, 'all')")
