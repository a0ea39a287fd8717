"""A suite that never fails shows nothing: stores that break one promise each, and the suite that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chatsnapshot.clock import new_id
from chatsnapshot.errors import EventConflict, SequenceConflict
from chatsnapshot.stores.base import Checkpoint, Draft, Group, Outcome, Page, Query, Row, Store
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
]


@pytest.mark.parametrize(("broken", "topic"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_store_that_breaks_a_promise_is_told_so(broken: type[PassingStore], topic: int | str) -> None:
    def wrap(store: Store) -> Store:
        return broken(store)

    with Bench("memory:", wrap=wrap, seed=7) as bench:
        asked = [check for check in checks() if check.topic == topic and not check.unclaimed(bench)]
        assert asked
        assert any(check.run(bench, seconds_max=3).status == "failed" for check in asked)


def test_the_same_store_unbroken_keeps_every_promise() -> None:
    report = run("memory:", wrap=PassingStore, seed=7)
    assert report.ok, [(result.name, result.detail) for result in report.failures]
