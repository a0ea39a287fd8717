"""Lost power at every step: what was acknowledged is there, nothing is corrupt, and the ledger goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Checkpoint
from chatsnapshot.testing.faults import Journal, crash_states

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("small_log")]

Event = Callable[..., dict[str, Any]]
SECRET = "the-secret-that-was-erased"
LIMITS = Limits(segment_bytes_max=6_000, blob_part_bytes=16_384)


class Answered(NamedTuple):
    """What the ledger had answered by a step."""

    head: int
    erased: frozenset[int]


class Session:
    """Records, and notes what was acknowledged and what lands together."""

    def __init__(self, ledger: Ledger, journal: Journal) -> None:
        self.ledger = ledger
        self.journal = journal
        self.truth: dict[int, Any] = {}
        self.inside: set[int] = set()
        """Sizes at which the ledger would show a part of a batch."""
        self.erased: frozenset[int] = frozenset()
        self.sound_from = 0
        """Size from which on each erased payload has its record."""

    def said(self) -> None:
        """Everything until here is acknowledged."""
        for entry in self.ledger.read(after=max(self.truth, default=0)):
            self.truth[entry.position] = entry._identity()
        self.journal.acknowledge(Answered(len(self.truth), self.erased))

    def one(self, event: dict[str, Any]) -> None:
        self.ledger.record(**event)
        self.said()

    def batch(self, events: list[dict[str, Any]]) -> None:
        entries = self.ledger.record_many(events)
        self.inside |= {entry.position for entry in entries[:-1]}
        self.said()

    def erase(self, *positions: int) -> None:
        self.ledger.erase(positions, reason="asked")
        self.erased |= set(positions)
        self.said()

    def check(self, found: Any, answered: Answered | None, where: object) -> None:
        """What a crash left is a prefix of the truth that holds all that was acknowledged."""
        head, erased = answered or Answered(0, frozenset())
        entries = found.entries
        assert len(entries) >= head, (where, "acknowledged events are lost")
        assert len(entries) not in self.inside, (where, "a batch is there in part")
        for position, entry in enumerate(entries, 1):
            before = self.truth[position]
            if entry[9] is None:
                assert position in self.erased, (where, "a payload is lost")
                assert (entry[:9], entry[10:13], entry[14:]) == (before[:9], before[10:13], before[14:]), (
                    where
                )
            else:
                assert position not in erased, (where, "an erased payload is back")
                assert entry == before, where
        if erased >= self.erased:
            assert SECRET.encode() not in found.bytes, (where, "an erased payload is still in the files")
        if len(entries) < self.sound_from:
            assert {problem.code for problem in found.problems} <= {7}, (where, found.problems)
            return
        assert not found.problems, (where, found.problems)
        assert found.went_on, where


def every_kind_of_write(session: Session, event: Event) -> None:
    """Single events, batches, large payloads, blobs, accepted events, erasures, states of a projection."""
    ledger = session.ledger
    session.one(event(1))
    session.one(event(2, "run-2"))
    session.one(event(3, payload={"text": SECRET * 40}))
    session.batch([event(4), event(5, "run-3"), event(6)])
    session.one(event(7, payload={"text": "x" * 20_000}))
    session.one(event(8, payload={"data": SECRET.encode() * 2_600}))
    for number in range(9, 15):
        ledger.record(**event(number), wait=False)
    assert ledger.flush().ok
    session.said()
    session.erase(3, 8)
    leaf = session.truth[5][12]
    assert ledger._store.save_states(
        "test", 1, None, Checkpoint(5, leaf, b"d" * 32), {"run-1": b"state" * 300}
    )
    session.one(event(16, payload={"text": SECRET}))
    session.batch([event(number, f"run-{number}") for number in range(17, 25)])
    session.erase(16)
    session.one(event(26, event_id=ledger.record(**event(26)).event_id))


def test_power_lost_at_any_step_loses_nothing_acknowledged(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random
) -> None:
    with over_journal(path, limits=LIMITS) as (ledger, journal):
        session = Session(ledger, journal)
        every_kind_of_write(session, event)
    after = aftermath(LIMITS)
    for state in crash_states(journal.steps, seeded, torn=3):
        session.check(after.find(state), state.acknowledged, (state.step, state.how))
    assert after.opened > 1_000


def test_power_lost_in_a_larger_ledger_loses_nothing_acknowledged(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random
) -> None:
    limits = Limits(segment_bytes_max=60_000, blob_part_bytes=16_384)
    with over_journal(path, limits=limits) as (ledger, journal):
        session = Session(ledger, journal)
        session.one(event(1))
        while ledger.head < 700:  # past full tiles, and past many crossings from log to file
            number = ledger.head + 1
            correlation = f"run-{seeded.randint(1, 30)}"
            kind = seeded.random()
            if kind < 0.6:
                session.batch([event(number, correlation) for _ in range(seeded.randint(2, 30))])
            elif kind < 0.9:
                session.one(event(number, correlation, payload={"text": "x" * seeded.randint(1, 9_000)}))
            elif kind < 0.95:
                session.one(event(number, correlation, payload={"data": seeded.randbytes(50_000)}))
            else:
                free = [one for one in session.truth if session.truth[one][7] != "ledger"] or [1]
                session.erase(*seeded.sample(free, min(3, len(free))))
    after = aftermath(limits)
    for state in crash_states(journal.steps, seeded, torn=2, sample=120):
        session.check(after.find(state), state.acknowledged, (state.step, state.how))
    assert after.opened > 200


def test_power_lost_while_entries_are_imported_leaves_whole_steps(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random, tmp_path: Path
) -> None:
    with chatsnapshot.open(tmp_path / "source.db", limits=LIMITS) as source:
        source.record_many([event(number) for number in range(1, 9)])
        source.record(**event(9, payload={"data": b"blob" * 15_000}))
        source.record_many([event(number, "run-2") for number in range(10, 20)])
        source.erase([2, 12], reason="asked")
        rows = [tuple(entry._identity()) for entry in source.read()]
        blobs = {digest: b"".join(source._store.blob(digest) or ()) for digest, _, _ in source._store.blobs()}
    with over_journal(path, limits=LIMITS) as (ledger, journal):
        session = Session(ledger, journal)
        session.erased, session.sound_from = frozenset({2, 12}), len(rows)
        for start in range(0, len(rows), 6):
            ledger._store.import_rows(rows[start : start + 6], blobs if start == 6 else {})
            session.inside |= set(range(start + 1, min(start + 6, len(rows))))
            session.said()
    assert len(session.truth) == 20
    after = aftermath(LIMITS)
    for state in crash_states(journal.steps, seeded, torn=3):
        answered = state.acknowledged and Answered(state.acknowledged.head, frozenset())
        session.check(after.find(state), answered, (state.step, state.how))
    assert after.opened > 100


def test_with_the_weaker_durability_the_same_harness_does_lose_events_and_never_corrupts(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random
) -> None:
    with over_journal(path, durability="os") as (ledger, journal):
        session = Session(ledger, journal)
        for number in range(1, 16):
            session.one(event(number))
    after = aftermath()
    lost = whole = 0
    for state in crash_states(journal.steps, seeded, torn=2):
        if path.suffix == ".jsonl" and state.how == "torn":
            continue  # without syncs lines arrive in any order: what is damaged is found, see the bit flips
        answered = state.acknowledged or Answered(0, frozenset())
        found = after.find(state)
        lost += len(found.entries) < answered.head
        whole += len(found.entries) >= answered.head
        session.check(found, None, (state.step, state.how))
    assert lost > 10, "a harness that cannot lose events proves nothing"
    assert whole > 10
