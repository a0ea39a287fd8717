"""Feeds: batches after a durable cursor, at least once and in order; what is not committed comes again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Corrupt, InvalidEvent, Ledger, LedgerError, Limits, NotFound, ReadOnly, cursors
from chatsnapshot import feed as module


@pytest.fixture(params=["memory", "sqlite", "jsonl"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger goes, once for each store."""
    files = {"memory": "memory:", "sqlite": tmp_path / "runs.db", "jsonl": tmp_path / "runs.jsonl"}
    return str(files[request.param])


def note(ledger: Ledger, count: int, event_type: str = "a.b") -> None:
    ledger.record_many([{"event_type": event_type, "correlation_id": "c"} for _ in range(count)])


def bounds(feed: Any) -> list[tuple[int, int]]:
    return [(batch.after, batch.position) for batch in feed]


def positions(feed: Any) -> list[int]:
    return [entry.position for batch in feed for entry in batch]


def first(feed: Any) -> Any:
    """The next batch, of a loop that is left at once."""
    for batch in feed:
        return batch
    raise AssertionError("there is no batch")


def test_batches_are_whole_entries_in_order_up_to_the_head_of_the_loops_start(ledger: Ledger) -> None:
    note(ledger, 10)
    seen = []
    for batch in ledger.feed("train", batch=4):
        assert batch.name == "train" and len(batch) == len(batch.entries)
        assert list(batch) == list(ledger.read(after=batch.after, until=batch.position))
        seen.append((batch.after, batch.position))
        note(ledger, 1)
    assert seen == [(0, 4), (4, 8), (8, 10)]
    assert bounds(ledger.feed("train", batch=4)) == [(10, 13)]
    assert bounds(ledger.feed("train", batch=4)) == []


