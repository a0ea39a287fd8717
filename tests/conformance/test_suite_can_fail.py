"""A suite that never fails shows nothing: stores that break one promise each, and the suite that says so."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot import Ledger
from chatsnapshot.adapters.policy import SafeRecorder
from chatsnapshot.clock import new_id, uuid_text
from chatsnapshot.errors import EventConflict, LedgerError, SequenceConflict
from chatsnapshot.recorder import Recorder
from chatsnapshot.stores.base import Checkpoint, Draft, Group, Outcome, Page, Query, Row, Store
from chatsnapshot.testing.checks import exits, hanging
from chatsnapshot.testing.conformance import Bench, checks, run
from chatsnapshot.testing.wrappers import PassingStore


class ForgetsToStore(PassingStore):
    """Acknowledges every fourth group without storing it."""

    count = 0

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        self.count += 1
        if self.count % 4 == 0 and self.inner.head().size:
            page = self.inner.read(Query(), after=0, until=1, limit=1, reverse=False, hint=None)
            return [[page.rows[0]] * len(group.drafts) for group in groups]
        return self.inner.append(groups)


class SkipsInReads(PassingStore):
    """Never shows position 3."""

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        page = self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        return page._replace(rows=[row for row in page.rows if row[0] != 3])


class StoresTwice(PassingStore):
    """Gives a known event a new id, as if it were another."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        for group in groups:
            for draft in group.drafts:
                if self.inner.get([draft.columns[0]]):
                    draft.columns = (new_id(), *draft.columns[1:])
                    draft.head = draft.head.replace(b'"event_id":"', b'"event_id":"', 1)
        return self.inner.append(groups)


class SwallowsConflicts(PassingStore):
    """Answers a conflict with the entry that is there."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes = self.inner.append(groups)
        for index, (group, outcome) in enumerate(zip(groups, outcomes, strict=True)):
            if isinstance(outcome, EventConflict):
                known = self.inner.get([draft.columns[0] for draft in group.drafts])
                outcomes[index] = list(known.values())
        return outcomes


class TearsBatches(PassingStore):
    """Stores each event of a batch by itself."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for group in groups:
            whole: list[Row] = []
            failed: Outcome | None = None
            for draft in group.drafts:
                (outcome,) = self.inner.append([Group([draft])])
                if isinstance(outcome, list):
                    whole += outcome
                else:
                    failed = outcome
            outcomes.append(failed if failed is not None else whole)
        return outcomes


class IgnoresExpectations(PassingStore):
    """Takes an event whatever sequence its caller expected."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        return self.inner.append([Group(group.drafts) for group in groups])


class ExpectsOneMore(PassingStore):
    """Is always one off with what it found."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        return [
            SequenceConflict(outcome.correlation_id, outcome.wanted, outcome.found + 1)
            if isinstance(outcome, SequenceConflict)
            else outcome
            for outcome in self.inner.append(groups)
        ]


class LosesLeaves(PassingStore):
    """Shows leaves that follow from nothing."""

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        page = self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        return page._replace(rows=[(*row[:12], bytes(32), *row[13:]) for row in page.rows])


class NeverErases(PassingStore):
    """Records an erasure and keeps the payload."""

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        (outcome,) = self.inner.append([Group([record])])
        assert isinstance(outcome, list)
        return outcome[0]


class LosesBlobs(PassingStore):
    """Has never heard of a blob."""

    def blob(self, digest: bytes) -> None:
        return None


class ForgetsChildren(PassingStore):
    """Knows no child runs."""

    def children(self, correlation_id: str) -> list[str]:
        return []


class SavesOverOthers(PassingStore):
    """Stores a projection's state whoever was faster."""

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        return self.inner.save_states(name, version, self.inner.checkpoint(name, version), after, states)


class ListsOtherKeys(PassingStore):
    """Lists the keys of a projection whatever they begin with."""

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        return self.inner.keys(name, version, after=after, limit=limit, reverse=reverse)


BROKEN: list[tuple[type[PassingStore], int | str]] = [
    (ForgetsToStore, 2),
    (SkipsInReads, 2),
    (StoresTwice, 3),
    (SwallowsConflicts, 3),
    (TearsBatches, 4),
    (IgnoresExpectations, 5),
    (ExpectsOneMore, 5),
    (LosesLeaves, 7),
    (NeverErases, "erasing"),
    (LosesBlobs, "blobs"),
    (ForgetsChildren, "reading"),
    (SavesOverOthers, "projections"),
    (ListsOtherKeys, "projections"),
]


