"""A forked child leaves its parent's connections alone: no farewell is sent on a socket that both have."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def _in_child(work: Any) -> int:
    """Run in a forked child that ends as an interpreter does; gives its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            gc.collect()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _sessions(tools: Any, database: str) -> list[Any]:
    return tools.run(
        database,
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'chatsnapshot' AND datname = current_database() "
        "ORDER BY pid",
    )


def test_the_connections_of_the_parent_survive_a_child_that_uses_closes_and_collects(
    ledger: Ledger, database: str, tools: Any
) -> None:
    ledger.record(**tools.event())
    store: Any = ledger._store
    store.watch(lambda: None)
    before = _sessions(tools, database)

    def work() -> None:
        assert ledger.record(**tools.event(1)).position == 2
        assert len(list(ledger.read())) == 2
        ledger.close()

    assert _in_child(work) == 0
    assert set(before) <= set(_sessions(tools, database))
    assert ledger.record(**tools.event(2)).position == 3
    assert set(before) <= set(_sessions(tools, database))


def test_a_child_that_does_nothing_takes_nothing_away(ledger: Ledger, database: str, tools: Any) -> None:
    ledger.record(**tools.event())
    before = _sessions(tools, database)
    assert _in_child(lambda: None) == 0
    assert _sessions(tools, database) == before
    assert ledger.head == 1


def test_a_child_follows_with_a_listener_of_its_own(ledger: Ledger, database: str, tools: Any) -> None:
    ledger.record(**tools.event())
    store: Any = ledger._store
    store.watch(lambda: None)

    def work() -> None:
        with chatsnapshot.open(database) as other:
            other.record(**tools.event(1))
        with ledger.tail(after=0, timeout=20) as tail:
            assert [next(steps).position for steps in [iter(tail)] for _ in range(2)] == [1, 2]
        ledger.close()

    assert _in_child(work) == 0
    assert ledger.head == 2
