"""Several ledgers read as one: each in its own order, merged by the time of recording, and nothing twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger, LedgerError, NotFound
from chatsnapshot.copying import copy
from chatsnapshot.testing.samples import event, events


class Hand:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self.seconds = 1_796_000_000

    def __call__(self) -> int:
        return self.seconds * 1_000_000_000


@pytest.fixture
def three(tmp_path: Path, seeded: random.Random) -> list[str]:
    """Ledgers of a file and of lines, written in turns; often several at the same second."""
    clock = Hand()
    paths = [str(tmp_path / name) for name in ("a.db", "b.jsonl", "c.db")]
    ledgers = [chatsnapshot.open(path, clock=clock) for path in paths]
    for number in range(120):
        clock.seconds += seeded.choice([0, 0, 1])
        seeded.choice(ledgers).record(**event(number, f"run-{number % 5}"))
    for ledger in ledgers:
        ledger.close()
    return paths


def test_entries_come_by_time_and_each_ledger_in_its_own_order(three: list[str]) -> None:
    with chatsnapshot.federate(three) as all_of_them:
        found = list(all_of_them.read())
        assert len(found) == 120
        assert [one.entry.recorded_at for one in found] == sorted(one.entry.recorded_at for one in found)
        for path in three:
            positions = [one.entry.position for one in found if one.ledger == path]
            assert positions == list(range(1, all_of_them.heads[path] + 1))
        numbers = [one.entry.payload["number"] for one in found]
        assert sorted(numbers) == list(range(120))
        assert list(all_of_them.read()) == found  # the same every time
        backwards = list(all_of_them.read(reverse=True))
        for path in three:
            mine = [one for one in found if one.ledger == path]
            assert [one for one in backwards if one.ledger == path] == mine[::-1]
        assert {report.ok for report in all_of_them.verify().values()} == {True}


def test_filters_bounds_and_going_on_later(three: list[str]) -> None:
    with chatsnapshot.federate(dict(zip("abc", three, strict=True))) as all_of_them:
        some = list(all_of_them.read(correlation_id="run-2"))
        assert len(some) == 24 and {one.entry.correlation_id for one in some} == {"run-2"}
        found = list(all_of_them.read())
        assert list(all_of_them.read(limit=7)) == found[:7]
        assert list(all_of_them.read(limit=0)) == []
        middle = found[60].entry.recorded_at
        assert list(all_of_them.read(until=middle)) == [
            one for one in found if one.entry.recorded_at <= middle
        ]
        heads = all_of_them.heads
        with chatsnapshot.open(three[1]) as ledger:
            ledger.record(**event(999))
        assert [(one.ledger, one.entry.payload["number"]) for one in all_of_them.read(after=heads)] == [
            ("b", 999)
        ]
        known = all_of_them.get(found[3].entry.event_id)
        assert known == found[3]
        with pytest.raises(NotFound, match="in any of a, b, c"):
            all_of_them.get("00000000-0000-7000-8000-000000000000")


def test_open_ledgers_stay_open_and_what_was_opened_here_is_closed(three: list[str]) -> None:
    with chatsnapshot.open("memory:") as ledger:
        ledger.record_many(events(3))
        with chatsnapshot.federate([ledger, three[0]]) as both:
            inside: Ledger = both.ledgers[three[0]]
            assert inside.read_only and not inside.closed
            assert len(list(both.read())) == 3 + inside.head
        assert inside.closed and not ledger.closed


@pytest.mark.parametrize(
    "options",
    [{"until": 5}, {"limit": -1}, {"limit": True}, {"after": {"nobody": 1}}, {"name": 5, "until": 5}],
)
def test_what_has_no_meaning_over_several_ledgers_is_refused(
    three: list[str], options: dict[str, Any]
) -> None:
    with chatsnapshot.federate(three) as all_of_them, pytest.raises(InvalidEvent):
        all_of_them.read(**options)


def test_one_history_twice_is_refused(three: list[str], tmp_path: Path) -> None:
    copy(three[0], tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="are one history"):
        chatsnapshot.federate([three[0], tmp_path / "copy.db"])
    with pytest.raises(LedgerError, match=r"two ledgers are named|are one history"):
        chatsnapshot.federate([three[0], three[0]])
    with pytest.raises(NotFound):
        chatsnapshot.federate([three[0], tmp_path / "none.db"])