def test_a_feed_goes_on_where_it_was_committed_also_in_a_ledger_opened_again(
    url: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(url)
    note(ledger, 5)
    assert positions(ledger.feed("train")) == [1, 2, 3, 4, 5]
    if url != "memory:":
        ledger.close()
        ledger = opened(url)
    note(ledger, 2)
    assert (ledger.feed("train").position, ledger.feed("train").lag) == (5, 2)
    assert positions(ledger.feed("train")) == [6, 7]


def test_consumers_of_different_names_know_nothing_of_each_other(ledger: Ledger) -> None:
    note(ledger, 6)
    assert positions(ledger.feed("one", batch=2)) == [1, 2, 3, 4, 5, 6]
    assert first(ledger.feed("two", batch=2)).position == 2
    assert [(one.name, one.position, one.lag, one.claimed) for one in ledger.feeds()] == [
        ("one", 6, 0, None),
        ("two", 0, 6, 2),
    ]


@pytest.mark.parametrize(("after", "seen"), [(0, [1, 2, 3, 4]), (2, [3, 4]), ("now", [4])])
def test_a_new_feed_begins_where_it_is_told_and_a_known_one_does_not(
    ledger: Ledger, after: Any, seen: list[int]
) -> None:
    note(ledger, 3)
    feed = ledger.feed("train", after=after)
    note(ledger, 1)
    assert positions(feed) == seen
    assert positions(ledger.feed("train", after=0)) == []


@pytest.mark.parametrize("how", ["break", "error", "new object"])
def test_a_batch_that_the_loop_was_left_in_comes_again_with_the_same_bounds(ledger: Ledger, how: str) -> None:
    note(ledger, 6)
    feed = ledger.feed("train", batch=4)
    seen = []
    try:
        for batch in feed:
            seen.append((batch.after, batch.position))
            if batch.after == 4:
                if how == "error":
                    raise OSError("the consumer's disk is full")
                break
    except OSError:
        pass
    note(ledger, 10)
    if how == "new object":
        feed = ledger.feed("train", batch=1_000)
    seen += bounds(feed)
    assert seen[:3] == [(0, 4), (4, 6), (4, 6)]
    assert seen[-1][1] == 16


def test_a_commit_inside_the_loop_counts_at_once_and_once(ledger: Ledger) -> None:
    note(ledger, 4)
    feed = ledger.feed("train", batch=2)
    batch = first(feed)
    assert (batch.commit(), batch.commit(), feed.position) == (True, True, 2)
    assert bounds(feed) == [(2, 4)]
    assert (batch.commit(), feed.position) == (True, 4)


def test_without_auto_commit_the_next_batch_needs_the_commit_of_the_last(ledger: Ledger) -> None:
    note(ledger, 4)
    feed = ledger.feed("train", batch=2, auto_commit=False)
    with pytest.raises(LedgerError, match=r"up to position 2 of feed 'train' is not committed"):
        list(feed)
    seen = []
    for batch in feed:
        seen.append(batch.position)
        batch.commit()
    assert seen == [2, 4]
    assert ledger.feed("train").position == 4


def test_filters_choose_what_is_seen_and_empty_stretches_move_the_cursor(
    url: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(url, limits=Limits(page_entries_max=3, scan_entries_max=5))
    for _ in range(3):
        note(ledger, 1, "x.y")
        note(ledger, 9)
    feed = ledger.feed("train", batch=2, event_type="x.*", correlation_id="c")
    assert positions(feed) == [1, 11, 21]
    assert (feed.position, feed.lag) == (30, 0)
    nothing = ledger.feed("none", event_type="no.such")
    assert (bounds(nothing), nothing.position) == ([], 30)
    note(ledger, 7, "x.y")
    every = ledger.feed("every", batch=30)
    assert [len(batch) for batch in every] == [6] * 6 + [1]  # it looks at 5 entries and what the page holds


def test_a_feed_is_held_to_the_filters_that_it_was_made_with(ledger: Ledger) -> None:
    note(ledger, 2)
    list(ledger.feed("train", event_type=["a.b", "x.*", "b.c"], attributes={"tenant": "a"}))
    assert positions(ledger.feed("train", event_type=["b.c", "a.b", "x.*"], attributes={"tenant": "a"})) == []
    with pytest.raises(InvalidEvent, match=r"made with event_types a\.b b\.c, .*asked for with no filters"):
        list(ledger.feed("train"))
    assert ledger.feeds()[0].filters["event_types"] == ("a.b", "b.c")
    ledger.drop_feed("train")
    assert positions(ledger.feed("train")) == [1, 2]


def test_erased_entries_appear_as_erased_and_the_erasure_is_an_entry(ledger: Ledger) -> None:
    ledger.record("a.b", {"secret": 1}, correlation_id="c")
    batch = first(ledger.feed("train"))
    assert batch.entries[0].payload == {"secret": 1}
    ledger.erase([1], reason="asked for")
    again, erasure = [batch.entries for batch in ledger.feed("train")]
    assert (again[0].erased, again[0].position) == (True, 1)
    assert erasure[0].payload["positions"] == [1]


# --- moving and forgetting ---


def test_a_reset_lets_the_feed_go_on_from_anywhere_also_one_that_is_at_work(ledger: Ledger) -> None:
    note(ledger, 6)
    feed = ledger.feed("train", batch=2)
    seen = []
    for batch in feed:
        seen.append(batch.position)
        if seen == [2, 4]:
            ledger.feed("train").reset(1)
            assert batch.commit() is False
    assert seen == [2, 4, 3, 5, 6]
    feed.reset()
    assert bounds(feed) == [(0, 2), (2, 4), (4, 6)]
    for wrong in (-1, 7, True, "3", None):
        with pytest.raises(InvalidEvent):
            feed.reset(wrong)  # type: ignore[arg-type]


def test_what_was_handed_out_before_a_reset_to_the_same_place_does_not_count(ledger: Ledger) -> None:
    note(ledger, 4)
    old = first(ledger.feed("train", batch=2))
    ledger.feed("train").reset(0)
    new = first(ledger.feed("train", batch=2))
    assert (old.after, old.position) == (new.after, new.position)
    assert (old.commit(), ledger.feed("train").position) == (False, 0)
    assert (new.commit(), ledger.feed("train").position) == (True, 2)


def test_a_dropped_feed_is_forgotten_and_who_was_at_work_is_told(ledger: Ledger) -> None:
    note(ledger, 2)
    feed = ledger.feed("train")
    batch = first(feed)
    ledger.drop_feed("train")
    assert ledger.feeds() == []
    for use in (batch.commit, lambda: list(feed), lambda: feed.position, lambda: ledger.drop_feed("train")):
        with pytest.raises(NotFound, match="feed 'train'"):
            use()
    assert positions(ledger.feed("train")) == [1, 2]


# --- another history ---


def put(ledger: Ledger, position: int, claimed: int = 0, leaf: bytes | None = None, **mark: str) -> None:
    """A cursor as another ledger may have left it."""
    before = cursors.load(ledger._store, "train")
    assert before is not None
    data = chatsnapshot.cursors.Mark(**{"ledger_id": ledger.ledger_id, "era": "e", **mark}, claimed=claimed)
    moved = cursors.move(ledger._store, "train", before, before.position, data)
    assert moved is not None
    if leaf is not None or position != before.position:
        at = moved.at._replace(position=position, leaf=leaf or bytes(32))
        assert ledger._store.save_states("feed:train", 1, moved.at, at, {})


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({"position": 2, "ledger_id": "another"}, "it is of ledger another, and this is ledger"),
        ({"position": 9}, "it is of position 9, and the ledger ends at 3"),
        ({"position": 0, "claimed": 9}, "it is of position 9, and the ledger ends at 3"),
        ({"position": 2, "leaf": b"x" * 32}, "another entry stands at position 2"),
    ],
)
def test_a_cursor_of_another_history_is_refused_until_a_reset(
    ledger: Ledger, left: dict[str, Any], said: str
) -> None:
    note(ledger, 3)
    feed = ledger.feed("train")
    put(ledger, **left)
    with pytest.raises(Corrupt, match=rf"feed 'train' is not of this history: {said}.*reset\(position\)"):
        list(feed)
    assert said in str(ledger.feeds()[0].fault)
    ledger.feed("train").reset(1)
    assert positions(feed) == [2, 3]
    assert ledger.feeds()[0].fault is None


