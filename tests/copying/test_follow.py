"""A standby follows live: over restarts, outages, full disks and other followers, and tells how far behind it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import LedgerError, NotFound, StoreFull, StoreUnavailable
from chatsnapshot.backup import backup
from chatsnapshot.clock import parse_time
from chatsnapshot.copying import Following, copy, follow, following, promote
from chatsnapshot.copying.places import Place
from chatsnapshot.stores.base import Head, Row
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.wrappers import PassingStore

NewPlace = Callable[[str], Place]
WAIT_SECONDS = 60.0


class Running:
    """A follower in a thread; ``until(position)`` waits for it, the end of the ``with`` stops it."""

    def __init__(self, source: Place, target: Place) -> None:
        self.states: list[Following] = []
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(source, target))

    def _run(self, source: Place, target: Place) -> None:
        try:
            follow(source, target, stop=self._stop, on_state=self._state)
        except BaseException as error:
            self.error = error
        with self._news:
            self._news.notify_all()

    def _state(self, state: Following) -> None:
        with self._news:
            self.states.append(state)
            self._news.notify_all()

    def until(self, wanted: Callable[[Following], bool]) -> Following:
        """The first state that is wanted, from now on or the last one."""
        with self._news:
            found = self._news.wait_for(
                lambda: self.error is not None or (self.states and wanted(self.states[-1])), WAIT_SECONDS
            )
            assert found and self.error is None, (self.error, self.states[-1:])
            return self.states[-1]

    def ended(self) -> BaseException | None:
        """Its error, when it has ended by itself."""
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        return self.error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


PAIRS = [
    ("sqlite", "jsonl"),
    ("jsonl", "sqlite"),
    ("sqlite", "nats"),
    ("postgresql", "sqlite"),
    ("mongodb", "jsonl"),
]


@pytest.mark.parametrize(("of", "to"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_what_four_threads_record_and_erase_arrives_while_it_is_followed(
    of: str, to: str, new_place: NewPlace, kit: Any
) -> None:
    source, target = new_place(of), new_place(to)
    with chatsnapshot.open(str(source)) as ledger:
        ledger.record_many(events(30))
        with Running(source, target) as running:

            def write(number: int) -> None:
                for one in range(25):
                    entry = ledger.record(
                        **event(one, f"run-{number}", payload={"data": bytes([number, one]) * 20_000})
                    )
                    if one % 10 == 9:
                        ledger.erase(entry.position, reason="asked to")

            threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            last = running.until(lambda state: state.position == ledger.head)
            assert (last.lag, last.behind_seconds, last.problem) == (0, 0.0, None)
            assert [state.position for state in running.states] == sorted(
                state.position for state in running.states
            )
    kit.same(source, target)


def test_a_ledger_in_memory_is_followed_by_its_own_bell(tmp_path: Path, kit: Any) -> None:
    with chatsnapshot.open("memory:") as ledger, Running(ledger, tmp_path / "copy.db") as running:
        for number in range(20):
            ledger.record(**event(number))
            running.until(lambda state, number=number: state.position > number)  # type: ignore[misc]
        kit.same(ledger, tmp_path / "copy.db")


def test_lag_is_told_in_entries_and_seconds(kit: Any) -> None:
    clock = iter(range(1_796_000_000, 1_797_000_000))
    with chatsnapshot.open("memory:", clock=lambda: next(clock) * 1_000_000_000) as source:
        for number in range(2_500):
            source.record(**event(number))
        target = kit.memory_copy(source)
        with Running(source, target) as running:
            running.until(lambda state: state.position == 2_500)
        first = running.states[0]
        assert (first.position, first.head, first.lag) == (1_000, 2_500, 1_500)
        times = [parse_time(entry.recorded_at) for entry in source.read() if entry.position in (1_000, 2_500)]
        assert first.behind_seconds == (times[1] - times[0]).total_seconds() >= 1_500
        assert running.states[-1].lag == 0
        target.close()


# --- outages ---


class Weak(PassingStore):
    """A store that can be made to fail: reading heads, or taking entries."""

    error: LedgerError | None = None

    def head(self) -> Head:
        if self.error is not None:
            raise self.error
        return self.inner.head()

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        if self.error is not None:
            raise self.error
        self.inner.import_rows(rows, blobs)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that nobody has to wait for."""
    monkeypatch.setattr(following, "_PAUSE_SECONDS_FIRST", 0.001)
    monkeypatch.setattr(following, "_PAUSE_SECONDS_MAX", 0.01)
    monkeypatch.setattr(following, "_GLANCE_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("error", [StoreUnavailable("the server is away"), StoreFull("no space left")])
@pytest.mark.parametrize("end", ["source", "target"])
def test_an_outage_of_either_end_is_waited_out_and_told(end: str, error: LedgerError, kit: Any) -> None:
    with chatsnapshot.open("memory:") as first:
        second = kit.memory_copy(first)
        weak = Weak(store_of(first if end == "source" else second))
        ends = (kit.over(weak), second) if end == "source" else (first, kit.over(weak))
        first.record_many(events(3))
        with Running(*ends) as running:
            running.until(lambda state: state.position == 3)
            weak.error = error
            first.record_many(events(4, first=3))
            state = running.until(lambda state: state.problem is not None)
            assert (state.position, state.problem) == (3, str(error))
            weak.error = None
            assert running.until(lambda state: state.position == 7).problem is None
        kit.same(first, second)
        second.close()


def test_the_first_opening_must_succeed(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        follow(tmp_path / "none.db", tmp_path / "copy.db")


@pytest.mark.usefixtures("at_once")
def test_a_source_that_was_put_back_from_an_older_copy_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_REOPEN_SECONDS", 0.05)
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record_many(events(3))
        backup(tmp_path / "runs.db", tmp_path / "backup.db")
        ledger.record_many(events(4, first=3))
    with Running(tmp_path / "runs.db", tmp_path / "copy.db") as running:
        running.until(lambda state: state.position == 7)
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"runs.db{suffix}").unlink(missing_ok=True)
        os.replace(tmp_path / "backup.db", tmp_path / "runs.db")
        error = running.ended()
    assert isinstance(error, LedgerError) and "ends at position 7 and" in str(error), error


# --- promotion, other followers ---


@pytest.mark.usefixtures("at_once")
def test_a_promotion_ends_the_following(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record_many(events(3))
        with Running(tmp_path / "runs.db", tmp_path / "copy.jsonl") as running:
            running.until(lambda state: state.position == 3)
            promote(tmp_path / "copy.jsonl")
            error = running.ended()  # also when nothing new comes from the source
    assert isinstance(error, LedgerError) and "was promoted at position 4" in str(error), error


def test_a_ledger_that_anybody_may_record_in_is_not_followed_into(tmp_path: Path) -> None:
    for name in ("runs.db", "own.db"):
        chatsnapshot.open(tmp_path / name).close()
    with pytest.raises(LedgerError, match="nothing keeps others from recording in it"):
        follow(tmp_path / "runs.db", tmp_path / "own.db")


@pytest.mark.parametrize("suffix", [".db", ".jsonl"])
def test_two_followers_of_one_target_do_no_harm(tmp_path: Path, suffix: str, kit: Any) -> None:
    source, target = tmp_path / "runs.db", tmp_path / f"copy{suffix}"
    with chatsnapshot.open(source) as ledger:
        ledger.record_many(events(2_000))
        with Running(source, target) as one, Running(source, target) as other:
            for number in range(100):
                ledger.record(**event(number))
            for running in (one, other):
                running.until(lambda state: state.position == 2_100)
    kit.same(source, target)
    assert one.states[-1].entries + other.states[-1].entries == 2_100


def test_a_copy_may_be_made_while_it_is_followed(tmp_path: Path, kit: Any) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record_many(events(500))
        with Running(tmp_path / "runs.db", tmp_path / "copy.db") as running:
            copy(tmp_path / "runs.db", tmp_path / "copy.db")
            running.until(lambda state: state.position == 500)
    kit.same(tmp_path / "runs.db", tmp_path / "copy.db")
