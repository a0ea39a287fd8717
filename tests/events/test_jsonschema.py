"""Exported schemas are valid JSON Schemas and give the verdicts of the validator."""

from __future__ import annotations

import copy
import random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.events.jsonschema import DIALECT, envelope_schema
from chatsnapshot.events.registry import Schemas
from chatsnapshot.events.schemas import SCHEMAS

EXPORTED = {one.event_type: one for one in Schemas(plugins=False)}
DOCUMENTS = {event_type: one.json_schema() for event_type, one in EXPORTED.items()}
VALIDATORS = {
    event_type: jsonschema_rs.validator_for(document, offline=True)
    for event_type, document in DOCUMENTS.items()
}
POOL: list[Any] = [
    None, True, False, 0, -1, 5.0, 1.5, 2**60, "", "x", "approved", "user", [], [1], ["x"], [{"type": "text"}],
    {}, {"type": "text"}, {"name": "x"}, {"id": 1, "name": None}, [[]], [None],
]  # fmt: skip


@pytest.mark.parametrize("event_type", sorted(SCHEMAS))
def test_an_exported_schema_is_valid_and_names_itself(event_type: str) -> None:
    document = DOCUMENTS[event_type]
    jsonschema_rs.meta.validate(document)
    assert document["$schema"] == DIALECT
    assert document["$id"] == f"urn:chatsnapshot:schema:{event_type}:1"
    assert (document["x-event-type"], document["x-version"]) == (event_type, 1)
    assert document["description"] == SCHEMAS[event_type].summary


@pytest.mark.parametrize("event_type", sorted(SCHEMAS))
def test_the_example_fits_the_schema_and_its_export(event_type: str) -> None:
    example = SCHEMAS[event_type].example
    assert EXPORTED[event_type].misfit(msgspec.json.encode(example)) is None
    EXPORTED[event_type].check.accept(msgspec.json.encode(example))
    assert VALIDATORS[event_type].is_valid(example)
    assert DOCUMENTS[event_type]["examples"] == [example]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_export_and_validator_give_the_same_verdict_on_any_payload(seed: int) -> None:
    chance = random.Random(seed)
    for event_type in SCHEMAS:
        payload = changed(chance, event_type)
        stored = msgspec.json.encode(payload)
        assert (EXPORTED[event_type].misfit(stored) is None) == VALIDATORS[event_type].is_valid(payload), (
            event_type,
            payload,
        )


def changed(chance: random.Random, event_type: str) -> dict[str, Any]:
    """The example with keys taken away, keys added, and values put anywhere in it."""
    payload = copy.deepcopy(SCHEMAS[event_type].example)
    keys = sorted(DOCUMENTS[event_type].get("properties", {}))
    for key in chance.sample(sorted(payload), chance.randint(0, len(payload))):
        del payload[key]
    for key in chance.sample(keys, min(len(keys), chance.randint(0, 3))):
        payload[key] = copy.deepcopy(chance.choice(POOL))
    place: Any = payload
    while isinstance(place, (dict, list)) and place and chance.random() < 0.7:
        key = chance.choice(sorted(place)) if isinstance(place, dict) else chance.randrange(len(place))
        if chance.random() < 0.5:
            place[key] = copy.deepcopy(chance.choice(POOL))
            break
        place = place[key]
    return payload


def test_the_random_payloads_fit_often_and_often_not() -> None:
    chance = random.Random(1)
    verdicts = [VALIDATORS[name].is_valid(changed(chance, name)) for name in SCHEMAS for _ in range(10)]
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


def test_every_envelope_that_is_written_fits_the_schema_of_the_envelope() -> None:
    validator = jsonschema_rs.validator_for(envelope_schema(), offline=True)
    with chatsnapshot.open("memory:") as snapshot:
        snapshot.record("execution.message", {"role": "user", "content": "x"}, correlation_id="a")
        snapshot.record(
            "my.own.type", None, correlation_id="ü" * 256, causation_id=snapshot.get(next(iter(snapshot.read()))),
            source={"origin": "ui", "runtime": "web", "name": "dana"}, schema_version=7,
            attributes={"a": True, "b": 2**53 - 1, "c": ["x"], "d": "y"},
        )  # fmt: skip
        for entry in snapshot.read():
            written = msgspec.json.decode(entry.event.to_json())
            assert list(validator.iter_errors(written)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("event_id", "1"), ("event_type", "message"), ("event_type", "a.B"), ("timestamp", "2026-11-30T02:26:03Z"),
        ("source", {"origin": "robot", "runtime": "x"}), ("correlation_id", ""), ("causation_id", "x"),
        ("payload", []), ("schema_version", 0), ("attributes", {"A": 1}), ("attributes", {"a": 1.5}), ("more", 1),
    ],
)  # fmt: skip
def test_what_is_no_envelope_does_not_fit_it(key: str, value: Any) -> None:
    with chatsnapshot.open("memory:") as snapshot:
        written = msgspec.json.decode(snapshot.record("a.b", correlation_id="a").event.to_json())
    validator = jsonschema_rs.validator_for(envelope_schema(), offline=True)
    assert validator.is_valid(written)
    assert not validator.is_valid({**written, key: value})
