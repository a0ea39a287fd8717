"""Writes and syncs that fail: definite or uncertain as the error says; recording goes on when the cause is gone."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chatsnapshot import Ledger
from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import (
    CommitUncertain,
    LedgerError,
    StoreFull,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.limits import Limits
from chatsnapshot.pending import envelope_of
from chatsnapshot.stores.sqlite import SqliteStore
from chatsnapshot.testing.faults import Fault, Journal, crash_states

pytestmark = [
    pytest.mark.timeout(300),
    # apsw reports an error of a forced close this way; SQLite itself passes over it.
    pytest.mark.filterwarnings("ignore:Exception ignored in. None:pytest.PytestUnraisableExceptionWarning"),
]

Event = Callable[..., dict[str, Any]]
BLOB = bytes(range(256)) * 200
DEFINITE = (StoreFull, StoreUnavailable, StorePoisoned)
LIMITS = Limits(blob_part_bytes=16_384)


def batch(event: Event, first: int) -> list[dict[str, Any]]:
    """Three events, one of them with a blob."""
    return [event(first), event(first + 1, payload={"number": first + 1, "data": BLOB}), event(first + 2)]


def numbers(ledger: Ledger) -> list[int]:
    return [entry.payload["number"] for entry in ledger.read()]


@pytest.mark.parametrize("times", [1, None], ids=["once", "until healed"])
@pytest.mark.parametrize(
    ("kind", "code", "takes"),
    [("sync", errno.EIO, 0)]
    + [
        ("write", code, takes) for code in (errno.ENOSPC, errno.EDQUOT, errno.EIO) for takes in (0, 40, 4_000)
    ],
    ids=str,
)
def test_each_call_that_fails_gives_a_definite_or_an_uncertain_error_and_recording_goes_on(
    tmp_path: Path,
    name: str,
    over_journal: Any,
    event: Event,
    kind: str,
    code: int,
    takes: int,
    times: int | None,
) -> None:
    if kind == "sync" and takes:
        pytest.skip("a sync takes nothing")
    outcomes: set[str] = set()
    for nth in range(1, 60):
        folder = tmp_path / str(nth)
        folder.mkdir()
        with over_journal(folder / name, limits=LIMITS) as (ledger, journal):
            ledger.record_many([event(1), event(2)])
            fault = journal.fail(Fault(kind, nth=nth, times=times, code=code, takes=takes))
            outcomes.add(_try_a_batch(ledger, journal, event, lasting=times is None))
            if not fault.hits:
                break
    else:
        pytest.fail("the fault never ran out of calls to strike")
    assert outcomes - {"stored"}, "no call failed"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failing_device_is_not_taken_for_a_full_disk(
    tmp_path: Path, name: str, over_journal: Any, event: Event, code: int
) -> None:
    told: set[type[Exception]] = set()
    for nth in range(1, 60):
        folder = tmp_path / str(nth)
        folder.mkdir()
        with over_journal(folder / name, limits=LIMITS) as (ledger, journal):
            ledger.record_many([event(1), event(2)])
            fault = journal.fail(Fault("write", nth=nth, times=1, code=code))
            try:
                ledger.record_many(batch(event, 3))
            except LedgerError as error:
                told.add(type(error))
            journal.heal()
            if not fault.hits:
                break
    assert told and (StoreFull in told) == (code == errno.ENOSPC)


def _try_a_batch(ledger: Ledger, journal: Journal, event: Event, *, lasting: bool) -> str:
    """Record three events under a fault, hold the ledger to what it says, heal, and record them again."""
    outcome = "stored"
    retry: Any = batch(event, 3)
    try:
        ledger.record_many(batch(event, 3))
        retry = []
    except (StoreFull, StoreUnavailable) as error:
        outcome = type(error).__name__
        assert numbers(ledger) == [1, 2], "definitely not stored means not there"
        again = _error_of(ledger, event(9))
        assert again is None or isinstance(again, (*DEFINITE, CommitUncertain))
        retry = [*retry, *([] if again is None else [event(9)])]
    except CommitUncertain as error:
        outcome = "CommitUncertain"
        retry = list(error.events)
        assert [one.payload["number"] for one in retry] == [3, 4, 5]
        assert [blob.data for one in retry for blob in one.blobs] == [BLOB]
        if lasting:
            assert isinstance(_error_of(ledger, event(9)), StorePoisoned)
            assert numbers(ledger) in ([1, 2], [1, 2, 3, 4, 5])
    journal.heal()
    before = ledger.head
    entries = ledger.record_many(retry)
    if outcome == "CommitUncertain":
        assert ledger.record_many(retry) == entries, "the safe retry stores once"
        assert ledger.head in (before, before + 3)
    assert sorted(number for number in numbers(ledger) if number < 9) == [1, 2, 3, 4, 5]
    assert ledger.record(**event(10)).position == ledger.head
    blob = next(entry for entry in ledger.read() if entry.payload["number"] == 4)
    assert blob.value()["data"] == BLOB
    report = ledger.verify()
    assert report.ok, report.problems
    return outcome


def _error_of(ledger: Ledger, event: dict[str, Any]) -> LedgerError | None:
    try:
        ledger.record(**event)
    except LedgerError as error:
        return error
    return None


class Known(NamedTuple):
    """What is certain at a step: entries acknowledged, ids that are definitely not stored."""

    head: int
    never: frozenset[str]


@pytest.mark.usefixtures("small_log")
@pytest.mark.parametrize("lost_sync", ["lost", "kept", "torn"])
def test_power_lost_after_failed_writes_and_syncs_loses_nothing_acknowledged(
    path: Path, over_journal: Any, aftermath: Any, event: Event, seeded: random.Random, lost_sync: str
) -> None:
    limits = Limits(segment_bytes_max=20_000, blob_part_bytes=16_384)
    truth: dict[int, Any] = {}
    never: set[str] = set()
    errors: dict[str, int] = {}
    with over_journal(path, limits=limits) as (ledger, journal):

        def known() -> None:
            for entry in ledger.read(after=len(truth)):
                truth[entry.position] = entry._identity()
            journal.acknowledge(Known(len(truth), frozenset(never)))

        waiting: list[Any] = []
        number = 0
        while number < 120 or not errors.get("uncertain") or sum(errors.values()) < 6:
            assert number < 1_000, "a harness that fails no call proves nothing"
            number += 1
            if seeded.random() < 0.35:
                kind, code = seeded.choice(
                    [("write", errno.ENOSPC), ("write", errno.EIO), ("sync", errno.EIO)]
                )
                journal.fail(
                    Fault(kind, nth=seeded.randint(1, 12), times=seeded.choice([1, 1, 2, None]), code=code,
                          takes=seeded.choice([0, 24, 600, 4_000]))
                )  # fmt: skip
            made = ledger._intake.batch(
                None, [event(number, size) for size in ["run-1", "run-2"][: seeded.randint(1, 2)]]
            )
            if seeded.random() < 0.1:
                made = ledger._intake.batch(None, batch(event, number))
            events = [envelope_of(draft) for draft in made]
            retrying = waiting and seeded.random() < 0.5
            if retrying:
                events = waiting
            try:
                ledger.record_many(events)
            except CommitUncertain as error:
                errors["uncertain"] = errors.get("uncertain", 0) + 1
                waiting = list(error.events)
            except DEFINITE as error:
                errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
                if not retrying:
                    never |= {one.event_id for one in events}
                    journal.acknowledge(Known(len(truth), frozenset(never)))
            else:
                waiting = [] if retrying else waiting
                armed = list(journal.faults)
                journal.heal()  # reading may have to mend an index, and says so when it cannot
                known()
                journal.faults.extend(armed)
            if seeded.random() < 0.5:
                journal.heal()
        journal.heal()
        assert ledger.record_many(waiting) == ledger.record_many(waiting)
        known()
        assert ledger.verify().ok
        assert not never & {entry.event_id for entry in ledger.read()}
    after = aftermath(limits)
    for state in crash_states(journal.steps, seeded, torn=2, sample=250, lost_sync=lost_sync):
        found = after.find(state)
        certain = state.acknowledged or Known(0, frozenset())
        where = (state.step, state.how)
        assert len(found.entries) >= certain.head, (where, "acknowledged events are lost")
        for position in range(1, certain.head + 1):
            assert found.entries[position - 1] == truth[position], where
        ids = {uuid_text(entry[3]) for entry in found.entries}
        assert not ids & certain.never, (where, "definitely not stored, and there all the same")
        assert not found.problems, (where, found.problems)
        assert found.went_on, where
    assert after.opened > 200


def test_no_acknowledgement_rests_on_a_sync_of_bytes_whose_sync_has_failed(
    path: Path, over_journal: Any, event: Event
) -> None:
    with over_journal(path) as (ledger, journal):
        ledger.record(**event(1))
        list(ledger.read())
        journal.fail(Fault("sync", times=1))
        with pytest.raises(CommitUncertain) as caught:
            ledger.record(**event(2))
        failed = next(at for at, step in enumerate(journal.steps) if step.kind == "lost_sync")
        ledger.record_many(caught.value.events)
        after = journal.steps[failed + 1 :]
    doubtful = journal.steps[failed].path
    if path.suffix == ".jsonl":
        synced = [step.path for step in after[: _index_of(after, "rename", doubtful)] if step.kind == "sync"]
        assert synced and doubtful not in synced, "the bytes go to a new file, which is synced"
    else:
        # The file gets the bytes and is synced, and the log begins anew before anything else is acknowledged.
        order = [(step.kind, step.path.rpartition("-")[2], step.offset) for step in after]
        emptied = order.index(("cut", "wal", 0))
        assert ("sync", "runs.db", 0) in order[:emptied]
        begun = order.index(("write", "wal", 0), emptied)
        assert ("sync", "wal", 0) in order[begun:]


def _index_of(steps: Any, kind: str, to: str) -> int:
    return next(at for at, step in enumerate(steps) if step.kind == kind and step.data == to)


def test_readers_see_nothing_of_an_uncertain_commit_that_is_not_settled(
    path: Path, over_journal: Any, event: Event
) -> None:
    with over_journal(path) as (ledger, journal):
        ledger.record(**event(1))
        assert numbers(ledger) == [1]
        journal.fail(Fault("sync", times=None))
        with pytest.raises(CommitUncertain):
            ledger.record(**event(2))
        with pytest.raises(StorePoisoned):
            ledger.record(**event(3))
        assert numbers(ledger) == [1]
        journal.heal()
        ledger.record(**event(4))
        assert numbers(ledger) in ([1, 4], [1, 2, 4])


@pytest.fixture
def log_of_old_frames(tmp_path: Path, event: Event) -> Callable[[Ledger, Journal], None]:
    """``prepare(ledger, journal)``: the next commit goes over a log that looks nearly the same already."""

    def prepare(ledger: Ledger, journal: Journal) -> None:
        for number in range(1, 20):
            ledger.record(**event(number))
            assert isinstance(ledger._store, SqliteStore) and ledger._store._db is not None
            ledger._store._db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    return prepare


@pytest.mark.parametrize("name", ["runs.db"])
@pytest.mark.parametrize("struck_out", [True, False], ids=["as it is", "without striking out"])
def test_a_commit_that_the_full_log_holds_by_coincidence_is_not_there_after_a_crash(
    path: Path,
    over_journal: Any,
    aftermath: Any,
    event: Event,
    seeded: random.Random,
    log_of_old_frames: Any,
    struck_out: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not struck_out:
        monkeypatch.setattr(SqliteStore, "_struck_out", lambda store, db: True)
    there = 0
    for nth in range(1, 40):
        with over_journal(path) as (ledger, journal):
            log_of_old_frames(ledger, journal)
            head = ledger.head
            fault = journal.fail(Fault("write", "-wal", nth=nth, code=errno.ENOSPC, unnoticed=True))
            if fault.hits == 0:
                try:
                    ledger.record(**event(50))
                except StoreFull:
                    pass
            hit = fault.hits
            journal.heal()
            count = len(journal.steps)
            assert ledger.head == head + (not hit)
        for state in crash_states(journal.steps[:count], seeded, torn=0):
            if state.step == count and state.how == "all":
                there += len(aftermath().find(state).entries) > head + (not hit)
        for one in path.parent.iterdir():
            one.unlink()
        if not hit:
            break
    else:
        pytest.fail("the commit never went through")
    assert (there == 0) == struck_out, "without it the case must be found, or the test proves nothing"