def test_a_feed_of_a_jsonl_file_that_was_replaced_begins_anew(
    tmp_path: Path, opened: Callable[..., Ledger]
) -> None:
    for name in ("one", "other"):
        ledger = opened(tmp_path / f"{name}.jsonl")
        note(ledger, 3)
        assert positions(ledger.feed("train")) == [1, 2, 3]
        ledger.close()
    (tmp_path / "other.jsonl").replace(tmp_path / "one.jsonl")
    assert positions(opened(tmp_path / "one.jsonl").feed("train")) == [1, 2, 3]


def test_a_damaged_cursor_is_told_and_can_be_dropped(ledger: Ledger) -> None:
    note(ledger, 1)
    feed = ledger.feed("train")
    at = ledger._store.checkpoint("feed:train", 1)
    assert at is not None
    ledger._store.save_states("feed:train", 1, at, at, {"cursor": b"{}"})
    with pytest.raises(Corrupt, match=r"the cursor of feed 'train'.*is damaged; drop the feed"):
        list(feed)
    assert "is damaged" in str(ledger.feeds()[0].fault)
    ledger.drop_feed("train")
    assert positions(ledger.feed("train")) == [1]


def test_a_read_only_ledger_lists_feeds_and_gives_none(tmp_path: Path, opened: Callable[..., Ledger]) -> None:
    path = tmp_path / "runs.db"
    note(opened(path), 1)
    opened(path).feed("train")
    reader = opened(path, read_only=True)
    assert [one.name for one in reader.feeds()] == ["train"]
    for use in (lambda: reader.feed("train"), lambda: reader.drop_feed("train")):
        with pytest.raises(ReadOnly, match="was opened read-only"):
            use()


