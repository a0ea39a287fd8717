"""Runs of stored projections: each entry once, over threads, processes and kills, at the cost of what is new."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.projections import base, engine, running
from chatsnapshot.projections.base import get
from chatsnapshot.projections.refolding import digest_at, verify
from chatsnapshot.projections.standing import status
from chatsnapshot.projections.storing import Slot
from chatsnapshot.stores.base import Page
from chatsnapshot.testing.conformance import Bench
from chatsnapshot.testing.samples import events, varied
from chatsnapshot.testing.together import in_threads
from chatsnapshot.testing.wrappers import PassingStore

HERE = Path(__file__).parent
STORES = {"memory": "memory:", "sqlite": "runs.db", "jsonl": "runs.jsonl"}


def load_counted() -> Any:
    spec = importlib.util.spec_from_file_location("counted", HERE / "counted.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


counted = load_counted()
Projection = counted.TakenProjection


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = STORES[request.param]
    return name if name == "memory:" else str(tmp_path / name)


@pytest.fixture
def ledger(url: str) -> Iterator[Any]:
    with chatsnapshot.open(url, validation="off") as opened:
        yield opened


def positions(ledger: Any) -> list[int]:
    slot = engine.find_slot(ledger._store, Projection())
    assert slot is not None
    found = [slot.load(key) for key in slot.all_keys()]
    return sorted(position for held in found if held is not None for position in held.state.positions)


def test_a_run_takes_what_is_new_and_says_how_much(ledger: Any) -> None:
    ledger.record_many(events(30))
    (first,) = engine.run(ledger, [Projection])
    (again,) = engine.run(ledger, [Projection])
    ledger.record_many(events(5, "run-2"))
    (more,) = engine.run(ledger, ["test_taken"])
    assert [(one.position, one.taken) for one in (first, again, more)] == [(30, 30), (30, 0), (35, 5)]
    assert positions(ledger) == list(range(1, 36))


def test_a_run_up_to_a_position_knows_nothing_of_what_follows(ledger: Any) -> None:
    ledger.record_many(events(20))
    engine.run(ledger, [Projection], until=7)
    assert positions(ledger) == list(range(1, 8))
    assert verify(ledger, Projection).verdict == "same"


def test_every_projection_that_is_known_runs_in_one_pass(url: str, tmp_path: Path) -> None:
    read: list[int] = []

    class Counts(PassingStore):
        def read(self, query: Any, **options: Any) -> Page:
            page = self.inner.read(query, **options)
            read.append(len(page.rows))
            return page

    with Bench(url) as bench:
        ledger, _ = bench.open_with(Counts)
        ledger.record_many(varied(random.Random(1), 200))
        done = engine.run(ledger)
        assert {one.position for one in done} == {200}
        assert sum(read) == 200
        assert {"runs", "timeline", "transcript", "graph", "test_taken"} <= {one.name for one in done}


def test_catching_up_reads_new_entries_only(url: str) -> None:
    read: list[int] = []

    class Counts(PassingStore):
        def read(self, query: Any, **options: Any) -> Page:
            page = self.inner.read(query, **options)
            read.extend(row[0] for row in page.rows)
            return page

    with Bench(url) as bench:
        ledger, _ = bench.open_with(Counts)
        for number in range(40):
            ledger.record_many(events(10, f"run-{number}"))
        engine.run(ledger)
        ledger.record_many(events(3, "run-7"))
        read.clear()
        engine.run(ledger)
        # Besides, the leaf at the checkpoint is looked at, once for each projection.
        assert sorted({one for one in read if one != 400}) == [401, 402, 403]
        assert len([one for one in read if one > 400]) == 3
        read.clear()
        ledger.view("transcript", "run-7")
        assert {one for one in read if one < 400} == set()


@pytest.mark.parametrize("runners", [2, 3])
def test_runners_on_threads_take_each_entry_once(
    ledger: Any, runners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "BATCH_MIN", 3)
    monkeypatch.setattr(running, "BATCH_MAX", 3)
    ledger.record_many(events(60))

    def run() -> int:
        return engine.run(ledger, [Projection])[0].taken

    def write() -> int:
        return len([ledger.record(**one) for one in events(40, "run-2")])

    *taken, wrote = in_threads([run] * runners + [write])
    assert wrote == 40
    engine.run(ledger, [Projection])
    assert positions(ledger) == list(range(1, 101))
    assert verify(ledger, Projection).verdict == "same"
    assert all(isinstance(one, int) for one in taken)


class Runner:
    """The program of ``counted.py`` in a process."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "counted.py"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        while self.line():
            pass
        assert self.process.wait(30) == 0
        self.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_two_runners_in_processes_never_both_take_an_entry(tmp_path: Path, name: str) -> None:
    url = str(tmp_path / name)
    with chatsnapshot.open(url, validation="off") as ledger:
        ledger.record_many(varied(random.Random(2), 200))
    runners = [Runner(url), Runner(url)]
    for runner in runners:
        runner.go()
    for runner in runners:
        runner.end()
    with chatsnapshot.open(url) as ledger:
        assert positions(ledger) == list(range(1, 201))
        assert verify(ledger, Projection).verdict == "same"


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_runner_killed_at_any_point_has_taken_each_entry_once(tmp_path: Path, name: str) -> None:
    url, chance = str(tmp_path / name), random.Random(5)
    with chatsnapshot.open(url, validation="off") as ledger:
        ledger.record_many(varied(chance, 300))
    reached = []
    for _ in range(4):
        runner = Runner(url)
        runner.go()
        for _ in range(chance.randint(1, 12)):
            if runner.line() == "over":
                break
        runner.kill()
        with chatsnapshot.open(url, read_only=True, create=False) as ledger:
            slot = engine.find_slot(ledger._store, Projection())
            at = slot.checkpoint() if slot is not None else None
            reached.append(0 if at is None else at.position)
            if at is not None:
                assert positions(ledger) == list(range(1, at.position + 1))
                assert verify(ledger, Projection).verdict == "same"
    assert reached == sorted(reached)
    assert reached[-1] > 0
    with chatsnapshot.open(url) as ledger:
        engine.run(ledger, [Projection])
        assert positions(ledger) == list(range(1, 301))


