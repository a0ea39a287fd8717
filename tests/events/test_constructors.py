"""Each event type has a constructor that makes what ``record`` takes, and that knows the keys of its payload."""

from __future__ import annotations

import decimal
import inspect
import subprocess
import sys

import msgspec
import pytest

import chatsnapshot
from chatsnapshot import events
from chatsnapshot.events import catalogue
from chatsnapshot.events.schemas import SCHEMAS


def test_every_type_has_a_constructor_of_its_name() -> None:
    assert sorted(events.__all__) == sorted(name.partition(".")[2] for name in catalogue.TYPES)


@pytest.mark.parametrize("event_type", catalogue.TYPES)
def test_a_constructor_makes_the_payload_of_its_type(event_type: str) -> None:
    schema = SCHEMAS[event_type]
    names = {field.encode_name: field.name for field in msgspec.structs.fields(schema.payload)}
    given = {names[key]: value for key, value in schema.example.items()}
    made = getattr(events, event_type.partition(".")[2])(**given)
    assert made == {"event_type": event_type, "payload": schema.example}


def test_what_a_constructor_makes_is_recorded_with_its_python_values() -> None:
    amount = decimal.Decimal("1.10")
    with chatsnapshot.open("memory:") as snapshot:
        entry = snapshot.record(
            **events.tool_call(name="pay", arguments={"amount": amount}), correlation_id="run-1"
        )
        assert entry.event_type == "execution.tool_call"
        assert entry.value() == {"name": "pay", "arguments": {"amount": amount}}


def test_only_what_was_given_is_in_the_payload() -> None:
    assert events.run_started(name="triage")["payload"] == {"name": "triage"}
    assert events.tool_result(name="f", result=None)["payload"] == {"name": "f", "result": None}


def test_a_key_that_is_a_word_of_python_is_written_with_an_underscore() -> None:
    assert events.handoff(from_="desk", to="scribe")["payload"] == {"from": "desk", "to": "scribe"}


def test_a_further_key_is_put_into_the_payload() -> None:
    made = events.run_started(name="triage")
    made["payload"]["shelf"] = 7
    with chatsnapshot.open("memory:") as snapshot:
        assert snapshot.record(**made, correlation_id="run-1").payload == {"name": "triage", "shelf": 7}


def test_a_wrong_keyword_and_a_missing_one_are_named() -> None:
    with pytest.raises(TypeError, match="argumets"):
        events.tool_call(name="f", argumets={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="events"):
        events.gap(reason="full")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        events.tool_call("f")  # type: ignore[call-arg]


def test_help_and_editors_see_the_keywords_and_the_meaning() -> None:
    assert {"name", "call_id", "arguments"} <= set(inspect.signature(events.tool_call).parameters)
    assert "a tool is being called" in (events.tool_call.__doc__ or "")


def test_constructors_are_loaded_at_first_use_only() -> None:
    code = "import sys, chatsnapshot.events as e; assert 'msgspec' not in sys.modules; e.tool_call(name='f')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_constructor_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="tool_cal"):
        events.tool_cal  # noqa: B018
