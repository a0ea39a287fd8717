"""Duty: a place for the state of projections, advanced by compare-and-set, together with its checkpoint."""

from __future__ import annotations

import hashlib
from typing import Any

from chatsnapshot.stores.base import Checkpoint, Store
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event
from chatsnapshot.testing.together import in_threads

NAME = "counts"


def _mark(position: int) -> Checkpoint:
    leaf = hashlib.sha256(f"leaf {position}".encode()).digest()
    return Checkpoint(position, leaf, hashlib.sha256(f"state {position}".encode()).digest())


@check("projections")
def states_and_checkpoint_are_stored_together_and_read_back(bench: Bench) -> None:
    with bench.open() as ledger:
        store = store_of(ledger)
        expect(store.checkpoint(NAME, 1) is None, "no checkpoint at first")
        expect(store.load_state(NAME, 1, "run-1") is None, "no state at first")
        states: dict[str, bytes | None] = {"run-1": b"\x00one", "läuft '\"%": b"", "big": b"x" * 300_000}
        expect(store.save_states(NAME, 1, None, _mark(1), states), "the first save")
        expect_equal(store.checkpoint(NAME, 1), _mark(1), "checkpoint")
        for key, state in states.items():
            expect_equal(store.load_state(NAME, 1, key), state, f"state of {key!r:.20}")
        expect(
            store.save_states(NAME, 1, _mark(1), _mark(2), {"run-1": b"two", "big": None}), "the second save"
        )
        expect_equal(store.load_state(NAME, 1, "run-1"), b"two", "the state that was replaced")
        expect(store.load_state(NAME, 1, "big") is None, "a state that was removed")
        expect_equal(store.load_state(NAME, 1, "läuft '\"%"), b"", "a state that was not touched")
        expect_equal(ledger.head, 0, "saving states adds no entries")


@check("projections")
def a_save_that_comes_too_late_changes_nothing(bench: Bench) -> None:
    with bench.open() as ledger:
        store = store_of(ledger)
        expect(store.save_states(NAME, 1, None, _mark(5), {"a": b"5"}), "the first save")
        wrong = [None, _mark(4), _mark(6), Checkpoint(5, _mark(5).leaf, b"\x00" * 32)]
        for before in [*wrong, Checkpoint(5, b"\x00" * 32, _mark(5).digest)]:
            expect(
                not store.save_states(NAME, 1, before, _mark(7), {"a": b"7", "b": b"7"}),
                f"a save from {before}",
            )
            expect_equal(store.checkpoint(NAME, 1), _mark(5), "checkpoint")
            found = (store.load_state(NAME, 1, "a"), store.load_state(NAME, 1, "b"))
            expect_equal(found, (b"5", None), "states")


@check("projections")
def versions_and_names_stand_beside_each_other(bench: Bench) -> None:
    with bench.open() as ledger:
        store = store_of(ledger)
        kinds = [(NAME, 1), (NAME, 2), ("other", 1)]
        for at, (name, version) in enumerate(kinds):
            expect(store.save_states(name, version, None, _mark(at), {"a": bytes([at])}), "a first save")
        for at, (name, version) in enumerate(kinds):
            expect_equal(store.checkpoint(name, version), _mark(at), f"checkpoint of {name} {version}")
        store.drop_states(NAME, 1)
        store.drop_states(NAME, 1)
        expect(store.checkpoint(NAME, 1) is None, "checkpoint that was dropped")
        expect(store.load_state(NAME, 1, "a") is None, "state that was dropped")
        expect_equal(store.load_state(NAME, 2, "a"), b"\x01", "state of the other version")
        expect_equal(store.load_state("other", 1, "a"), b"\x02", "state of the other name")
        expect(store.save_states(NAME, 1, None, _mark(9), {}), "a new beginning")


