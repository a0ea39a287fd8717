"""A copy takes entries from its source alone until it is promoted; both facts stay with it, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, LedgerError, NotFound, ReadOnly
from chatsnapshot.copying import copy, follow, promote
from chatsnapshot.copying.places import Place
from chatsnapshot.stores.identity import read_identity
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.samples import event, events

KINDS = ["sqlite", "jsonl", "postgresql", "mongodb", "nats"]
NewPlace = Callable[[str], Place]


@pytest.fixture(params=KINDS)
def standby(request: pytest.FixtureRequest, new_place: NewPlace, tmp_path: Path) -> Place:
    """A copy of ``first.db``, of five events."""
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record_many(events(5))
    target = new_place(request.param)
    copy(tmp_path / "first.db", target)
    return target


def test_nothing_is_recorded_in_a_copy_before_it_is_promoted(
    standby: Place, tmp_path: Path, kit: Any
) -> None:
    with kit.opened(standby) as ledger:
        for attempt in (
            lambda: ledger.record(**event(6)),
            lambda: ledger.record(**event(6), wait=False),
            lambda: ledger.record_many(events(2)),
            lambda: ledger.erase(1, reason="x"),
            lambda: ledger.ingest([{"event_type": "a.b", "correlation_id": "c"}], name="x"),
        ):
            with pytest.raises(ReadOnly, match=r"is a copy of ledger .* run chatsnapshot promote "):
                attempt()
        with pytest.raises(ReadOnly), ledger.run("r"):
            pass
        assert ledger.read_only
        assert len(ledger.view("timeline", "run-1").items) == 5
        assert [entry.position for entry in ledger.read()] == [1, 2, 3, 4, 5]
        with chatsnapshot.open(tmp_path / "first.db") as first:
            assert ledger.ledger_id == first.ledger_id

        entry = promote(standby, reason="the first one is gone")  # by another process, as it were
        assert ledger.record(**event(6)).position == 7
        assert (entry.position, entry.event_type, entry.correlation_id) == (6, "ledger.promoted", "ledger")
        assert entry.payload == {
            "ledger_id": ledger.ledger_id,
            "copied_from": first.ledger_id,
            "reason": "the first one is gone",
        }
        assert ledger.ledger_id != first.ledger_id
        assert not ledger.read_only
    with kit.opened(standby) as ledger:
        assert ledger.ledger_id == entry.payload["ledger_id"]
        assert ledger.record(**event(7)).position == 8
        assert ledger.verify().ok


def test_promoting_twice_changes_nothing(standby: Place, kit: Any) -> None:
    first = promote(standby, reason="one")
    assert promote(standby, reason="another") == first
    with kit.opened(standby) as ledger:
        assert ledger.head == 6


def test_a_promoted_ledger_takes_nothing_from_its_source_any_more(standby: Place, tmp_path: Path) -> None:
    promote(standby)
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record(**event(6))
    for again in (copy, follow):
        with pytest.raises(LedgerError, match="was promoted at position 6 and has gone on by itself since"):
            again(tmp_path / "first.db", standby)


def test_several_that_promote_at_once_make_one_record(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record_many(events(5))
    copy(tmp_path / "first.db", tmp_path / "second.db")
    found: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda number=number: found.append(promote(tmp_path / "second.db", reason=str(number)))
        )
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.position for entry in found] == [6] * 6


def test_a_ledger_that_is_no_copy_is_not_promoted(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        promote(tmp_path / "none.db")
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record(**event(1))
    with pytest.raises(LedgerError, match="was not made by chatsnapshot copy"):
        promote(tmp_path / "runs.db")


def test_only_the_ledger_states_a_promotion(tmp_path: Path) -> None:
    """Else whoever records in the source could open its standby."""
    with (
        chatsnapshot.open(tmp_path / "runs.db") as ledger,
        pytest.raises(InvalidEvent, match="by the ledger itself"),
    ):
        ledger.record("ledger.promoted", {"ledger_id": "x"}, correlation_id="ledger")


def test_an_event_with_the_id_of_a_promotion_promotes_nothing(tmp_path: Path, kit: Any) -> None:
    with chatsnapshot.open(tmp_path / "first.db") as first:
        first.record(**event(1))
        copy(first, tmp_path / "second.db")
        with chatsnapshot.open(tmp_path / "second.db") as second:
            from chatsnapshot.clock import foreign_uuid, uuid_text

            mark = read_identity(store_of(second).ledger_id).copy
            assert mark is not None
            first.record(**event(2), event_id=uuid_text(foreign_uuid("ledger.promoted", mark)))
            copy(first, tmp_path / "second.db")
            with pytest.raises(ReadOnly):
                second.record(**event(3))


def test_a_copy_of_a_promoted_copy_waits_for_a_promotion_of_its_own(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record(**event(1))
    copy(tmp_path / "first.db", tmp_path / "second.jsonl")
    promote(tmp_path / "second.jsonl")
    with chatsnapshot.open(tmp_path / "second.jsonl") as second:
        second.record(**event(2))
        copy(second, tmp_path / "third.db")
        with chatsnapshot.open(tmp_path / "third.db") as third:
            assert third.ledger_id == second.ledger_id
            with pytest.raises(ReadOnly):
                third.record(**event(3))
    assert promote(tmp_path / "third.db").position == 4


def test_what_lies_beside_the_lines_may_be_deleted_and_the_copy_stays_one(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record(**event(1))
    copy(tmp_path / "first.db", tmp_path / "copy.jsonl")
    for name in os.listdir(tmp_path):
        if name.startswith("copy.jsonl."):
            os.remove(tmp_path / name)
    with chatsnapshot.open(tmp_path / "copy.jsonl") as ledger, pytest.raises(ReadOnly):
        ledger.record(**event(2))


def test_a_backup_of_a_copy_is_a_copy(tmp_path: Path) -> None:
    from chatsnapshot.backup import backup

    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record(**event(1))
    copy(tmp_path / "first.db", tmp_path / "copy.db")
    made = backup(tmp_path / "copy.db", tmp_path / "backup.db")
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        assert made.ledgers[0].ledger_id == ledger.ledger_id
    with chatsnapshot.open(tmp_path / "backup.db") as ledger, pytest.raises(ReadOnly):
        ledger.record(**event(2))


@pytest.mark.parametrize("suffix", [".db", ".jsonl"])
def test_a_promotion_that_is_killed_has_happened_or_not(tmp_path: Path, suffix: str, kit: Any) -> None:
    """Killed at moments spread over all of it; each time the ledger opens, verifies, and can be promoted."""
    with chatsnapshot.open(tmp_path / "first.db") as ledger:
        ledger.record_many(events(20))
    promoted = 0
    for number in range(8):
        target = tmp_path / f"copy-{number}{suffix}"
        copy(tmp_path / "first.db", target, verify=False)
        script = (
            "import os, sys, threading, time\nfrom chatsnapshot.copying import promote\n"
            f"def end(): time.sleep({number} * 0.003); os.kill(os.getpid(), 9)\n"
            "threading.Thread(target=end, daemon=True).start()\n"
            "promote(sys.argv[1])\n"
        )
        done = subprocess.run([sys.executable, "-c", script, str(target)], capture_output=True, timeout=60)
        assert done.returncode in (0, -9), done.stderr
        with chatsnapshot.open(target) as ledger:
            assert ledger.verify().ok
            assert ledger.head in (20, 21)
            assert ledger.read_only == (ledger.head == 20)
            promoted += ledger.head == 21
        assert promote(target).position == 21
    assert promoted < 8
