"""States of other versions, other histories and rebuilds stand beside those in use, and are switched at once."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.projections import base, engine, slots
from chatsnapshot.projections.refolding import verify
from chatsnapshot.projections.standing import status
from chatsnapshot.stores.base import Checkpoint
from chatsnapshot.testing.samples import events

STORES = {"memory": "memory:", "sqlite": "runs.db", "jsonl": "runs.jsonl"}


class Count(msgspec.Struct):
    events: int = 0
    ten: int = 0


def counting(version: int) -> Any:
    """A projection whose later versions also count by tens."""

    class Counting:
        name = "test_versions"

        def key(self, entry: Any) -> str:
            return str(entry.correlation_id)

        def initial(self) -> Count:
            return Count()

        def apply(self, state: Count, entry: Any) -> Count:
            return Count(state.events + 1, state.ten + (10 if version > 1 else 0))

    Counting.version = version  # type: ignore[attr-defined]
    return Counting


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    engine.known()
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))


@pytest.fixture(params=STORES)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    name = STORES[request.param]
    with chatsnapshot.open(name if name == "memory:" else tmp_path / name) as opened:
        opened.record_many(events(20))
        yield opened


def use(version: int) -> Any:
    """Make this version the one of this program."""
    base._REGISTRY.pop("test_versions", None)
    return base.register(counting(version))


def roles(ledger: Any) -> list[tuple[int, str, int]]:
    return [(one.version, one.role, one.position) for one in status(ledger) if one.name == "test_versions"]


def stored(ledger: Any, version: int) -> Any:
    slot = engine.find_slot(ledger._store, counting(version)())
    held = None if slot is None else slot.load("run-1")
    return None if held is None else held.state


def test_a_new_version_is_built_beside_the_old_and_replaces_it_at_the_head(ledger: Any) -> None:
    engine.run(ledger, [use(1)])
    engine.run(ledger, [use(2)], until=7)
    assert roles(ledger) == [(1, "older", 20), (2, "building", 7)]
    assert (stored(ledger, 1), stored(ledger, 2)) == (Count(20, 0), Count(7, 70))
    engine.run(ledger, ["test_versions"])
    assert roles(ledger) == [(2, "current", 20)]
    assert (stored(ledger, 1), stored(ledger, 2)) == (None, Count(20, 200))


def test_a_program_with_the_older_version_stores_nothing_and_still_has_its_view(ledger: Any) -> None:
    engine.run(ledger, [use(2)])
    use(1)
    with pytest.raises(
        chatsnapshot.LedgerError, match="is stored in version 2, and this program has version 1"
    ):
        engine.run(ledger, ["test_versions"])
    assert ledger.view("test_versions", "run-1") == Count(20, 0)
    assert roles(ledger) == [(2, "newer", 20)]


def test_the_old_states_serve_until_a_rebuild_is_whole(ledger: Any) -> None:
    first = use(1)
    engine.run(ledger, [first])
    seen: list[Any] = []

    def look(done: int, whole: int) -> None:
        seen.append((stored(ledger, 1), roles(ledger)))

    engine.rebuild(ledger, first, progress=look)
    assert seen == [(Count(20, 0), [(1, "current", 20)])]
    assert stored(ledger, 1) == Count(20, 0)
    assert verify(ledger, first).verdict == "same"
    assert leftovers(ledger) == 1


def leftovers(ledger: Any) -> int:
    """Slots of the projection in which anything is stored."""
    names = [slots.slot_name("test_versions", number) for number in range(9)]
    return sum(bool(ledger._store.keys(name, version, limit=1)) for name in names for version in range(1, 4))


def test_an_interrupted_rebuild_leaves_the_old_states_and_nothing_of_its_own(ledger: Any) -> None:
    first = use(1)
    engine.run(ledger, [first])
    before = stored(ledger, 1)

    def interrupt(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.rebuild(ledger, first, progress=interrupt)
    assert stored(ledger, 1) == before
    assert leftovers(ledger) == 1
    engine.rebuild(ledger, first)
    assert leftovers(ledger) == 1


def test_what_a_killed_rebuild_left_is_removed_by_the_next_one(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = use(1)
    engine.run(ledger, [first])

    def interrupt(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(engine, "_abandon", lambda slot: None)
        with pytest.raises(KeyboardInterrupt):
            engine.rebuild(ledger, first, progress=interrupt)
    assert leftovers(ledger) == 2
    engine.rebuild(ledger, first)
    assert leftovers(ledger) == 1
    assert not slots.read(ledger._store).projections["test_versions"].building


def test_of_two_rebuilds_at_once_the_later_wins_and_the_other_says_so(ledger: Any) -> None:
    first = use(1)
    engine.run(ledger, [first])
    inner: list[Any] = []

    def another(done: int, whole: int) -> None:
        inner.append(engine.rebuild(ledger, first))

    with pytest.raises(chatsnapshot.LedgerError, match="another rebuild"):
        engine.rebuild(ledger, first, progress=another)
    assert len(inner) == 1
    assert verify(ledger, first).verdict == "same"


def test_states_of_another_leaf_are_set_aside_with_a_warning(
    ledger: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = use(1)
    engine.run(ledger, [first])
    store = ledger._store
    at = store.checkpoint("test_versions", 1)
    wrong = {"=run-1": b'[20,20,{"events":999,"ten":0}]'}
    assert store.save_states("test_versions", 1, at, Checkpoint(20, bytes(32), at.digest), wrong)
    with caplog.at_level(logging.WARNING, logger="chatsnapshot.projections"):
        assert ledger.view("test_versions", "run-1") == Count(20, 0)
        engine.run(ledger, [first])
    assert "set aside and made anew: another entry stands at position 20" in caplog.text
    assert stored(ledger, 1) == Count(20, 0)
    assert leftovers(ledger) == 1


def test_states_of_a_longer_history_are_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, path = use(1), tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        ledger.record_many(events(5))
    shutil.copy(path, tmp_path / "older.db")
    with chatsnapshot.open(tmp_path / "older.db") as older, chatsnapshot.open(path) as ledger:
        ledger.record_many(events(5))
        engine.run(ledger, [first])
        state = ledger._store.load_state("test_versions", 1, "=run-1")
        facts = ledger._store.load_state("test_versions", 1, "")
        at = ledger._store.checkpoint("test_versions", 1)
        older._store.save_states("test_versions", 1, None, at, {"=run-1": state, "": facts})
        slots.change(older._store, "test_versions", lambda entry: entry.slots.update({1: 0}))
        with caplog.at_level(logging.WARNING, logger="chatsnapshot.projections"):
            assert older.view(first, "run-1") == Count(5, 0)
    assert "they are of position 10, and the ledger ends at 5" in caplog.text


def test_states_of_another_ledger_are_set_aside(ledger: Any, caplog: pytest.LogCaptureFixture) -> None:
    first = use(1)
    engine.run(ledger, [first])
    store = ledger._store
    at = store.checkpoint("test_versions", 1)
    other = msgspec.json.encode({"ledger_id": "00000000-0000-0000-0000-000000000001", "keys": 1})
    assert store.save_states("test_versions", 1, at, at, {"": other, "=run-1": b'[20,20,{"events":7}]'})
    with chatsnapshot.open("memory:") as unrelated:
        unrelated.record_many(events(1))
    with caplog.at_level(logging.WARNING, logger="chatsnapshot.projections"):
        assert ledger.view(first, "run-1") == Count(20, 0)
        engine.run(ledger, [first])
    assert "they are of ledger 00000000-0000-0000-0000-000000000001" in caplog.text
    assert stored(ledger, 1) == Count(20, 0)


def test_a_state_that_cannot_be_read_is_made_anew(ledger: Any, caplog: pytest.LogCaptureFixture) -> None:
    first = use(1)
    engine.run(ledger, [first])
    store = ledger._store
    at = store.checkpoint("test_versions", 1)
    assert store.save_states("test_versions", 1, at, at, {"=run-1": b'[20,20,{"events":"many"}]'})
    with caplog.at_level(logging.WARNING, logger="chatsnapshot.projections"):
        ledger.record_many(events(1))
        engine.run(ledger, [first])
    assert "cannot be read" in caplog.text
    assert stored(ledger, 1) == Count(21, 0)


def test_verify_names_the_keys_whose_states_were_changed(ledger: Any) -> None:
    first = use(1)
    engine.run(ledger, [first])
    store = ledger._store
    at = store.checkpoint("test_versions", 1)
    assert store.save_states("test_versions", 1, at, at, {"=run-1": b'[20,20,{"events":21,"ten":0}]'})
    found = verify(ledger, first)
    assert (found.verdict, found.keys) == ("different", ("run-1",))
    assert found.digest == found.stored != found.kept
    engine.rebuild(ledger, first)
    assert verify(ledger, first).verdict == "same"
    assert verify(ledger, first, at=3).verdict == "alone"
    digest = verify(ledger, first, at=3).digest
    assert verify(ledger, first, at=3, expected=digest).verdict == "same"
    assert verify(ledger, first, at=4, expected=digest).verdict == "different"