@check("projections", "durable")
def states_are_there_after_opening_again(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as ledger:
        ledger.record(**event(1))
        expect(store_of(ledger).save_states(NAME, 1, None, _mark(1), {"a": b"one"}), "the first save")
    with bench.open(place) as ledger:
        expect_equal(store_of(ledger).checkpoint(NAME, 1), _mark(1), "checkpoint after opening again")
        expect_equal(store_of(ledger).load_state(NAME, 1, "a"), b"one", "state after opening again")
        expect_sound(ledger, 1)


def advance(store: Store, runner: int, goal: int) -> int:
    """Advance until the goal is reached, each step from the checkpoint found; the number of steps that were one's own."""
    won = 0
    while True:
        before = store.checkpoint(NAME, 1)
        position = 0 if before is None else before.position
        if position >= goal:
            return won
        after = _mark(position + 1)
        if store.save_states(NAME, 1, before, after, {"last": f"{position + 1} by {runner}".encode()}):
            won += 1


def _expect_advanced(store: Store, won: list[Any], goal: int) -> None:
    expect_equal(sum(won), goal, f"steps that the runners say they took ({won})")
    expect_equal(store.checkpoint(NAME, 1), _mark(goal), "checkpoint in the end")
    state = store.load_state(NAME, 1, "last") or b""
    expect(state.startswith(f"{goal} by ".encode()), f"the last state is of the last step, not {state!r}")


@check("projections")
def two_runners_on_threads_never_both_advance(bench: Bench) -> None:
    goal = bench.rounds(60)
    with bench.open() as ledger:
        store = store_of(ledger)
        won: list[Any] = in_threads([lambda at=at: advance(store, at, goal) for at in range(3)])  # type: ignore[misc]
        _expect_advanced(store, won, goal)


def advance_there(say: Say, bench: Bench, place: str, runner: int, goal: int) -> int:
    """As :func:`advance`, in a process."""
    with bench.open(place) as ledger:
        return advance(store_of(ledger), runner, goal)


@check("projections", "processes")
def two_runners_in_processes_never_both_advance(bench: Bench) -> None:
    place, goal = bench.place(), bench.rounds(60)
    with bench.open(place) as ledger, bench.workers(2) as crew:
        for runner, worker in enumerate(crew):
            worker.start(advance_there, bench, place, runner, goal)
        won = [worker.answer() for worker in crew]
        _expect_advanced(store_of(ledger), won, goal)


@check("projections")
def saving_states_and_recording_do_not_disturb_each_other(bench: Bench) -> None:
    count = bench.rounds(40)
    with bench.open() as ledger:
        store = store_of(ledger)

        def write() -> int:
            return len([ledger.record(**event(number)) for number in range(count)])

        found = in_threads([write, write, lambda: advance(store, 0, count)])
        expect_equal(found, [count] * 3, "events and steps")
        expect_sound(ledger, 2 * count)


@check("projections")
def keys_are_listed_in_order_and_by_prefix(bench: Bench) -> None:
    with bench.open() as ledger:
        store = store_of(ledger)
        expect_equal(store.keys(NAME, 1, limit=5), [], "keys of a projection that has none")
        keys = ["", "!a", "=a", "=b", "=läuft", "=z%_", "=\U0001f300", ">", "é"]
        states: dict[str, bytes | None] = dict.fromkeys(reversed(keys), b"x")
        expect(store.save_states(NAME, 1, None, _mark(1), states), "the first save")
        expect(store.save_states("other", 1, None, _mark(1), {"=c": b"x"}), "a save of another one")
        expect(store.save_states(NAME, 2, None, _mark(1), {"=d": b"x"}), "a save of another version")
        down = keys[::-1]
        expect_equal(store.keys(NAME, 1, limit=20), keys, "all keys, in the order of code points")
        expect_equal(store.keys(NAME, 1, limit=20, reverse=True), down, "all keys downwards")
        expect_equal(store.keys(NAME, 1, prefix="=", limit=20), keys[2:7], "keys with a prefix")
        expect_equal(store.keys(NAME, 1, prefix="=", limit=2), keys[2:4], "the first two of them")
        expect_equal(store.keys(NAME, 1, prefix="=", after="=b", limit=2), keys[4:6], "those after a key")
        found = store.keys(NAME, 1, prefix="=", after="=z", limit=20, reverse=True)
        expect_equal(found, keys[4:1:-1], "those in front of a key that is not there, downwards")
        expect_equal(store.keys(NAME, 1, after="é", limit=5), [], "those after the last one")
        expect(store.save_states(NAME, 1, _mark(1), _mark(2), {"=b": None}), "a save that removes one")
        expect("=b" not in store.keys(NAME, 1, limit=20), "a key whose state was removed")
