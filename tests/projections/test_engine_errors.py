"""Entries that a projection fails at stop it or park their key; erased payloads leave every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.projections import base, engine
from chatsnapshot.projections.building import ProjectionStopped
from chatsnapshot.projections.refolding import verify
from chatsnapshot.projections.standing import status
from chatsnapshot.projections.views import list_runs
from chatsnapshot.testing.conformance import Bench
from chatsnapshot.testing.samples import event, events

STORES = {"memory": "memory:", "sqlite": "runs.db", "jsonl": "runs.jsonl"}


class Said(msgspec.Struct):
    words: list[str] = []


class Picky:
    """Keeps what was said, by correlation; fails at one word, after it has changed its state."""

    name = "test_picky"
    version = 1
    correlated = True
    mended = False

    def key(self, entry: Any) -> str | None:
        return str(entry.correlation_id) if entry.event_type == "execution.message" else None

    def initial(self) -> Said:
        return Said()

    def apply(self, state: Said, entry: Any) -> Said:
        word = entry.payload.get("content", "[erased]")
        state.words.append(word)
        if word == "number 3" and not type(self).mended:
            raise ValueError("three is not to be said")
        return state


class ByWord:
    """Counts words: the key comes out of the payload."""

    name = "test_by_word"
    version = 1

    def key(self, entry: Any) -> str | None:
        content = entry.payload.get("content")
        if content == "no key":
            raise KeyError("nothing to go by")
        return None if content is None else str(content)

    def initial(self) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], entry: Any) -> dict[str, int]:
        return {"times": state.get("times", 0) + 1}


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    engine.known()
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.setattr(Picky, "mended", False)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = STORES[request.param]
    return name if name == "memory:" else str(tmp_path / name)


@pytest.fixture
def ledger(url: str) -> Iterator[Any]:
    with chatsnapshot.open(url) as opened:
        yield opened


def record_two_runs(ledger: Any) -> None:
    """Position 8 says "number 3" in run-1; each run has six messages, in turns."""
    for one, two in zip(events(6, "run-1"), events(6, "run-2", 10), strict=True):
        ledger.record(**two)
        ledger.record(**one)


def words(ledger: Any, run: str) -> list[str]:
    found: list[str] = ledger.view(Picky, run).words
    return found


def test_a_projection_stops_in_front_of_the_entry_that_it_fails_at(ledger: Any) -> None:
    record_two_runs(ledger)
    (done,) = engine.run(ledger, [Picky])
    assert (done.position, done.taken) == (7, 7)
    assert done.stopped is not None
    assert (done.stopped.position, done.stopped.key) == (8, "run-1")
    assert done.stopped.reason == "ValueError: three is not to be said"
    (standing,) = [one for one in status(ledger) if one.name == "test_picky"]
    assert standing.stopped == done.stopped
    assert verify(ledger, Picky).verdict == "same"


def test_views_that_need_the_entry_name_projection_position_and_reason(ledger: Any) -> None:
    record_two_runs(ledger)
    for _ in range(2):
        with pytest.raises(
            ProjectionStopped, match=r"'test_picky' .* position 8: ValueError: three is not"
        ) as error:
            ledger.view(Picky, "run-1")
        assert (error.value.name, error.value.position) == ("test_picky", 8)
    assert ledger.view(Picky, "run-1", until=7).words == [f"number {number}" for number in range(3)]
    assert words(ledger, "run-2") == [f"number {number}" for number in range(10, 16)]


def test_a_stopped_projection_does_not_hold_up_the_others(ledger: Any) -> None:
    record_two_runs(ledger)
    done = {one.name: one for one in engine.run(ledger, ["timeline", Picky, "runs"])}
    assert {name: one.position for name, one in done.items()} == {"timeline": 12, "test_picky": 7, "runs": 12}
    assert verify(ledger, "timeline").verdict == verify(ledger, "runs").verdict == "same"


def test_a_parked_key_waits_while_the_others_go_on(ledger: Any) -> None:
    record_two_runs(ledger)
    (done,) = engine.run(ledger, [Picky], on_error="park")
    assert (done.position, done.parked, done.stopped) == (12, 1, None)
    (standing,) = [one for one in status(ledger) if one.name == "test_picky"]
    assert [(one.position, one.key) for one in standing.parked] == [(8, "run-1")]
    assert words(ledger, "run-2") == [f"number {number}" for number in range(10, 16)]
    with pytest.raises(ProjectionStopped, match="position 8"):
        ledger.view(Picky, "run-1")
    # Its state is that before the entry, though the failed call had changed it.
    slot = engine.find_slot(ledger._store, Picky())
    assert slot is not None
    held = slot.load("run-1")
    assert held is not None
    assert held.state.words == ["number 0", "number 1", "number 2"]
    assert verify(ledger, Picky).verdict == "same"


def test_a_mended_projection_takes_parked_keys_up_again(ledger: Any) -> None:
    record_two_runs(ledger)
    engine.run(ledger, [Picky], on_error="park")
    ledger.record(**event(6, "run-1"))
    (done,) = engine.run(ledger, [Picky], on_error="park", retry=True)
    assert (done.parked, done.mended) == (1, 0)
    Picky.mended = True
    (done,) = engine.run(ledger, [Picky], retry=True)
    assert (done.parked, done.mended) == (0, 1)
    assert words(ledger, "run-1") == [f"number {number}" for number in range(7)]
    assert verify(ledger, Picky).verdict == "same"


def test_a_mended_projection_that_had_stopped_goes_on(ledger: Any) -> None:
    record_two_runs(ledger)
    engine.run(ledger, [Picky])
    Picky.mended = True
    (done,) = engine.run(ledger, [Picky])
    assert (done.position, done.stopped) == (12, None)
    assert [one.stopped for one in status(ledger) if one.name == "test_picky"] == [None]
    assert verify(ledger, Picky).verdict == "same"


def test_the_class_may_choose_to_park(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picky, "on_error", "park", raising=False)
    record_two_runs(ledger)
    engine.run(ledger, [Picky])
    assert words(ledger, "run-2") == [f"number {number}" for number in range(10, 16)]
    (standing,) = [one for one in status(ledger) if one.name == "test_picky"]
    assert (standing.position, len(standing.parked)) == (12, 1)
    with pytest.raises(ValueError, match="stop or park"):
        engine.run(ledger, [Picky], on_error="skip")


def test_an_entry_whose_key_cannot_be_told_is_parked_by_its_position(ledger: Any) -> None:
    ledger.record(**event(1))
    ledger.record("execution.message", {"content": "no key"}, correlation_id="run-1")
    ledger.record(**event(1))
    (done,) = engine.run(ledger, [ByWord])
    assert done.stopped is not None
    assert done.stopped.position == 2
    (done,) = engine.run(ledger, [ByWord], on_error="park")
    assert (done.position, done.parked) == (3, 1)
    assert ledger.view(ByWord, "number 1") == {"times": 2}
    assert verify(ledger, ByWord).verdict == "same"


# --- erasing ---


def test_the_states_of_an_erased_run_are_made_anew_and_no_others(ledger: Any) -> None:
    Picky.mended = True
    record_two_runs(ledger)
    engine.run(ledger)
    ledger.erase([2, 4], reason="asked to")
    assert words(ledger, "run-1")[:3] == ["[erased]", "[erased]", "number 2"]
    engine.run(ledger)
    for one in status(ledger):
        assert (one.behind, verify(ledger, one.name).verdict) == (0, "same"), one.name
    assert "number 0" not in repr(ledger.view("transcript", "run-1"))
    assert "number 10" in repr(ledger.view("transcript", "run-2"))


def test_a_reader_never_shows_what_was_erased_after_the_states_were_stored(url: str) -> None:
    if url == "memory:":
        pytest.skip("a memory ledger has one handle")
    with chatsnapshot.open(url) as ledger:
        record_two_runs(ledger)
        engine.run(ledger, ["transcript", "runs"])
        ledger.erase([2], reason="asked to")
        with chatsnapshot.open(url, read_only=True) as reader:
            assert "number 0" not in repr(reader.view("transcript", "run-1"))
            assert "number 0" not in repr(reader.view("transcript", "run-1", until=3))
            assert len(list_runs(reader)) == 2


def test_no_file_of_the_ledger_holds_what_was_erased(tmp_path: Path) -> None:
    for name in ("runs.db", "runs.jsonl"):
        with Bench(str(tmp_path / name)) as bench:
            place = bench.place()
            with bench.open(place) as ledger:
                ledger.record("execution.message", {"content": "tell nobody: swordfish"}, correlation_id="a")
                ledger.record(**event(1, "b"))
                engine.run(ledger)
                ledger.view("transcript", "a")
                assert b"swordfish" in b"".join(Path(one).read_bytes() for one in bench.files(place))
                ledger.erase(1, reason="asked to")
                engine.run(ledger)
            assert b"swordfish" not in b"".join(Path(one).read_bytes() for one in bench.files(place))


def test_an_erasure_that_another_handle_made_is_noticed_by_the_next_run(url: str) -> None:
    """As when the states were stored again between their removal and the erasure."""
    with chatsnapshot.open(url) as ledger:
        record_two_runs(ledger)
        engine.run(ledger, ["transcript", "runs", "timeline"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "forget", lambda ledger, positions: None)
            ledger.erase([2], reason="asked to")
        assert verify(ledger, "transcript").verdict == "outdated"
        if url != "memory:":
            with chatsnapshot.open(url, read_only=True) as reader:
                assert "number 0" not in repr(reader.view("transcript", "run-1"))
        assert "number 0" not in repr(ledger.view("transcript", "run-1"))
        engine.run(ledger, ["transcript", "timeline"])
        assert verify(ledger, "transcript").verdict == verify(ledger, "timeline").verdict == "same"


def test_keys_that_come_out_of_payloads_are_all_made_anew(ledger: Any) -> None:
    record_two_runs(ledger)
    engine.run(ledger, [ByWord])
    ledger.erase([2], reason="asked to")
    with pytest.raises(chatsnapshot.NotFound, match="nothing under 'number 0'"):
        ledger.view(ByWord, "number 0")
    assert ledger.view(ByWord, "number 1") == {"times": 1}
    assert verify(ledger, ByWord).verdict == "same"


def test_an_erasure_that_was_prepared_and_never_made_costs_no_state(ledger: Any) -> None:
    record_two_runs(ledger)
    engine.run(ledger, ["transcript"])
    before = verify(ledger, "transcript").stored
    engine.forget(ledger, [2])
    assert verify(ledger, "transcript").verdict == "outdated"
    assert "number 0" in repr(ledger.view("transcript", "run-1"))
    engine.run(ledger, ["transcript"])
    assert verify(ledger, "transcript").stored == before


def test_the_payload_that_a_key_was_parked_at_may_be_erased(ledger: Any) -> None:
    record_two_runs(ledger)
    engine.run(ledger, [Picky], on_error="park")
    ledger.erase([8], reason="asked to")
    (done,) = engine.run(ledger, [Picky], retry=True)
    assert (done.parked, done.mended) == (0, 1)
    assert words(ledger, "run-1")[3] == "[erased]"
    assert verify(ledger, Picky).verdict == "same"
