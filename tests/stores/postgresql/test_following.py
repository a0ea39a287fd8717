"""Tails of a PostgreSQL ledger: woken by NOTIFY, on a connection of their own that comes back by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.postgresql.store import PostgresqlStore
from chatsnapshot.testing.servers.postgresql import PostgresqlServer

LISTENING = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' "
    "AND datname = current_database() AND state = 'idle'"
)
SECONDS_MAX = 20.0


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tails that look at the head by themselves do so far too late for these tests."""
    monkeypatch.setattr(
        PostgresqlStore, "traits", msgspec.structs.replace(PostgresqlStore.traits, look_seconds=600)
    )
    monkeypatch.setattr("chatsnapshot.tail._SOON_SECONDS", 600.0)


def _until(ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := ask()):
        assert time.monotonic() < deadline, "it never came"
    return found


def _follow(ledger: Ledger, count: int) -> tuple[list[int], threading.Thread]:
    seen: list[int] = []

    def follow() -> None:
        with ledger.tail(after=0, timeout=SECONDS_MAX) as tail:
            for entry in tail:
                seen.append(entry.position)
                if len(seen) == count:
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    return seen, thread


def test_a_commit_of_another_handle_wakes_a_tail(
    only_hints: None, ledger: Ledger, database: str, tools: Any
) -> None:
    with chatsnapshot.open(database) as other:
        seen, thread = _follow(other, 30)
        _until(lambda: tools.run(database, LISTENING))
        for number in range(10):
            ledger.record(**tools.event(number))
            ledger.record_many([tools.event(number), tools.event(number)])
        thread.join(SECONDS_MAX)
        assert seen == list(range(1, 31))


def test_commits_of_another_ledger_wake_nobody(ledger: Ledger, database: str, tools: Any) -> None:
    store: Any = ledger._store
    woken: list[int] = []
    ready = threading.Event()

    def wake() -> None:
        woken.append(1)
        ready.set()

    store.watch(wake)
    assert ready.wait(SECONDS_MAX)  # once when it begins to listen
    with chatsnapshot.open(tools.with_option(database, ledger="other")) as other:
        other.record(**tools.event())
    ready.clear()
    with chatsnapshot.open(database) as same:
        same.record(**tools.event())
    assert ready.wait(SECONDS_MAX)
    assert len(woken) == 2


def test_listening_goes_on_after_the_connection_is_lost(
    only_hints: None, ledger: Ledger, database: str, tools: Any
) -> None:
    with chatsnapshot.open(database) as other:
        seen, thread = _follow(other, 3)
        for number in range(3):
            (pid,) = _until(lambda: tools.run(database, LISTENING))[0]
            ledger.record(**tools.event(number))
            _until(lambda number=number: len(seen) > number)
            tools.run(database, "SELECT pg_terminate_backend(%s, 5000)", pid)
        thread.join(SECONDS_MAX)
        assert seen == [1, 2, 3]


def test_a_listener_of_its_own_address_is_used(
    only_hints: None, ledger: Ledger, database: str, tools: Any
) -> None:
    own = tools.with_option(database, application_name="the-listener")
    with chatsnapshot.open(tools.with_option(database, listen_url=own)) as other:
        seen, thread = _follow(other, 1)
        listening = "SELECT pid FROM pg_stat_activity WHERE application_name = 'the-listener'"
        _until(lambda: tools.run(database, listening))
        _until(lambda: tools.run(database, LISTENING))
        ledger.record(**tools.event())
        thread.join(SECONDS_MAX)
        assert seen == [1]
    assert tools.run(database, listening) == [] or _until(lambda: not tools.run(database, listening))


def test_tails_look_by_themselves_where_nobody_can_listen(ledger: Ledger, database: str, tools: Any) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nowhere"
    with chatsnapshot.open(tools.with_option(database, listen_url=nowhere)) as other:
        seen, thread = _follow(other, 2)
        ledger.record(**tools.event())
        ledger.record(**tools.event())
        thread.join(SECONDS_MAX)
        assert seen == [1, 2]


def test_a_tail_goes_on_when_the_server_was_restarted(server: PostgresqlServer, tools: Any) -> None:
    with chatsnapshot.open(server.url) as ledger, chatsnapshot.open(server.url) as other:
        ledger.record(**tools.event())
        position = 0
        for wanted in (1, 2, 3):
            while position < wanted:
                try:
                    with other.tail(after=position, timeout=SECONDS_MAX) as tail:
                        for entry in tail:
                            position = entry.position
                            break
                except LedgerError:
                    continue
            if wanted < 3:
                server.stop()
                server.start()
                _until(lambda: _recorded(ledger, tools))
        assert position == 3


def _recorded(ledger: Ledger, tools: Any) -> bool:
    try:
        ledger.record(**tools.event())
    except LedgerError:
        return False
    return True


def test_closing_ends_the_listener_at_once(ledger: Ledger, database: str, tools: Any) -> None:
    before = threading.active_count()
    other = chatsnapshot.open(database)
    store: Any = other._store
    store.watch(lambda: None)
    assert threading.active_count() == before + 1
    other.close()
    assert threading.active_count() == before
    _until(lambda: not tools.run(database, LISTENING))
