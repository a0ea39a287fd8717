"""Lists and views out of stored states say what a fold of the whole history says, at the cost of what is shown."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.projections import engine
from chatsnapshot.projections.standing import status
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.stores.base import Page
from chatsnapshot.testing.conformance import Bench
from chatsnapshot.testing.samples import events
from chatsnapshot.testing.wrappers import PassingStore

VIEWS = ("runs", "timeline", "transcript", "graph")


class Bare:
    """A ledger without its store: what reads it folds the entries themselves."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger

    def read(self, **options: Any) -> Any:
        return self.ledger.read(**options)

    def replay(self, *arguments: Any, **options: Any) -> Any:
        return self.ledger.replay(*arguments, **options)

    def get(self, event_id: str) -> Any:
        return self.ledger.get(event_id)


def tangled(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Runs that cause each other in any order, also in rings, and that are judged from elsewhere."""
    ids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count)]
    made = []
    for number in range(count):
        run = f"run-{chance.randrange(8)}"
        kind = chance.choice(
            ["run_started", "message", "tool_call", "tool_result", "run_completed", "evaluation"]
        )
        payload: dict[str, Any] = {"name": "n", "content": f"said {number}", "call_id": chance.choice("abc")}
        if kind == "evaluation":
            payload = {"name": "good", "score": number, "run_id": f"run-{chance.randrange(8)}"}
        cause = chance.choice([None, chance.choice(ids), str(uuid.UUID(int=5))])
        made.append(
            {
                "event_type": f"execution.{kind}",
                "payload": payload,
                "correlation_id": run,
                "event_id": ids[number],
                "causation_id": None if cause == ids[number] else cause,
            }
        )
    return made


@given(st.integers(0, 10_000), st.integers(5, 40), st.integers(0, 40), st.integers(1, 4))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_from_stored_states_is_what_a_fold_gives(
    seed: int, count: int, stored: int, last: int
) -> None:
    chance = random.Random(seed)
    with chatsnapshot.open("memory:", validation="off") as ledger:
        recorded = tangled(chance, count)
        ledger.record_many(recorded[:stored])
        engine.run(ledger)
        ledger.record_many(recorded[stored:])
        bare = Bare(ledger)
        until = chance.randint(1, count)
        for options in ({}, {"until": until}, {"last": last}, {"until": until, "last": last}):
            found = list_runs(ledger, **options)
            assert msgspec.json.encode(found) == msgspec.json.encode(list_runs(bare, **options)), options
        for condition in ("good>=3", "good"):
            found = list_runs(ledger, last=last, evaluation=condition)
            wanted = list_runs(bare, last=last, evaluation=condition)
            assert msgspec.json.encode(found) == msgspec.json.encode(wanted)
        for run in {one["correlation_id"] for one in recorded[:until]}:
            for name in VIEWS:
                for options in ({}, {"until": until}, {"children": False}):
                    found = _view(ledger, name, run, options)
                    assert found == _view(bare, name, run, options), (name, run, options)


def _view(ledger: Any, name: str, run: str, options: dict[str, Any]) -> bytes | None:
    try:
        return msgspec.json.encode(view(ledger, name, run, **options))
    except chatsnapshot.NotFound:
        return None


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_read_only_reader_folds_what_is_new_in_memory_and_stores_nothing(tmp_path: Path, name: str) -> None:
    path, recorded = tmp_path / name, tangled(random.Random(4), 60)
    with chatsnapshot.open(path, validation="off") as ledger:
        with chatsnapshot.open(path, read_only=True) as reader:
            assert list_runs(reader) == []
        ledger.record_many(recorded[:30])
        with chatsnapshot.open(path, read_only=True) as reader:
            assert list_runs(reader) == list_runs(Bare(reader))
            assert {one.role for one in status(reader)} == {"none"}
        engine.run(ledger)
        ledger.record_many(recorded[30:])
        with chatsnapshot.open(path, read_only=True) as reader:
            assert list_runs(reader) == list_runs(Bare(reader))
            assert list_runs(reader, last=2) == list_runs(Bare(reader), last=2)
            assert reader.view("timeline", "run-1") == view(Bare(reader), "timeline", "run-1")
            assert {one.position for one in status(reader) if one.name != "transcript"} == {30}


class Counts(PassingStore):
    """Counts the rows that are read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.rows = self.states = 0

    def read(self, query: Any, **options: Any) -> Page:
        page = self.inner.read(query, **options)
        self.rows += len(page.rows)
        return page

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        self.states += 1
        return self.inner.load_state(name, version, key)


def test_the_last_runs_cost_what_is_shown(tmp_path: Path) -> None:
    costs = []
    for runs in (100, 300):
        with Bench(str(tmp_path / "runs.db")) as bench:
            ledger, store = bench.open_with(Counts)
            for number in range(runs):
                ledger.record_many(events(5, f"run-{number}"))
            list_runs(ledger)
            store.rows = store.states = 0
            assert [run.run_id for run in list_runs(ledger, last=3)] == [
                f"run-{number}" for number in range(runs - 3, runs)
            ]
            costs.append((store.rows, store.states))
    assert costs[0] == costs[1]
    assert costs[0][0] < 20


def test_a_view_whose_state_is_stored_reads_no_entry_of_before(tmp_path: Path) -> None:
    with Bench(str(tmp_path / "runs.db")) as bench:
        ledger, store = bench.open_with(Counts)
        ledger.record_many(events(900))
        ledger.view("transcript", "run-1")
        store.rows = 0
        assert len(ledger.view("transcript", "run-1").items) == 900
        assert store.rows <= 2
        ledger.record_many(events(3, first=900))
        store.rows = 0
        assert len(ledger.view("transcript", "run-1").items) == 903
        assert 3 <= store.rows <= 6
        assert [one.position for one in status(ledger) if one.name == "transcript"] == [900]
        ledger.record_many(events(100, first=903))
        assert len(ledger.view("transcript", "run-1").items) == 1_003
        assert [one.position for one in status(ledger) if one.name == "transcript"] == [1_003]


def test_a_view_stores_nothing_of_a_long_history_by_itself(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record_many(events(1_500, "long"))
        ledger.record_many(events(2, "short"))
        assert len(ledger.view("timeline", "short").items) == 2
        assert {one.role for one in status(ledger)} == {"none"}


def test_a_store_that_refuses_states_still_gives_views(tmp_path: Path) -> None:
    class Refuses(PassingStore):
        def save_states(self, *arguments: Any) -> bool:
            raise chatsnapshot.StoreFull("no space left")

    with Bench(str(tmp_path / "runs.db")) as bench:
        ledger, _ = bench.open_with(Refuses)
        ledger.record_many(events(5))
        assert len(ledger.view("timeline", "run-1").items) == 5
        assert [run.events for run in list_runs(ledger)] == [5]
