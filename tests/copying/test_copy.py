"""A copy between any two stores is the same history, whole, and goes on where it was left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import CommitUncertain, Corrupt, LedgerError, NotFound, StoreFull
from chatsnapshot.copying import copy
from chatsnapshot.copying.batches import BATCH_BYTES_MAX, Batches
from chatsnapshot.copying.comparing import first_difference, root_at
from chatsnapshot.copying.places import Place
from chatsnapshot.stores.base import Page, Query, Row
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.wrappers import PassingStore

FILES, SERVERS = ["memory", "sqlite", "jsonl"], ["postgresql", "mongodb", "nats"]
PAIRS = [
    *[(one, other) for one in FILES for other in FILES],
    *[("sqlite", server) for server in SERVERS],
    *[(server, "jsonl") for server in SERVERS],
    *[("postgresql", "nats"), ("nats", "mongodb"), ("mongodb", "postgresql")],
]
NewPlace = Callable[[str], Place]


@pytest.mark.parametrize(("of", "to"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_copy_has_the_same_entries_blobs_and_root_and_follows_later_erasures(
    of: str, to: str, new_place: NewPlace, kit: Any
) -> None:
    source, target = new_place(of), new_place(to)
    first = kit.opened(source)
    kit.fill(first)
    made = copy(source, target)
    kit.same(source, target)
    assert (made.head, made.entries, made.verified) == (first.head, first.head, True)
    assert made.root == first.verify().root
    assert made.erased == 3

    first.record_many(events(30, "later"))
    first.erase([7, first.head - 30], reason="asked to")  # one with a blob of its own, copied already
    again = copy(source, target, verify=False)
    assert (again.entries, again.verified, again.erased) == (31, False, None)
    kit.same(source, target)
    assert copy(source, target).entries == 0
    if first is not source:
        first.close()


@pytest.mark.parametrize("to", ["sqlite", "jsonl"])
def test_an_empty_ledger_is_copied_too(to: str, new_place: NewPlace, kit: Any) -> None:
    source, target = new_place("sqlite"), new_place(to)
    chatsnapshot.open(str(source)).close()
    assert copy(source, target).head == 0
    kit.same(source, target)


def test_a_backup_that_was_put_elsewhere_is_brought_up_to_date(new_place: NewPlace, kit: Any) -> None:
    from chatsnapshot.backup import backup

    source, target = str(new_place("sqlite")), str(new_place("sqlite"))
    with chatsnapshot.open(source) as ledger:
        kit.fill(ledger)
        backup(source, target)
        ledger.record_many(events(5))
    assert copy(source, target).entries == 5
    kit.same(source, target)


# --- refusals ---


def test_another_history_is_refused_and_where_they_part_is_named(new_place: NewPlace, kit: Any) -> None:
    source, target, other = new_place("sqlite"), new_place("jsonl"), new_place("sqlite")
    with chatsnapshot.open(str(source)) as ledger:
        ledger.record_many(events(700))
    copy(source, other)
    with chatsnapshot.open(str(target)) as ledger, chatsnapshot.open(str(other)) as same:
        for first in range(0, 413, 100):
            store_of(ledger).import_rows(kit.rows(same)[first : min(first + 100, 413)], {})
        ledger.record_many(events(20, "own"))
        before = ledger.head
    with pytest.raises(LedgerError, match=r"holds another history .* differ from position 414 on"):
        copy(source, target)
    with chatsnapshot.open(str(target)) as ledger:
        assert ledger.head == before


def test_a_target_that_is_ahead_is_refused(new_place: NewPlace) -> None:
    source, target = new_place("sqlite"), new_place("sqlite")
    for place, count in ((source, 3), (target, 4)):
        with chatsnapshot.open(str(place)) as ledger:
            ledger.record_many(events(count))
    with pytest.raises(LedgerError, match=r"ends at position 4 and .* at 3: it is another history"):
        copy(source, target)


def test_the_ledger_itself_is_refused_as_target_by_whatever_name(tmp_path: Path) -> None:
    path, link = tmp_path / "runs.db", tmp_path / "link.db"
    with chatsnapshot.open(path) as ledger:
        ledger.record(**event(1))
    os.symlink(path, link)
    for target in (str(path), f"sqlite://{path}", str(link), f"{path}?ledger=main"):
        with pytest.raises(LedgerError, match="is the source itself"):
            copy(path, target)
    with chatsnapshot.open(path) as ledger, pytest.raises(LedgerError, match="one ledger"):
        copy(ledger, ledger)
    assert copy(path, f"{path}?ledger=beside").entries == 1


def test_no_source_and_no_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no ledger at"):
        copy(tmp_path / "none.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    chatsnapshot.open(tmp_path / "runs.db").close()
    with pytest.raises(LedgerError, match="does not exist") as caught:
        copy(tmp_path / "runs.db", tmp_path / "nowhere" / "copy.db")
    assert not isinstance(caught.value, NotFound)


def test_the_source_may_be_a_file_that_cannot_be_written(tmp_path: Path, kit: Any) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        kit.fill(ledger)
    os.chmod(tmp_path / "runs.db", 0o400)
    copy(tmp_path / "runs.db", tmp_path / "copy.jsonl")
    kit.same(tmp_path / "runs.db", tmp_path / "copy.jsonl")


# --- damage and failures ---


class Changed(PassingStore):
    """A source of which one read is not what it was."""

    change: Callable[[Row], Row | None]

    def read(self, query: Query, **options: Any) -> Page:  # type: ignore[override]
        page = self.inner.read(query, **options)
        rows = [row for row in map(self.change, page.rows) if row is not None]
        return page._replace(rows=rows)


def test_a_damaged_source_is_refused_at_the_position_and_nothing_of_it_is_stored(kit: Any) -> None:
    with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
        source.record_many(events(2_500))
        changed = Changed(store_of(source))
        changed.change = lambda row: (*row[:9], b"{}", *row[10:]) if row[0] == 2_222 else row  # type: ignore[return-value]
        with pytest.raises(Corrupt, match="2222") as caught:
            copy(kit.over(changed), target)
        assert caught.value.position == 2_222
        assert target.head == 2_000
        changed.change = lambda row: None if row[0] == 2_333 else row
        with pytest.raises(Corrupt, match=r"position 2333 .* is missing"):
            copy(kit.over(changed), target)
        changed.change = lambda row: row
        copy(kit.over(changed), target)
        kit.same(source, target)


def test_a_blob_that_is_missing_or_damaged_is_named(kit: Any) -> None:
    class Blobs(PassingStore):
        found: list[bytes] | None = None

        def blob(self, digest: bytes) -> list[bytes] | None:
            return self.found

    with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
        source.record(**event(1, payload={"data": b"\x07" * 50_000}))
        broken = Blobs(store_of(source))
        with pytest.raises(Corrupt, match=r"blob sha256:.* of position 1 .* is missing"):
            copy(kit.over(broken), target)
        broken.found = [b"\x07" * 49_999, b"\x08"]
        with pytest.raises(Corrupt, match="does not hash to its name"):
            copy(kit.over(broken), target)
        assert target.head == 0


class Failing(PassingStore):
    """A target whose imports fail as told: before or after the store inside has taken them."""

    def __init__(self, inner: Any, plan: Iterator[str]) -> None:
        super().__init__(inner)
        self.plan = plan
        self.sizes: list[int] = []

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        self.sizes.append(len(rows))
        step = next(self.plan, "")
        if step == "full":
            raise StoreFull("no space")
        if step != "lost":
            self.inner.import_rows(rows, blobs)
        if step in ("lost", "unanswered"):
            raise CommitUncertain("no answer")


def test_a_full_target_keeps_what_it_has_and_the_next_copy_goes_on(kit: Any) -> None:
    with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
        kit.fill(source, count=2_300)
        with pytest.raises(StoreFull):
            copy(source, kit.over(Failing(store_of(target), iter(["", "full"]))))
        assert target.head == 1_000
        assert copy(source, target).entries == source.head - 1_000
        kit.same(source, target)


def test_an_uncertain_commit_is_looked_at_and_nothing_is_copied_twice(kit: Any) -> None:
    with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
        kit.fill(source, count=3_300)
        failing = Failing(store_of(target), iter(["unanswered", "lost", "", "unanswered"]))
        copy(source, kit.over(failing))
        kit.same(source, target)
        with pytest.raises(CommitUncertain):
            copy(source, kit.over(Failing(kit.memory_copy(source)._store, iter(["lost"] * 9))))


# --- what happens in the source meanwhile ---


def test_a_payload_that_is_erased_while_it_is_copied_comes_with_its_record(kit: Any) -> None:
    """The copy ends at the head of its start, unless a payload is gone whose record stands further on."""
    with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
        source.record_many(events(1_500))
        source.record(**event(1, "blob", payload={"data": b"\x09" * 60_000}))

        class Erasing(PassingStore):
            def read(self, query: Query, **options: Any) -> Page:  # type: ignore[override]
                page = self.inner.read(query, **options)
                if options["after"] == 1_000 and options["until"] == 1_501 and source.head == 1_501:
                    source.record_many(events(200, "more"))
                    # One that was read and not yet taken, whose blob is gone now; one that was not read yet.
                    source.erase([1_501, 1_400], reason="just now")
                    page = page._replace(rows=[row for row in page.rows if row[0] != 1_400])
                    page = page._replace(rows=page.rows[:399])
                return page

        made = copy(kit.over(Erasing(store_of(source))), target)
        assert made.head == 1_702
        kit.same(source, target)


def test_a_blob_comes_again_when_the_target_may_have_let_go_of_it(kit: Any) -> None:
    data = b"\x0a" * 60_000
    for events_max in (1, 2, 1_000):
        with chatsnapshot.open("memory:") as source, chatsnapshot.open("memory:") as target:
            batches = Batches(store_of(source), events_max)

            def take(after: int, batches: Batches = batches, ends: Any = (source, target)) -> int:
                for batch in batches.between(after, ends[0].head):
                    store_of(ends[1]).import_rows(batch.rows, batch.blobs)
                return int(ends[0].head)

            first = source.record(**event(1, payload={"data": data}))
            done = take(0)
            source.record(**event(2, payload={"data": data}))  # known to be there: not sent again
            (again,) = Batches(store_of(source), 9).between(1, 2)
            assert list(again.blobs.values()) == [data]
            done = take(done)
            source.erase([first.position, 2], reason="asked to")
            source.record(**event(3, payload={"data": data}))
            take(done)
            kit.same(source, target)


# --- batches ---


def test_batches_keep_to_what_the_target_takes_and_to_a_size(kit: Any) -> None:
    with chatsnapshot.open("memory:") as source:
        source.record_many(events(120))
        source.record_many([event(number, "large", payload={"text": "x" * 200_000}) for number in range(60)])
        source.record_many(
            [event(number, "blobs", payload={"data": bytes([number]) * 900_000}) for number in range(12)]
        )
        found = list(Batches(store_of(source), 50).between(0, source.head))
        assert [row[0] for batch in found for row in batch.rows] == list(range(1, source.head + 1))
        assert max(len(batch.rows) for batch in found) == 50
        assert max(batch.bytes for batch in found) < BATCH_BYTES_MAX + 1_000_000
        assert sum(len(batch.blobs) for batch in found) == 12


# --- roots ---


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 600, 66_000])
def test_the_root_of_a_prefix_is_that_of_a_ledger_with_only_it(size: int) -> None:
    with chatsnapshot.open("memory:") as long, chatsnapshot.open("memory:") as short:
        for first in range(0, size + 300, 10_000):
            long.record_many(events(min(10_000, size + 300 - first), first=first))
        rows = [entry._identity() for entry in long.read(until=size)]
        store_of(short).import_rows(rows, {})
        head = store_of(short).head()
        assert root_at(store_of(long), size, long.head) == root_at(store_of(short), size, head.size)
        assert root_at(store_of(long), size, long.head).hex() == short.verify().root
        short.record(**event(-1, "own"))
        assert first_difference(store_of(long), store_of(short), size + 1) == size + 1
