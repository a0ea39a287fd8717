"""Upcasters: readers see the newest version, the ledger keeps what was recorded, a broken one breaks no view."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.registry import Schemas
from chatsnapshot.events.upcasting import UpcastFailed
from chatsnapshot.projections.latest import newest


@pytest.fixture
def schemas() -> Schemas:
    """Messages whose text moved twice: ``said``, then ``text``, now ``content``."""
    made = Schemas({"execution.message:3": {"type": "object", "required": ["content"]}})

    @made.upcaster("execution.message", 1)
    def to_text(payload: dict[str, Any]) -> dict[str, Any]:
        return {"role": payload["role"], "text": payload["said"]}

    @made.upcaster("execution.message", 2)
    def to_content(payload: dict[str, Any]) -> dict[str, Any]:
        payload["content"] = payload.pop("text")  # its own copy: it may be changed
        return payload

    return made


@pytest.fixture
def ledger(schemas: Schemas) -> Iterator[chatsnapshot.Ledger]:
    with chatsnapshot.open("memory:", validation="off", schemas=schemas) as snapshot:
        yield snapshot


def say(ledger: chatsnapshot.Ledger, payload: Any, **options: Any) -> chatsnapshot.LedgerEntry:
    return ledger.record("execution.message", payload, correlation_id="a", **options)


def test_an_event_is_taken_along_the_chain_to_the_newest_version(
    ledger: chatsnapshot.Ledger, schemas: Schemas
) -> None:
    event = say(ledger, {"role": "user", "said": "hi"}).event
    made = event.upcast(schemas)
    assert (made.schema_version, made.payload) == (3, {"role": "user", "content": "hi"})
    assert (made.event_id, made.timestamp) == (event.event_id, event.timestamp)
    assert (
        say(ledger, {"role": "user", "text": "hi"}, schema_version=2).event.upcast(schemas).payload
        == made.payload
    )


def test_what_was_recorded_stays_byte_for_byte(ledger: chatsnapshot.Ledger, schemas: Schemas) -> None:
    entry = say(ledger, {"role": "user", "said": "hi"})
    root = ledger.verify().root
    before = entry.event.to_json()
    entry.event.upcast(schemas)
    ledger.view("transcript", "a")
    (stored,) = ledger.read()
    assert stored == entry
    assert stored.event.to_json() == before
    assert ledger.verify().root == root


def test_an_event_with_nothing_to_do_is_itself(ledger: chatsnapshot.Ledger, schemas: Schemas) -> None:
    newest_one = say(ledger, {"role": "user", "content": "hi"}, schema_version=3).event
    assert newest_one.upcast(schemas) is newest_one
    other = ledger.record("order.placed", {}, correlation_id="a").event
    assert other.upcast(schemas) is other
    assert other.upcast() is other


def test_views_see_the_newest_version(ledger: chatsnapshot.Ledger) -> None:
    say(ledger, {"role": "user", "said": "one"})
    say(ledger, {"role": "user", "text": "two"}, schema_version=2)
    say(ledger, {"role": "user", "content": "three"}, schema_version=3)
    assert [item.text for item in ledger.view("transcript", "a").items] == ["one", "two", "three"]


def test_a_read_only_ledger_shows_the_newest_version_too(tmp_path: Path, schemas: Schemas) -> None:
    with chatsnapshot.open(tmp_path / "a.db", validation="off") as snapshot:
        say(snapshot, {"role": "user", "said": "one"})
    with chatsnapshot.open(tmp_path / "a.db", read_only=True, schemas=schemas) as snapshot:
        assert [item.text for item in snapshot.view("transcript", "a").items] == ["one"]


def test_tags_reach_the_upcaster_as_stored(ledger: chatsnapshot.Ledger, schemas: Schemas) -> None:
    event = say(ledger, {"role": "user", "said": b"hi"}).event
    assert event.upcast(schemas).payload["content"] == {"$type": "bytes", "value": "aGk="}
    assert event.upcast(schemas).value()["content"] == b"hi"


def test_erased_and_withheld_payloads_stay_as_they_are(ledger: chatsnapshot.Ledger, schemas: Schemas) -> None:
    entry = say(ledger, {"role": "user", "said": "hi"})
    ledger.erase(entry.position, reason="asked")
    erased = ledger.get(entry.event_id)
    assert erased.event.upcast(schemas) == erased.event
    assert ledger.view("transcript", "a").items[0].erased


def boom(payload: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("SECRET")


BROKEN: list[tuple[Any, str]] = [
    (boom, "raised KeyError"),
    (lambda payload: None, "gave NoneType, not a dict"),
    (lambda payload: [payload], "gave list, not a dict"),
    (lambda payload: {"content": object()}, "gave no JSON"),
    (lambda payload: {"content": float("nan"), "x": {1: {2}}}, ""),
    (lambda payload: {"text": "x"}, r"gave a payload that does not fit: .*content.*, at \$"),
]


@pytest.mark.parametrize(("step", "words"), BROKEN)
def test_a_broken_upcaster_is_named_with_type_and_versions(step: Any, words: str) -> None:
    schemas = Schemas({"execution.message:2": {"type": "object", "required": ["content"]}})
    schemas.upcaster("execution.message", 1)(step)
    with chatsnapshot.open("memory:", validation="off") as snapshot:
        event = say(snapshot, {"said": "SECRET"}).event
    if not words:
        event.upcast(schemas)
        return
    with pytest.raises(
        UpcastFailed, match=f"the upcaster of execution.message from version 1 to 2 {words}"
    ) as caught:
        event.upcast(schemas)
    error = caught.value
    assert (error.event_type, error.from_version, error.to_version, error.position) == (
        "execution.message",
        1,
        2,
        None,
    )
    assert "SECRET" not in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_broken_upcaster_breaks_no_view_and_is_logged_once_with_its_position(
    ledger: chatsnapshot.Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "chatsnapshot.schemas")
    say(ledger, {"role": "user", "said": "one"})
    say(ledger, {"role": "user", "content": "poison"})
    say(ledger, {"role": "user", "content": "more poison"})
    say(ledger, {"role": "user", "said": "two"})
    assert [item.text for item in ledger.view("transcript", "a").items] == [
        "one",
        "poison",
        "more poison",
        "two",
    ]
    (record,) = caplog.records
    assert "from version 1 to 2 raised KeyError at position 2" in record.getMessage()
    assert "poison" not in record.getMessage()


def test_without_upcasters_entries_are_handed_on_as_they_are() -> None:
    with chatsnapshot.open("memory:") as snapshot:
        entries = [say(snapshot, {"role": "user", "content": "x"})]
        assert newest(snapshot, entries) is entries
        assert newest(object(), entries) is entries


def test_entries_of_other_types_are_handed_on_as_they_are(ledger: chatsnapshot.Ledger) -> None:
    entry = ledger.record("order.placed", {}, correlation_id="a")
    (seen,) = newest(ledger, [entry])
    assert seen is entry


@pytest.mark.parametrize("version", [0, -1, True, "1"])
def test_a_version_that_cannot_be_is_refused(version: Any) -> None:
    with pytest.raises(InvalidEvent, match="an upcaster starts from a whole version"):
        Schemas().upcaster("order.placed", version)(dict)


def test_a_second_upcaster_of_one_step_is_refused() -> None:
    schemas = Schemas()
    schemas.upcaster("order.placed", 1)(dict)
    with pytest.raises(InvalidEvent, match=r"order\.placed has an upcaster from version 1 already"):
        schemas.upcaster("order.placed", 1)(boom)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="an upcaster is a function, not int"):
        Schemas().upcaster("order.placed", 1)(7)  # type: ignore[arg-type]
