"""What nobody repairs later is on the disk first: sealed segments, begun segments, payloads that were overwritten."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import LedgerError, StoreFull, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.testing.faults import Fault, Journal, JournalFiles, crash_states

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Exception ignored in. None:pytest.PytestUnraisableExceptionWarning"),
]

Event = Callable[..., dict[str, Any]]
LIMITS = Limits(segment_bytes_max=6_000)
LARGE = {"text": "x" * 5_000}
"""The payload of an event that begins the next segment."""
SECRET = "the-secret-that-was-erased"


def acknowledged(ledger: Any, journal: Journal) -> dict[int, Any]:
    """Everything until here; what follows must not lose it."""
    truth = {entry.position: entry._identity() for entry in ledger.read()}
    journal.acknowledge(truth)
    return truth


def hold(aftermath: Any, journal: Journal, chance: random.Random, lost_sync: str = "torn") -> int:
    """Every crash leaves what was acknowledged and no damage; gives how many different ones there were."""
    after = aftermath(LIMITS)
    for state in crash_states(journal.steps, chance, torn=1, lost_sync=lost_sync):
        if state.acknowledged is None:
            continue
        found, where = after.find(state), (state.step, state.how)
        for position, entry in state.acknowledged.items():
            assert len(found.entries) >= position, (where, "acknowledged events are lost")
            assert found.entries[position - 1] == entry, where
        assert not found.problems, (where, found.problems)
        assert found.went_on, where
    return int(after.opened)


@pytest.mark.parametrize("name", ["runs.jsonl"])
@pytest.mark.parametrize("count", [1, 3], ids=["one event", "a batch of which whole lines went in"])
def test_what_a_full_disk_left_is_gone_from_a_segment_before_the_next_begins(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random, count: int
) -> None:
    with over_journal(path, limits=LIMITS) as (ledger, journal):
        for number in (1, 2):
            ledger.record(**event(number))
        acknowledged(ledger, journal)
        journal.fail(Fault("write", ".jsonl", code=errno.ENOSPC, takes=count * 400))
        with pytest.raises(StoreFull):
            ledger.record_many([event(number) for number in range(3, 3 + count)])
        journal.heal()
        ledger.record(**event(9, payload=LARGE))  # sealed without another write to the old segment
        acknowledged(ledger, journal)
        ledger.record(**event(10))
        assert sorted(acknowledged(ledger, journal)) == [1, 2, 3, 4]
        assert path.with_name("runs.jsonl.000002").exists()
    assert hold(aftermath, journal, seeded) > 20


@pytest.mark.parametrize("name", ["runs.jsonl"])
@pytest.mark.parametrize("lost_sync", ["lost", "kept", "torn"])
def test_a_segment_whose_last_sync_fails_is_not_sealed(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random, lost_sync: str
) -> None:
    with over_journal(path, limits=LIMITS) as (ledger, journal):
        ledger.record(**event(1))
        acknowledged(ledger, journal)
        journal.fail(Fault("write", ".jsonl", code=errno.ENOSPC, takes=300))
        with pytest.raises(StoreFull):
            ledger.record(**event(2))
        journal.fail(Fault("sync", ".jsonl"))
        with pytest.raises(LedgerError, match="nothing was stored"):
            ledger.record(**event(3, payload=LARGE))
        assert not path.with_name("runs.jsonl.000002").exists()
        for number in (4, 5):
            ledger.record(**event(number, payload=LARGE))
            acknowledged(ledger, journal)
        assert ledger.head == 3
    assert hold(aftermath, journal, seeded, lost_sync) > 20


@pytest.mark.parametrize("name", ["runs.jsonl"])
def test_who_syncs_may_go_on_where_somebody_has_not_synced(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random
) -> None:
    journal = Journal(path.parent)
    with over_journal(path, limits=LIMITS, durability="os", journal=journal) as (ledger, _):
        for number in range(1, 6):
            ledger.record(**event(number, payload={"text": "x" * 1_500}))
        assert path.with_name("runs.jsonl.000002").exists()
    with over_journal(path, limits=LIMITS, journal=journal) as (ledger, _):
        for number in range(6, 14):
            ledger.record(**event(number, payload={"text": "x" * 1_500}))
            acknowledged(ledger, journal)
    assert hold(aftermath, journal, seeded) > 40


class Ends(BaseException):
    """The process ends here."""


class EndingFiles(JournalFiles):
    """Ends when the name of a new segment is to be made durable."""

    ending = True

    def rename(self, path: str, to: str) -> None:
        super().rename(path, to)
        self.begun = to.endswith(".000002")

    def sync_folder(self, folder: str) -> None:
        if self.ending and self.begun:
            self.ending = False
            raise Ends
        super().sync_folder(folder)


@pytest.mark.parametrize("name", ["runs.jsonl"])
def test_a_segment_that_a_lost_writer_began_has_its_name_for_good_before_anything_in_it_is_acknowledged(
    path: Path,
    over_journal: Any,
    aftermath: Any,
    event: Event,
    seeded: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = Journal(path.parent)
    with over_journal(path, limits=LIMITS, journal=journal) as (other, _):
        with over_journal(path, limits=LIMITS, journal=journal) as (ledger, _):
            for number in range(1, 5):
                ledger.record(**event(number))
            acknowledged(ledger, journal)
            files = EndingFiles(journal)
            monkeypatch.setattr(ledger._store._writer, "_files", files)
            with pytest.raises(Ends):
                ledger._store.append([_group(ledger, event(5, payload=LARGE))])
        assert not files.ending and path.with_name("runs.jsonl.000002").exists()
        other.record(**event(6))
        assert len(acknowledged(other, journal)) == 5
    assert hold(aftermath, journal, seeded) > 10


def _group(ledger: Any, event: dict[str, Any]) -> Any:
    from chatsnapshot.stores.base import Group

    return Group(ledger._intake.batch(None, [event]))


@pytest.mark.parametrize("lost_sync", ["lost", "kept", "torn"])
def test_an_erasure_whose_sync_failed_is_written_again_before_it_is_acknowledged(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random, lost_sync: str
) -> None:
    hits = 0
    for nth in range(1, 12):
        with over_journal(path, limits=LIMITS) as (ledger, journal):
            ledger.record(**event(1, payload={"text": SECRET}))
            ledger.record(**event(2, payload=LARGE))
            ledger.record(**event(3, payload={"text": SECRET}))
            fault = journal.fail(Fault("sync", nth=nth))
            for _ in range(4):
                try:
                    ledger.erase([1, 3], reason="asked")
                    break
                except LedgerError:
                    pass
            else:
                pytest.fail("it never worked again")
            hits += fault.hits
            journal.heal()
            journal.acknowledge("erased")
            ledger.record(**event(4))
            journal.acknowledge("erased")
        after = aftermath(LIMITS)
        for state in crash_states(journal.steps, seeded, torn=1, lost_sync=lost_sync):
            if state.acknowledged is None and seeded.random() < 0.9:
                continue  # what was asked for is not promised yet; that nothing is damaged is
            found, where = after.find(state), (nth, state.step, state.how)
            assert not found.problems, (where, found.problems)
            if state.acknowledged == "erased":
                assert SECRET.encode() not in found.bytes, (where, "an erased payload is back")
        for one in path.parent.iterdir():
            one.unlink()
        if not fault.hits:
            break
    else:
        pytest.fail("the fault never ran out of syncs to strike")
    assert hits >= 2


@pytest.mark.parametrize("name", ["runs.jsonl"])
def test_an_erasure_that_is_not_on_the_disk_says_that_its_record_is_stored(
    path: Path, over_journal: Any, event: Event
) -> None:
    with over_journal(path, limits=LIMITS) as (ledger, journal):
        ledger.record(**event(1, payload={"text": SECRET}))
        journal.fail(Fault("sync", nth=2))  # the first is that of the record
        with pytest.raises(StoreUnavailable, match="the record of an erasure is stored"):
            ledger.erase([1], reason="asked")
        assert ledger.record(**event(2)).position == 3
        assert SECRET.encode() not in path.read_bytes()
        assert ledger.verify().ok


def test_a_sealed_segment_is_synced_whatever_the_durability(tmp_path: Path, event: Event) -> None:
    synced: list[int] = []

    class Noting(FileIO):
        def sync(self, descriptor: int) -> None:
            if self.syncs:
                synced.append(descriptor)

    from chatsnapshot.stores.jsonl import JsonlStore

    path = tmp_path / "runs.jsonl"
    with chatsnapshot.open(path, durability="os", limits=LIMITS) as ledger:
        store = ledger._store
        assert isinstance(store, JsonlStore)
        store._writer._files = Noting("os")
        ledger.record(**event(1))
        assert not synced
        ledger.record(**event(2, payload=LARGE))
        ledger.record(**event(3, payload=LARGE))
        assert len(synced) == 2 * 2, "of each segment that is sealed, and the header of the one that follows"
