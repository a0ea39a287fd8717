"""Promise 7: the same entries give the same leaves, root, bytes and views on every store."""

from __future__ import annotations

from typing import Any

from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import Ticking, entropy_of, event, varied

VIEWS = ("timeline", "transcript", "runs")


def record_varied(ledger: Ledger, bench: Bench, count: int) -> None:
    """The same events in the same batches on every ledger: single ones and batches of up to 40."""
    chance = bench.chance("same batches")
    given = varied(bench.chance("same events"), count)
    while given:
        size = min(chance.choice([1, 1, 2, 40]), len(given))
        batch, given = given[:size], given[size:]
        if size == 1:
            ledger.record(**batch[0])
        else:
            ledger.record_many(batch)


def _repeatable(bench: Bench) -> dict[str, Any]:
    return {"clock": Ticking(), "entropy": entropy_of(bench.chance("salt"))}


@check(7)
def the_same_recording_gives_the_same_leaves_and_root_as_in_memory(bench: Bench) -> None:
    count = 600  # more than two tiles of 256
    with bench.open(**_repeatable(bench)) as ledger, bench.reference(**_repeatable(bench)) as memory:
        record_varied(ledger, bench, count)
        record_varied(memory, bench, count)
        for mine, reference in zip(ledger.read(), memory.read(), strict=True):
            expect_equal(mine._identity(), reference._identity(), f"entry at position {reference.position}")
        expect_equal(store_of(ledger).head(), store_of(memory).head(), "head, frontier and recorded_at")
        for index in (0, 1, 2):
            tile, wanted = store_of(ledger).tile(0, index), store_of(memory).tile(0, index)
            expect_equal(tile and bytes(tile), wanted, f"tile {index}")
        expect_equal(ledger.verify().root, memory.verify().root, "root")
        expect_sound(ledger, count)


@check(7, "durable")
def a_recording_that_was_interrupted_by_reopening_gives_the_same_root(bench: Bench) -> None:
    options = _repeatable(bench)
    place = bench.place()
    given = varied(bench.chance("same events"), 60)
    with bench.reference(**_repeatable(bench)) as memory:
        for one in given:
            with bench.open(place, **options) as ledger:
                # Opening may ask the clock too: what counts is the moment of each commit.
                options["clock"].nanoseconds = memory._opening.clock.nanoseconds  # type: ignore[attr-defined]
                mine = ledger.record(**one)
            expect_equal(mine.leaf, memory.record(**one).leaf, f"leaf at position {mine.position}")
        with bench.open(place) as ledger:
            expect_equal(ledger.verify().root, memory.verify().root, "root")


@check(7)
def the_same_events_give_the_same_envelope_bytes_in_order(bench: Bench) -> None:
    with bench.open() as ledger, bench.reference() as memory:
        record_varied(ledger, bench, 200)
        record_varied(memory, bench, 200)
        mine = [entry.event.to_json() for entry in ledger.read()]
        expect_equal(mine, [entry.event.to_json() for entry in memory.read()], "envelopes")
        for data in mine:
            expect_equal(EventEnvelope.from_json(data).to_json(), data, "an envelope read and written again")


@check(7)
def replaying_twice_gives_identical_bytes(bench: Bench) -> None:
    with bench.open() as ledger:
        record_varied(ledger, bench, 150)
        for correlation in {entry.correlation_id for entry in ledger.read()}:
            once = [entry.event.to_json() for entry in ledger.replay(correlation)]
            again = [entry.event.to_json() for entry in ledger.replay(correlation)]
            expect_equal(again, once, f"replay of {correlation!r}")
            wanted = [entry.event.to_json() for entry in ledger.read() if entry.correlation_id == correlation]
            expect_equal(once, wanted, f"replay of {correlation!r} and what read gives of it")
        with expecting(NotFound, "replay of an unknown correlation"):
            ledger.replay("nowhere")


@check(7)
def a_replay_until_a_position_or_a_time_is_a_prefix(bench: Bench) -> None:
    with bench.open(clock=Ticking(step=1_000_000_000)) as ledger:
        entries = [ledger.record(**event(number, "run-1")) for number in range(12)]
        for entry in entries:
            wanted = entries[: entry.position]
            expect_equal(list(ledger.replay("run-1", until=entry.position)), wanted, "until a position")
            expect_equal(list(ledger.replay("run-1", until=entry.recorded_at)), wanted, "until a time")
        before = "2001-01-01T00:00:00Z"
        expect_equal(list(ledger.replay("run-1", until=before)), [], "until a time before the first")


@check(7)
def views_are_the_same_as_in_memory_and_can_be_computed_again_for_a_past_position(bench: Bench) -> None:
    with bench.open(**_repeatable(bench)) as ledger, bench.reference(**_repeatable(bench)) as memory:
        for one in (ledger, memory):
            record_varied(one, bench, 80)
        then = {(view, run): repr(ledger.view(view, run)) for view in VIEWS for run in ("run-1", "run-2")}
        expect(any(len(text) > 50 for text in then.values()), "the views say something")
        for (view, run), text in then.items():
            expect_equal(text, repr(memory.view(view, run)), f"view {view} of {run}, beside memory")
        for number in range(20):
            ledger.record(**event(number, "run-1"))
        for (view, run), text in then.items():
            expect_equal(repr(ledger.view(view, run, until=80)), text, f"view {view} of {run} at position 80")
