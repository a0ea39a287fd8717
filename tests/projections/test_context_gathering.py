"""What a context is chosen from: the same out of stored states as out of the entries, without reading these again."""

from __future__ import annotations

import random
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections import engine
from chatsnapshot.projections.context.gathering import gather
from chatsnapshot.stores.base import Page
from chatsnapshot.testing.conformance import Bench
from chatsnapshot.testing.samples import events, varied
from chatsnapshot.testing.wrappers import PassingStore


class Bare:
    """A ledger without its store: what is asked of it is folded anew."""

    def __init__(self, ledger: Any) -> None:
        self.read, self.replay, self.get = ledger.read, ledger.replay, ledger.get


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("children", [True, False])
def test_stored_states_give_what_the_entries_give(seed: int, children: bool) -> None:
    chance = random.Random(seed)
    with chatsnapshot.open("memory:", validation="off") as ledger:
        ledger.record_many(varied(chance, 120))
        engine.run(ledger, ["transcript"], until=80)
        runs = sorted({entry.correlation_id for entry in ledger.read()})
        chosen = chance.sample(runs, min(3, len(runs)))
        until = max(entry.position for run in chosen for entry in [next(iter(ledger.replay(run)))])
        for end in (None, until):
            assert gather(ledger, chosen, end, children) == gather(Bare(ledger), chosen, end, children)


def test_a_context_of_a_stored_run_reads_no_entry_of_it() -> None:
    read: list[int] = []

    class Counts(PassingStore):
        def read(self, query: Any, **options: Any) -> Page:
            page = self.inner.read(query, **options)
            read.extend(row[0] for row in page.rows)
            return page

    with Bench("memory:") as bench:
        ledger, _ = bench.open_with(Counts)
        ledger.record_many(events(150, "run-1"))
        ledger.record_many(events(3, "run-2"))
        engine.run(ledger)
        read.clear()
        gather(ledger, ["run-1"], None, True)
        assert set(read) <= {153}  # the entry at the checkpoint
