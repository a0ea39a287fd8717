"""Recording by way of a spool: durable at once, the same event once, and what it cannot do is said."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import (
    CommitUncertain,
    EventConflict,
    InvalidEvent,
    LedgerClosed,
    LedgerError,
    StoreFull,
    StoreUnavailable,
)
from chatsnapshot.testing.servers.http import HttpServer


def test_an_entry_has_no_place_until_the_service_has_it(place: str, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(**kit.message(1))
        assert (entry.position, entry.sequence, entry.recorded_at, entry.leaf) == (None, None, None, None)
        assert b'"position":null' in entry.to_json()
        assert entry.payload == kit.message(1)["payload"]
        ledger.flush(20)
        found = ledger.get(entry.event_id)
        assert (found.position, found.sequence) == (1, 1)
        assert found.event == entry.event
        assert ledger.verify().ok


def test_it_is_the_default_for_http(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        assert ledger._store.traits.name == "http-spool"
    with pytest.raises(LedgerError, match="mode is spool or direct"):
        chatsnapshot.open(f"{place}&mode=other")


def test_a_spool_is_for_its_user_alone(place: str, state: Path, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(1))
        files = list(state.iterdir())
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        kept = [one for one in files if not one.name.endswith(".lock")]
        assert kept and {stat.S_IMODE(one.stat().st_mode) for one in kept} == {0o600}


def test_each_ledger_and_service_has_a_spool_of_its_own_and_another_place_can_be_named(
    place: str, state: Path, tmp_path: Path
) -> None:
    urls = [
        place,
        place + "x",
        place.replace("127.0.0.1", "localhost"),
        f"{place}&spool={tmp_path}/own.spool",
    ]
    paths = set()
    for url in urls:
        with chatsnapshot.open(url) as ledger:
            paths.add(ledger._store.spool)  # type: ignore[attr-defined]
    assert len(paths) == 4
    assert f"{tmp_path}/own.spool" in paths


def test_expected_sequence_is_refused_with_the_way_out(place: str, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        with pytest.raises(InvalidEvent, match="mode=direct"):
            ledger.record(**kit.message(1), expected_sequence=0)
        assert ledger.head == 0


def test_the_same_event_is_stored_once_whether_it_waits_or_was_sent(
    place: str, server: HttpServer, kit: Any
) -> None:
    with chatsnapshot.open(place) as ledger:
        server.stop()
        first = ledger.record(**kit.message(1), idempotency_key="a")
        again = ledger.record(**kit.message(1), idempotency_key="a")
        assert again == first
        with pytest.raises(EventConflict) as found:
            ledger.record(**kit.message(2), idempotency_key="a")
        assert found.value.fields == ("payload",)
        server.start()
        ledger.flush(30)
        ledger.record(**kit.message(1), idempotency_key="a")
        assert ledger.flush(30).ok
        assert ledger.head == 1


def test_a_batch_is_whole_in_the_spool_and_on_the_service(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        server.stop()
        ledger.record(**kit.message(1), idempotency_key="a")
        with pytest.raises(EventConflict):
            ledger.record_many([kit.message(5), {**kit.message(2), "idempotency_key": "a"}])
        made = ledger.record_many(
            [{**kit.message(1), "idempotency_key": "a"}, kit.message(2), kit.message(3)]
        )
        assert len(made) == 3
        server.start()
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == [1, 2, 3]
        assert len({entry.recorded_at for entry in ledger.read(after=1)}) == 1


def test_what_is_accepted_is_flushed_and_tasks_are_served(place: str, kit: Any) -> None:
    async def tasks(ledger: Any) -> None:
        await asyncio.gather(*(ledger.arecord(**kit.message(number, "tasks")) for number in range(20)))

    with chatsnapshot.open(place) as ledger:
        pending = [ledger.record(**kit.message(number), wait=False) for number in range(20)]
        report = ledger.flush(30)
        assert (report.stored, report.failures) == (20, ())
        assert pending[0].result(1).position is None
        asyncio.run(tasks(ledger))
        ledger.flush(30)
        assert kit.numbers(ledger) == list(range(20))
        assert sorted(kit.numbers(ledger, "tasks")) == list(range(20))


def test_blobs_go_with_their_events(place: str, server: HttpServer) -> None:
    data = bytes(range(256)) * 1000
    with chatsnapshot.open(place) as ledger:
        server.stop()
        entry = ledger.record("execution.artifact", {"data": data}, correlation_id="run-1")
        server.start()
        ledger.flush(30)
        assert ledger.get(entry.event_id).value()["data"] == data
        assert ledger.verify().ok


def test_a_full_spool_is_a_definite_error_and_works_again_when_there_is_room(
    place: str, server: HttpServer, kit: Any
) -> None:
    with chatsnapshot.open(f"{place}&spool_bytes_max=20000") as ledger:
        server.stop()
        stored = 0
        with pytest.raises(StoreFull, match="spool_bytes_max"):
            for number in range(1000):
                ledger.record(**kit.message(number))
                stored += 1
        assert 10 < stored < 200
        server.start()
        assert ledger.flush(30).ok
        ledger.record(**kit.message(stored))
        ledger.flush(30)
        assert kit.numbers(ledger) == list(range(stored + 1))


def test_a_full_disk_is_a_definite_error_and_loses_nothing(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        server.stop()
        db: Any = ledger._store._file._opened()  # type: ignore[attr-defined]
        (pages,) = next(db.execute("PRAGMA page_count"))
        db.execute(f"PRAGMA max_page_count = {pages + 10}")
        stored = 0
        with pytest.raises(StoreFull, match="nothing was stored"):
            for number in range(1000):
                ledger.record(**kit.message(number))
                stored += 1
        assert stored > 10
        db.execute("PRAGMA max_page_count = 1000000")
        ledger.record(**kit.message(stored))
        server.start()
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(stored + 1))


def test_a_commit_that_fails_is_uncertain_and_the_retry_stores_once(
    place: str, server: HttpServer, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    with chatsnapshot.open(place) as ledger:
        server.stop()
        file: Any = ledger._store._file  # type: ignore[attr-defined]
        real = file._opened()

        class Failing:
            """Commits, and then says that it failed."""

            in_transaction = False

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def execute(self, text: str, *values: Any) -> Any:
                result = real.execute(text, *values)
                if text == "COMMIT":
                    raise apsw.IOError("disk I/O error")
                return result

        file._db = Failing()
        with pytest.raises(CommitUncertain) as found:
            ledger.record(**kit.message(1))
        ledger.record_many(found.value.events)
        server.start()
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == [1]


def test_a_closed_ledger_takes_nothing(place: str, kit: Any) -> None:
    ledger = chatsnapshot.open(place)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerClosed):
        ledger.record(**kit.message(1))
    with pytest.raises(LedgerClosed):
        ledger.head  # noqa: B018


def test_a_ledger_opens_and_records_while_the_service_is_away(
    place: str, server: HttpServer, kit: Any
) -> None:
    server.stop()
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(1))
        with pytest.raises(StoreUnavailable):
            ledger.head  # noqa: B018
        assert ledger.ledger_id == ""
        server.start()
        ledger.flush(30)
        assert kit.numbers(ledger) == [1]
        assert ledger.ledger_id == kit.direct(place).ledger_id


def test_another_kind_of_file_is_not_taken_for_a_spool(place: str, tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "own.db"):
        pass
    with pytest.raises(LedgerError, match="not a spool"):
        chatsnapshot.open(f"{place}&spool={tmp_path}/own.db")


def test_runs_and_scopes_are_recorded_in_order(place: str, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        with ledger.run(correlation_id="run-1", name="triage") as run:
            run.record("execution.tool_call", {"name": "look", "call_id": "1"})
        ledger.flush(30)
        types = [entry.event_type for entry in ledger.replay("run-1")]
        assert types == ["execution.run_started", "execution.tool_call", "execution.run_completed"]
        assert ledger.view("runs", "run-1").runs[0].status == "completed"


Start = Callable[[str, str], Any]


def test_what_was_recorded_survives_a_kill_at_once(
    place: str, server: HttpServer, kit: Any, program: Start
) -> None:
    server.stop()
    killed = program(place, "record(0, 30)\nprint('recorded', flush=True)\nsys.stdin.readline()\n")
    assert killed.line() == "recorded"
    killed.kill()
    server.start()
    with chatsnapshot.open(place) as ledger:
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(30))