@pytest.mark.parametrize(
    "options",
    [{"batch": 0}, {"batch": True}, {"after": 9}, {"after": "then"}, {"timeout": 1}, {"event_type": "no"}],
)
def test_options_that_make_no_sense_are_refused_and_leave_no_feed(
    ledger: Ledger, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidEvent):
        ledger.feed("train", **options)
    for name in ("", "a\nb", "x" * 300, None):
        with pytest.raises(LedgerError):
            ledger.feed(name)  # type: ignore[arg-type]
    assert ledger.feeds() == []


def test_an_object_has_one_loop_at_a_time(ledger: Ledger) -> None:
    note(ledger, 4)
    feed = ledger.feed("train", batch=2)
    old = iter(feed)
    next(old)
    assert next(iter(feed)).position == 2
    with pytest.raises(LedgerError, match="another loop over this object of feed 'train' began"):
        next(old)


# --- following ---


class Consumer:
    """A thread that follows a feed, so that a test can wait for what it has seen."""

    def __init__(self, feed: Any) -> None:
        self.seen: list[int] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(feed,), daemon=True)
        self._thread.start()

    def _run(self, feed: Any) -> None:
        for batch in feed:
            with self._changed:
                self.seen += [entry.position for entry in batch]
                self._changed.notify_all()

    def sees(self, wanted: list[int]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= len(wanted), 30), self.seen
        assert self.seen == wanted

    def ends(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_a_following_feed_goes_on_live_and_has_committed_all_when_it_is_closed(ledger: Ledger) -> None:
    note(ledger, 3)
    with ledger.feed("train", batch=2, follow=True, event_type="a.b") as feed:
        consumer = Consumer(feed)
        consumer.sees([1, 2, 3])
        note(ledger, 2, "x.y")
        note(ledger, 1)
        consumer.sees([1, 2, 3, 6])
    consumer.ends()
    assert ledger.feed("train").position == 6
    assert bounds(feed) == []


def test_closing_the_ledger_ends_a_following_feed(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url)
    note(ledger, 1)
    consumer = Consumer(ledger.feed("train", follow=True))
    consumer.sees([1])
    ledger.close()
    consumer.ends()


def test_quiet_stretches_of_a_following_feed_are_stored_at_its_end_and_now_and_then(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(ledger, 5)
    quiet = ledger.feed("train", follow=True, timeout=0, event_type="no.such")
    assert (bounds(quiet), quiet.position) == ([], 5)
    monkeypatch.setattr(module, "_REST_SECONDS", 0)
    with ledger.feed("train", follow=True, event_type="no.such") as feed:
        consumer = Consumer(feed)
        note(ledger, 5)
        deadline = threading.Event()
        while feed.position < 10:
            deadline.wait(0.001)  # bounded by the timeout of every test
    consumer.ends()


def test_tasks_use_a_feed_with_async_for(ledger: Ledger) -> None:
    async def main() -> list[tuple[int, int]]:
        note(ledger, 5)
        seen = []
        async for batch in ledger.feed("train", batch=2):
            seen.append((batch.after, batch.position))
            if batch.after == 2:
                break
        async with ledger.feed("train", batch=2, follow=True, timeout=20) as feed:
            async for batch in feed:
                seen.append((batch.after, batch.position))
                if batch.position == 5:
                    await ledger.arecord("a.b", correlation_id="c")
                if batch.position == 6:
                    assert await batch.acommit()
                    feed.close()
        return seen

    seen = asyncio.run(asyncio.wait_for(main(), 30))
    assert seen == [(0, 2), (2, 4), (2, 4), (4, 5), (5, 6)]
    assert ledger.feed("train").position == 6


def test_the_batch_of_a_cancelled_task_comes_again(ledger: Ledger) -> None:
    note(ledger, 3)

    async def main() -> None:
        at_work = asyncio.Event()

        async def consume() -> None:
            async for batch in ledger.feed("train", batch=2, follow=True):
                if batch.after == 2:
                    at_work.set()
                    await asyncio.Event().wait()

        task = asyncio.ensure_future(consume())
        await asyncio.wait_for(at_work.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ledger.feed("train").position == 2
    assert bounds(ledger.feed("train")) == [(2, 3)]
