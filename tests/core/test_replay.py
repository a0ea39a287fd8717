"""Replay: the same bytes every time, up to any point, with child runs merged by position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot import Ledger, NotFound


def family(ledger: Ledger) -> None:
    """A run with a child, which has a child, and a stranger."""
    with ledger.run("parent") as parent:
        call = parent.record("execution.tool_call", {"name": "ask", "call_id": "1"})
        with ledger.run("child", cause=call) as child:
            child.record("execution.message", {"role": "user", "content": "?"})
            with ledger.run("grandchild"):
                pass
        parent.record("execution.tool_result", {"call_id": "1"}, causation_id=call)
    ledger.record("ui.interaction", correlation_id="stranger")


def test_replaying_twice_gives_the_same_bytes(ledger: Ledger) -> None:
    family(ledger)
    once, twice = (
        b"\n".join(entry.event.to_json() for entry in ledger.replay("parent", children=True))
        for _ in range(2)
    )
    assert once == twice
    assert once.count(b"\n") == 8


def test_replay_gives_one_correlation_in_order(ledger: Ledger) -> None:
    family(ledger)
    assert [entry.sequence for entry in ledger.replay("parent")] == [1, 2, 3, 4]
    assert {entry.correlation_id for entry in ledger.replay("parent")} == {"parent"}


def test_children_are_merged_by_position(ledger: Ledger) -> None:
    family(ledger)
    replay = ledger.replay("parent", children=True)
    entries = list(replay)
    assert replay.correlations == ["parent", "child", "grandchild"]
    assert [entry.position for entry in entries] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [entry.position for entry in ledger.replay("child", children=True)] == [3, 4, 5, 6, 7]


def test_until_cuts_every_correlation_at_the_same_point(ledger: Ledger) -> None:
    family(ledger)
    whole = list(ledger.replay("parent", children=True))
    for until in range(1, 12):
        assert list(ledger.replay("parent", children=True, until=until)) == [
            entry for entry in whole if entry.position <= until
        ]


def test_correlations_that_cause_each_other_end(ledger: Ledger) -> None:
    first = "00000000-0000-4000-8000-000000000001"
    second = "00000000-0000-4000-8000-000000000002"
    ledger.record("a.b", correlation_id="x", event_id=first, causation_id=second)
    ledger.record("a.b", correlation_id="y", event_id=second, causation_id=first)
    assert [entry.position for entry in ledger.replay("x", children=True)] == [1, 2]


def test_a_run_that_is_not_there_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="no event of 'nobody'"):
        ledger.replay("nobody")


def test_next_and_async_for_go_on_where_they_were(ledger: Ledger) -> None:
    family(ledger)
    replay = ledger.replay("parent", children=True)
    assert [next(replay).position for _ in range(3)] == [1, 2, 3]

    async def collect() -> list[int]:
        return [entry.position async for entry in ledger.areplay("parent", children=True)]

    assert asyncio.run(collect()) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_same_recording_gives_the_same_leaves_on_every_store(
    path: str, opened: Callable[..., Ledger], new_hands: Callable[[], Any]
) -> None:
    def record(ledger: Ledger) -> None:
        for batch in range(5):
            ledger.record_many(
                [
                    {
                        "event_type": "execution.message",
                        "correlation_id": f"run-{number % 3}",
                        "event_id": f"00000000-0000-4000-8000-0000000{batch:02d}{number:03d}",
                        "payload": {"n": number, "blob": b"x" * 40_000 if number == 3 else None},
                    }
                    for number in range(70)
                ]
            )

    found = []
    for url in ("memory:", path):
        hands = new_hands()
        ledger = opened(url, clock=hands.clock, entropy=hands.entropy)
        record(ledger)
        found.append(([entry.leaf for entry in ledger.read()], ledger.verify().root))
    assert found[0] == found[1]


def test_a_clock_that_moves_at_every_reading_gives_the_same_leaves_on_every_store(
    tmp_path: Path, opened: Callable[..., Ledger], new_hands: Callable[[], Any]
) -> None:
    """Making a ledger takes no reading of its clock: the commits find it where they found it before."""
    found = []
    for url in ("memory:", tmp_path / "runs.db", tmp_path / "runs.jsonl"):
        hands = new_hands()

        def ticking(hands: Any = hands) -> int:
            hands.move(1)
            return int(hands.now)

        ledger = opened(url, clock=ticking, entropy=hands.entropy)
        for number in range(5):
            ledger.record("a.b", {"n": number}, correlation_id="c", idempotency_key=number)
        found.append(([entry.recorded_at for entry in ledger.read()], ledger.verify().root))
    assert found[0] == found[1] == found[2]


def test_the_ledgers_own_records_are_repeatable_too(
    hands: Any, opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    roots = []
    ids = [f"00000000-0000-7000-8000-{number:012d}" for number in range(3)]
    for url in ("memory:", tmp_path / "a.db", tmp_path / "a.jsonl"):
        again = type(hands)()
        ledger = opened(url, clock=again.clock, entropy=again.entropy)
        for event_id in ids:
            ledger.record("a.b", {"id": event_id}, correlation_id="c", event_id=event_id)
            again.move(-60)
        ledger.erase(1, reason="asked")
        assert [entry.event_type for entry in ledger.read(correlation_id="ledger")] == [
            "ledger.clock_behind",
            "ledger.payload_erased",
        ]
        roots.append(ledger.verify().root)
    assert len(set(roots)) == 1
