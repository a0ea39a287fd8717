"""Following: stored states stay at the head while others record, with any number of followers."""

from __future__ import annotations

import threading
from pathlib import Path

import chatsnapshot
from chatsnapshot.projections.engine import find_slot, resolve
from chatsnapshot.projections.following import follow
from chatsnapshot.projections.refolding import verify
from chatsnapshot.testing.samples import events
from chatsnapshot.testing.together import in_threads

FOREVER = 30.0


def position(ledger: chatsnapshot.Ledger, name: str) -> int:
    slot = find_slot(ledger._store, resolve(name))
    at = None if slot is None else slot.checkpoint()
    return 0 if at is None else at.position


def test_it_begins_with_what_is_there_and_goes_on_with_each_commit(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "a.db") as ledger:
        ledger.record_many(events(5))
        following = follow(ledger, ["runs"])
        assert [(one.position, one.taken) for one in next(following)] == [(5, 5)]
        with chatsnapshot.open(tmp_path / "a.db") as other:
            other.record_many(events(3, "run-2"))
        assert [(one.position, one.taken) for one in next(following)] == [(8, 3)]
        ledger.record_many(events(2, "run-3"))
        assert [one.position for one in next(following)] == [10]
        assert position(ledger, "runs") == 10


def test_it_ends_when_nothing_comes_for_a_while_and_when_the_ledger_is_closed(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "a.db") as ledger:
        ledger.record_many(events(5))
        assert len(list(follow(ledger, ["runs"], timeout=0.01))) == 1
        following = follow(ledger, ["runs"])
        next(following)
        ledger.close()
        assert list(following) == []


def test_two_followers_and_a_writer_take_each_entry_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with chatsnapshot.open(path, validation="off") as ledger:
        begun = threading.Barrier(3)

        def run() -> int:
            with chatsnapshot.open(path) as own:
                taken = 0
                begun.wait(FOREVER)
                for found in follow(own, ["transcript"], timeout=FOREVER):
                    taken += sum(one.taken for one in found)
                    if position(own, "transcript") >= 200:
                        return taken
            return taken

        def write() -> int:
            begun.wait(FOREVER)
            for number in range(20):
                ledger.record_many(events(10, f"run-{number}"))
            return 0

        assert sum(in_threads([run, run, write])) == 200
        assert verify(ledger, "transcript").verdict == "same"
