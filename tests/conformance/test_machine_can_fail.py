"""Random histories agree with the model on our stores, and show stores that break a promise where they break it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from chatsnapshot.errors import EventConflict, SequenceConflict
from chatsnapshot.stores.base import EVENT_TYPE, Group, Head, Outcome, Page, Query, Row
from chatsnapshot.testing.conformance import Bench, run
from chatsnapshot.testing.expecting import Failed
from chatsnapshot.testing.machine import run_histories
from chatsnapshot.testing.wrappers import PassingStore


@pytest.mark.faults  # those of the suite are shorter, and with each store in make test
@pytest.mark.parametrize("url", ["memory:", "runs.db", "runs.jsonl"])
def test_long_histories_agree_with_the_model(url: str, tmp_path: Path) -> None:
    place = url if url == "memory:" else str(tmp_path / url)
    with Bench(place, seed=2026) as bench:
        run_histories(bench, histories=24, steps=60)


class TakesOtherPayloads(PassingStore):
    """Does not look at the payload of an event whose id is known."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes = self.inner.append(groups)
        for index, (group, outcome) in enumerate(zip(groups, outcomes, strict=True)):
            if (
                isinstance(outcome, EventConflict)
                and outcome.fields == ("payload",)
                and len(group.drafts) == 1
            ):
                outcomes[index] = list(self.inner.get([group.drafts[0].columns[0]]).values())
        return outcomes


class SkipsAfterConflicts(PassingStore):
    """Counts a refused event too: the next sequence of its correlation is one too high."""

    skip = 0

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes = self.inner.append(groups)
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, EventConflict):
                self.skip += 1
            elif isinstance(outcome, list) and self.skip:
                outcomes[index] = [(row[0], row[1] + self.skip, *row[2:]) for row in outcome]
        return outcomes


class BringsBack(PassingStore):
    """Shows an erased payload again once its entry was imported elsewhere."""

    seen: ClassVar[dict[bytes, tuple[bytes | None, bytes | None]]] = {}
    imported = False

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes = self.inner.append(groups)
        for outcome in outcomes:
            for row in outcome if isinstance(outcome, list) else ():
                if row[9] is not None:
                    self.seen[row[14]] = row[9], row[13]
        return outcomes

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        self.inner.import_rows(rows, blobs)
        self.imported = True

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        page = self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        if not self.imported:
            return page
        whole = []
        for row in page.rows:
            payload, salt = self.seen.get(row[14], (row[9], row[13]))
            whole.append((*row[:9], payload, *row[10:13], salt, *row[14:]))
        return page._replace(rows=whole)


class MixesFilteredPages(PassingStore):
    """Gives the matches of a filter by type, not by position."""

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        page = self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        return (
            page
            if query.unfiltered
            else page._replace(rows=sorted(page.rows, key=lambda row: row[EVENT_TYPE]))
        )


class LosesTheEndOfPages(PassingStore):
    """Says that a page which is full was the last one."""

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        page = self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)
        return page if query.unfiltered or not page.rows else page._replace(done=True)


class ExpectsBeforeItLooks(PassingStore):
    """Compares the expected sequence also where every event is known."""

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        outcomes = self.inner.append(groups)
        for index, (group, outcome) in enumerate(zip(groups, outcomes, strict=True)):
            if group.expected_sequence is not None and isinstance(outcome, list):
                found = self.inner.last_sequence(outcome[0][7])
                if found != group.expected_sequence and outcome[-1][0] != self.inner.head().size:
                    outcomes[index] = SequenceConflict(outcome[0][7], group.expected_sequence, found)
        return outcomes


class TakesAnyImport(PassingStore):
    """Does not mind where an import begins."""

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        if rows[0][0] == self.inner.head().size + 1:
            self.inner.import_rows(rows, blobs)


class HidesTheLast(PassingStore):
    """Says that the last entry is not there yet."""

    def head(self) -> Head:
        head = self.inner.head()
        return head._replace(size=head.size - 1) if head.size > 12 else head


class ForgetsChildren(PassingStore):
    """Knows no child runs."""

    def children(self, correlation_id: str) -> list[str]:
        return []


BROKEN = {
    TakesOtherPayloads: "wanted EventConflict .*'payload'",
    SkipsAfterConflicts: "(position and )?sequence (at|of)",
    BringsBack: "payload_json at position",
    MixesFilteredPages: "positions read|what tail",
    LosesTheEndOfPages: "positions read|what tail",
    ExpectsBeforeItLooks: "wanted positions .*found SequenceConflict",
    TakesAnyImport: "import of an entry that does not follow .*nothing was raised",
    ForgetsChildren: "child runs of",
    HidesTheLast: r"head: wanted \d+, found \d+|positions answered",
}
"""What each does wrong, as the failure says it."""


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_store_that_breaks_a_promise_is_found(broken: type[PassingStore]) -> None:
    with (
        Bench("memory:", wrap=broken, seed=7) as bench,
        pytest.raises(Failed, match=BROKEN[broken]) as caught,
    ):
        run_histories(bench, histories=200, shrink_seconds_max=0.0)
    _, first, *_ = str(caught.value).splitlines()
    assert first.startswith("1. record_many(")


def test_a_fault_is_told_by_the_few_steps_that_lead_to_it() -> None:
    with Bench("memory:", wrap=TakesAnyImport, seed=7) as bench, pytest.raises(Failed) as caught:
        run_histories(bench, histories=200)
    what, *steps = str(caught.value).splitlines()
    assert what.endswith("; after these steps")
    assert [step.partition("(")[0] for step in steps] == [
        "1. record_many",
        "2. import an entry that does not follow: known",
    ]


class Notes(PassingStore):
    """Writes down what is appended."""

    seen: ClassVar[list[tuple[str, str]]] = []

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        self.seen.extend((draft.columns[1], draft.columns[4]) for group in groups for draft in group.drafts)
        return self.inner.append(groups)


def test_the_same_seed_gives_the_same_histories_and_another_one_others() -> None:
    told = []
    for seed in (5, 5, 6):
        Notes.seen.clear()
        with Bench("memory:", wrap=Notes, seed=seed) as bench:
            run_histories(bench, histories=8)
        told.append(list(Notes.seen))
    assert told[0] == told[1] != told[2]


def test_without_hypothesis_the_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    (result,) = run("memory:", only="any_history_agrees", seed=1).results
    assert (result.status, result.detail) == (
        "skipped",
        "random histories need hypothesis: pip install hypothesis",
    )