@pytest.mark.parametrize(("broken", "topic"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_store_that_breaks_a_promise_is_told_so(broken: type[PassingStore], topic: int | str) -> None:
    def wrap(store: Store) -> Store:
        return broken(store)

    with Bench("memory:", wrap=wrap, seed=7) as bench:
        asked = [check for check in checks() if check.topic == topic and not check.unclaimed(bench)]
        assert asked
        assert any(check.run(bench, seconds_max=3).status == "failed" for check in asked)


def named(name: str) -> Any:
    (found,) = [check for check in checks() if check.name == name]
    return found


BROKEN_IN_PROCESSES = [
    ("LosesWhatChildrenRecord", ".db", "forks_in_the_middle_of_a_load_in_the_background_lose_nothing"),
    (
        "KeepsItsLockOverForks",
        ".db",
        "a_fork_in_the_middle_of_an_append_of_another_thread_hangs_nobody_and_loses_nothing",
    ),
    ("IgnoresForks", "", "a_forked_child_can_use_an_open_ledger_or_is_told_that_it_cannot"),
    ("LosesWhatIsLeftAtExit", "", "a_script_that_ends_in_whatever_way_has_stored_everything_accepted"),
    ("LosesWhatIsLeftAtExit", ".db", "a_script_that_ends_in_whatever_way_has_stored_everything_accepted"),
    ("HoldsTheExit", "", "a_script_that_ends_in_whatever_way_has_stored_everything_accepted"),
    ("TakesASignal", "", "no_signal_handler_and_no_atexit_handler_is_taken"),
    ("TakesTheExit", "", "no_signal_handler_and_no_atexit_handler_is_taken"),
    ("LeavesDescriptors", "", "many_openings_and_closings_leave_no_threads_and_no_descriptors"),
]


@pytest.mark.parametrize(
    ("broken", "suffix", "name"),
    BROKEN_IN_PROCESSES,
    ids=[f"{one[0]}{one[1]}" for one in BROKEN_IN_PROCESSES],
)
def test_a_store_that_forgets_forks_and_exits_is_told_so(
    broken: str, suffix: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(exits, "EXIT_SECONDS_MAX", 3.0)
    wrap = getattr(importlib.import_module("broken_in_processes"), broken)
    url = str(tmp_path / f"broken{suffix}") if suffix else "memory:"
    with Bench(url, wrap=wrap, seed=7) as bench:
        result = named(name).run(bench)
    assert result.status == "failed"
    assert "ImportError" not in result.detail and "ModuleNotFound" not in result.detail, result.detail


async def _aclose_on_the_loop(ledger: Ledger) -> None:
    ledger.close()


async def _arecord_on_the_loop(recorder: Recorder, group: Group) -> Any:
    return recorder.commit(group)


def _record_swallows(ledger: Ledger, *given: Any, _record: Any = Ledger.record, **options: Any) -> Any:
    try:
        return _record(ledger, *given, **options)
    except LedgerError:
        return None


def _record_raises(recorder: SafeRecorder, *events: Any) -> None:
    recorder.ledger.record_many(events)


def _record_waits(recorder: SafeRecorder, *events: Any) -> None:
    if not recorder._queued_behind(events):
        try:
            recorder.ledger.record_many(events)
        except Exception as error:
            recorder._failed(events, error)


async def _arecord_waits(recorder: SafeRecorder, *events: Any) -> None:
    _record_waits(recorder, *events)


def _keep_everything(recorder: SafeRecorder, events: Sequence[Any]) -> None:
    recorder._kept.extend((event, 0) for event in events)
    recorder._start()


def _drop_silently(recorder: SafeRecorder, event: Any, size: int, reason: str) -> None:
    recorder.dropped += 1


def _keep_with_new_ids(
    recorder: SafeRecorder, events: Sequence[Any], _keep: Any = SafeRecorder._keep
) -> None:
    _keep(recorder, [{**event, "event_id": uuid_text(new_id())} for event in events])


BROKEN_RECORDERS: list[tuple[type, str, Callable[..., Any], str]] = [
    (
        Ledger,
        "aclose",
        _aclose_on_the_loop,
        "aclose_never_holds_the_event_loop_while_the_store_takes_its_time",
    ),
    (Recorder, "acommit", _arecord_on_the_loop, "a_full_queue_holds_tasks_and_not_the_event_loop"),
    (Ledger, "record", _record_swallows, "the_users_own_record_raises_where_an_adapter_does_not"),
    (
        SafeRecorder,
        "record",
        _record_raises,
        "an_adapter_never_raises_and_a_store_that_is_back_gets_the_same_events_in_order",
    ),
    (
        SafeRecorder,
        "record",
        _record_waits,
        "a_store_that_hangs_holds_up_plain_code_once_and_no_longer_than_the_limit",
    ),
    (
        SafeRecorder,
        "arecord",
        _arecord_waits,
        "a_store_that_hangs_holds_up_tasks_once_and_no_longer_than_the_limit",
    ),
    (SafeRecorder, "_keep", _keep_everything, "the_bytes_that_an_adapter_keeps_are_bounded"),
    (
        SafeRecorder,
        "_drop",
        _drop_silently,
        "what_is_above_the_limits_is_dropped_and_told_as_a_gap_with_right_counts",
    ),
    (
        SafeRecorder,
        "_keep",
        _keep_with_new_ids,
        "a_recording_whose_answer_was_lost_is_retried_and_stored_once",
    ),
]


@pytest.mark.parametrize(
    ("owner", "method", "broken", "name"), BROKEN_RECORDERS, ids=[one[2].__name__ for one in BROKEN_RECORDERS]
)
def test_a_recorder_that_harms_the_run_is_told_so(
    owner: type, method: str, broken: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "RELEASE_SECONDS", 1.5)
    with Bench("memory:", seed=7) as bench:
        assert named(name).run(bench, seconds_max=20).status == "passed"
        monkeypatch.setattr(owner, method, broken)
        assert named(name).run(bench, seconds_max=20).status == "failed"
        monkeypatch.undo()


@pytest.mark.parametrize("topic", dict.fromkeys(topic for _, topic in BROKEN))
def test_the_same_store_unbroken_keeps_the_promise(topic: int | str) -> None:
    report = run("memory:", wrap=PassingStore, seed=7, only=str(topic))
    assert report.ok, [(result.name, result.detail) for result in report.failures]
    assert any(result.topic == topic and result.status == "passed" for result in report.results)
