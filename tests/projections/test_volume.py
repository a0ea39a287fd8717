"""Counts of events and bytes: the same as counting every entry, at the cost of what is new."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections import engine
from chatsnapshot.projections.refolding import verify
from chatsnapshot.projections.volume import volume_of
from chatsnapshot.stores.base import Page
from chatsnapshot.testing.conformance import Bench
from chatsnapshot.testing.samples import events, varied
from chatsnapshot.testing.wrappers import PassingStore


@pytest.fixture(params=["memory:", "volume.db", "volume.jsonl"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory:" else str(tmp_path / request.param)


def counted(ledger: Any, until: int | None = None) -> tuple[Any, ...]:
    """The same, entry by entry."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    erased = 0
    for entry in ledger.read(until=until):
        for name in (f"c {entry.correlation_id}", f"t {entry.event_type}"):
            number[name] += 1
            size[name] += len(entry.payload_json or b"")
        erased += entry.erased
    return dict(number), dict(size), erased


def told(ledger: Any, until: int | None = None) -> tuple[Any, ...]:
    found = volume_of(ledger, until)
    both = {f"c {name}": one for name, one in found.correlations.items()}
    both.update((f"t {name}", one) for name, one in found.types.items())
    assert found.whole.events == sum(one.events for one in found.correlations.values())
    return (
        {name: one.events for name, one in both.items()},
        {name: one.payload_bytes for name, one in both.items()},
        found.whole.erased,
    )


@pytest.mark.parametrize("seed", range(3))
def test_it_counts_what_is_there_before_and_after_it_is_stored(url: str, seed: int) -> None:
    chance = random.Random(seed)
    with chatsnapshot.open(url, validation="off") as ledger:
        ledger.record_many(varied(chance, 120))
        assert told(ledger) == counted(ledger)
        ledger.record_many(varied(chance, 60))
        assert told(ledger) == counted(ledger)
        assert told(ledger, 77) == counted(ledger, 77)
        assert verify(ledger, "volume").verdict == "same"


def test_an_erased_payload_has_no_bytes_and_needs_no_new_fold(url: str) -> None:
    with chatsnapshot.open(url) as ledger:
        entries = [ledger.record(**one) for one in events(9)]
        before = volume_of(ledger)
        ledger.erase([entries[3].position, entries[5].position], reason="asked for")
        assert told(ledger) == counted(ledger)
        assert volume_of(ledger).whole.erased == 2
        # As of a position before the erasure: what is gone is gone there too.
        assert told(ledger, 9) == counted(ledger, 9)
        assert before.whole.payload_bytes > volume_of(ledger, 9).whole.payload_bytes
        engine.run(ledger, ["volume"])
        assert verify(ledger, "volume").verdict == "same"


def test_the_largest_come_first_and_times_are_those_of_the_ends(url: str) -> None:
    with chatsnapshot.open(url) as ledger:
        assert volume_of(ledger).first_recorded_at is None
        first = ledger.record("a.b", {"text": "x"}, correlation_id="small")
        last = ledger.record("a.c", {"text": "x" * 500}, correlation_id="large")
        found = volume_of(ledger)
        assert list(found.correlations) == ["large", "small"]
        assert list(found.types) == ["a.c", "a.b"]
        assert (found.first_recorded_at, found.last_recorded_at) == (first.recorded_at, last.recorded_at)


def test_it_reads_what_is_new_only(url: str) -> None:
    read: list[int] = []

    class Counts(PassingStore):
        def read(self, query: Any, **options: Any) -> Page:
            page = self.inner.read(query, **options)
            read.extend(row[0] for row in page.rows)
            return page

    with Bench(url) as bench:
        ledger, _ = bench.open_with(Counts)
        for number in range(20):
            ledger.record_many(events(10, f"run-{number}"))
        volume_of(ledger)
        ledger.record_many(events(3, "run-7"))
        read.clear()
        volume_of(ledger)
        # Besides: the entry at the checkpoint, and the first and last for their times.
        assert set(read) - {1, 200} == {201, 202, 203}