@given(st.lists(st.integers(1, 60), max_size=5), st.integers(0, 1_000))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_splitting_catch_up_anywhere_gives_the_digest_of_one_fold(cuts: list[int], seed: int) -> None:
    chance = random.Random(seed)
    judged = [
        {
            "event_type": "execution.evaluation",
            "correlation_id": f"run-{chance.randrange(3)}",
            "payload": {"name": "good", "score": chance.choice([1, 1.5, "2"]), "run_id": "run-1"},
        }
        for _ in range(12)
    ]
    recorded = varied(chance, 48) + judged
    chance.shuffle(recorded)
    with chatsnapshot.open("memory:", validation="off") as ledger:
        ledger.record_many(recorded)
        for cut in sorted(cuts):
            engine.run(ledger, until=cut)
        engine.run(ledger)
        for one in status(ledger):
            assert one.position == 60
            assert one.digest == digest_at(ledger, one.name, 60), one.name
            assert one.keys == len(_slot(ledger, one.name).all_keys())


def _slot(ledger: Any, name: str) -> Slot:
    slot = engine.find_slot(ledger._store, get(name)())
    assert slot is not None
    return slot


def test_the_counts_of_keys_and_bytes_are_those_of_the_records(ledger: Any) -> None:
    ledger.record_many(varied(random.Random(3), 100))
    engine.run(ledger)
    ledger.record_many(varied(random.Random(4), 100))
    engine.run(ledger)
    for one in status(ledger):
        slot = _slot(ledger, one.name)
        records = [slot.record(key) or b"" for key in slot.all_keys()]
        assert (one.keys, one.state_bytes) == (len(records), sum(map(len, records))), one.name
        assert (one.role, one.behind) == ("current", 0)


def test_states_that_do_not_fit_into_the_cache_are_loaded_again(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.projections import building

    monkeypatch.setattr(building, "CACHE_KEYS_MAX", 1)
    monkeypatch.setattr(running, "BATCH_MIN", 2)
    monkeypatch.setattr(running, "BATCH_MAX", 2)
    ledger.record_many(varied(random.Random(8), 60))
    engine.run(ledger, ["timeline", Projection])
    assert verify(ledger, "timeline").verdict == "same"
    assert positions(ledger) == list(range(1, 61))


def test_an_installed_package_offers_projections_and_a_broken_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Offered(Projection):  # type: ignore[misc, valid-type]
        name = "test_offered"

    class Point:
        def __init__(self, name: str, found: Any) -> None:
            self.name, self.value, self.found = name, f"package:{name}", found

        def load(self) -> Any:
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

    points = [Point("broken", ImportError("no such module")), Point("offered", Offered)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.setattr(base, "_loaded", [])
    with chatsnapshot.open("memory:") as ledger:
        ledger.record_many(events(3))
        assert ledger.view("test_offered", "by type execution.message").positions == [1, 2, 3]
    assert "package:broken cannot be loaded: no such module" in caplog.text
