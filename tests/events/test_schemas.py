"""Every type of the catalogue has a schema that fits what the normaliser reads and refuses what nobody could read."""

from __future__ import annotations

import datetime
import decimal
import enum
import http
import inspect
import uuid
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
import pytest

import chatsnapshot
from chatsnapshot import jsonvalue
from chatsnapshot.events import catalogue
from chatsnapshot.events.readers import READERS
from chatsnapshot.events.schemas import SCHEMAS, parts
from chatsnapshot.intake import _OWN_TYPES
from chatsnapshot.projections.lines import line
from chatsnapshot.projections.render import render_text

SHARED = [getattr(parts, name) for name in parts.__all__ if inspect.isclass(getattr(parts, name))]
STRUCTS = [
    *dict.fromkeys(one.payload for one in SCHEMAS.values()),
    *(one for one in SHARED if issubclass(one, msgspec.Struct)),
]


def misfit(event_type: str, payload: Any) -> str | None:
    """Why a payload, as it would be stored, does not fit."""
    schema = SCHEMAS[event_type]
    try:
        made = msgspec.json.decode(jsonvalue.encode(payload).json, type=schema.payload)
    except msgspec.ValidationError as error:
        return str(error)
    names = {field.encode_name: field.name for field in msgspec.structs.fields(schema.payload)}
    for group in schema.one_of:
        if all(getattr(made, names[key]) is None for key in group):
            return f"none of {group}"
    return None


def test_every_type_of_the_catalogue_has_a_schema() -> None:
    assert list(SCHEMAS) == list(catalogue.TYPES) == list(READERS)
    for event_type, schema in SCHEMAS.items():
        assert (schema.event_type, schema.version) == (event_type, 1)
        assert schema.summary == catalogue.TYPES[event_type]


def test_the_keys_of_which_one_is_needed_are_fields() -> None:
    for schema in SCHEMAS.values():
        keys = {field.encode_name for field in msgspec.structs.fields(schema.payload)}
        assert {key for group in schema.one_of for key in group} <= keys, schema.event_type


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda one: one.__name__)
def test_every_field_says_what_it_means_and_null_stands_for_a_key_left_out(struct: Any) -> None:
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        notes = hints[field.name].__metadata__ if get_origin(hints[field.name]) is Annotated else ()
        assert any(note.description for note in notes), f"{struct.__name__}.{field.name}"
        if not field.required:
            msgspec.convert(None, field.type)


@pytest.mark.parametrize("event_type", SCHEMAS)
def test_an_example_fits_with_unknown_keys_and_nulls_beside(event_type: str) -> None:
    schema = SCHEMAS[event_type]
    keys = {field.encode_name for field in msgspec.structs.fields(schema.payload)}
    assert set(schema.example) <= keys
    assert misfit(event_type, schema.example) is None
    absent = dict.fromkeys(keys - set(schema.example))
    assert misfit(event_type, {**absent, **schema.example, "shelf": {"anything": [1]}}) is None


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [str(value)]


@pytest.mark.parametrize("event_type", SCHEMAS)
def test_the_reader_of_a_type_gives_facts_of_its_example(event_type: str) -> None:
    example = SCHEMAS[event_type].example
    read = READERS[event_type](example)
    facts = leaves(msgspec.to_builtins(read))
    given = leaves({key: value for key, value in example.items() if key != "native"})
    found = [one for one in given if any(one in fact for fact in facts)]
    assert len(found) >= min(2, len(given)), f"{read} of {example}"


@pytest.mark.parametrize("event_type", SCHEMAS)
def test_an_example_is_told_in_words(event_type: str) -> None:
    with chatsnapshot.open("memory:") as snapshot:
        example = SCHEMAS[event_type].example
        if event_type in _OWN_TYPES:
            pytest.skip("only a ledger itself records these")
        entry = snapshot.record(event_type, example, correlation_id="r")
        said = line(entry, entry.payload)
        (item,) = snapshot.view("timeline", "r").items
        transcript = render_text(snapshot.view("transcript", "r"))
    assert item.what == said and said
    for shown in (said, transcript):
        assert "{" not in shown and "unknown" not in shown and "someone" not in shown


def assert_fits(fits: bool, event_type: str, payload: Any) -> None:
    found = misfit(event_type, payload)
    assert (found is None) is fits, f"{event_type} {payload}: {found}"


NUMBER = uuid.UUID(int=7)
NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.timezone.utc)


class Decision(str, enum.Enum):
    APPROVED = "approved"


@pytest.mark.parametrize(
    ("event_type", "payload"),
    [
        ("execution.message", {"role": "user", "content": "Hello"}),
        ("execution.message", {"role": "user", "content": None}),
        ("execution.message", {"value": "Hello"}),
        ("execution.message", "Hello"),
        ("execution.message", {"messages": [{"role": "user", "content": "Hello"}, "Hello"]}),
        (
            "execution.message",
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
                ],
            },
        ),
        ("execution.message", {"role": "tool", "tool_call_id": "c", "content": "4"}),
        (
            "execution.message",
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Hello"},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
                ],
            },
        ),
        ("execution.message", {"role": "user", "parts": ["Hello", {"type": "blob", "content": b"\x00"}]}),
        ("execution.tool_call", {"tool_name": "f", "args": {"a": 1}}),
        ("execution.tool_call", {"tool": "f", "input": {"a": 1}}),
        ("execution.tool_call", {"tool": {"name": "f", "arguments": {"a": 1}, "call_id": NUMBER}}),
        (
            "execution.tool_call",
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ),
        ("execution.tool_call", {"name": "f", "call_id": 7, "arguments": "x" * 300_000}),
        ("execution.tool_result", {"tool_call_id": "c", "content": None}),
        ("execution.tool_result", {"name": "f", "error": ValueError("no")}),
        ("execution.tool_result", {"name": "f", "error": "no", "status": http.HTTPStatus.NOT_FOUND}),
        ("execution.tool_result", 4),
        ("execution.run_started", {}),
        ("execution.run_started", {"tags": {"env": "dev"}, "user": {"name": "odile", "mail": "o@example"}}),
        ("execution.run_started", {"tags": ("a", "b"), "run_id": NUMBER}),
        ("execution.run_failed", {"error": ValueError("no")}),
        ("execution.run_completed", "done"),
        ("execution.human_input_received", {"approved": False}),
        ("execution.human_input_received", {"decision": Decision.APPROVED}),
        ("execution.human_input_requested", {"interrupt": {"id": "q", "question": "Go?"}}),
        ("execution.human_input_requested", {"kind": "approval", "tool": {"name": "rm"}}),
        ("execution.handoff", {"source": "a", "target": {"name": "b"}}),
        ("execution.model_call", {"started_at": NOON, "usage": {"prompt_tokens": 3.0}}),
        ("execution.model_call", {"error": {"$type": "exception", "class": "KeyError", "message": "x"}}),
        ("execution.evaluation", {"target_event_id": NUMBER, "score": decimal.Decimal("0.9")}),
        ("execution.evaluation", {"run_id": "r", "score": True}),
        ("execution.evaluation", {"run_id": "r", "label": "good", "kind": "model"}),
        ("system.task_started", {"task": {"id": "t", "name": "n"}}),
        ("system.task_failed", {"task_id": 3, "error": TimeoutError(), "depends_on": ("a", "b")}),
        ("integration.response", {"url": "https://x.example", "status": 200}),
        ("ui.input_received", "Hello"),
    ],
)
def test_what_the_reader_understands_fits(event_type: str, payload: Any) -> None:
    assert_fits(True, event_type, payload)


@pytest.mark.parametrize(
    ("event_type", "payload"),
    [
        ("execution.message", {}),
        ("execution.message", {"words": "Hello"}),
        ("execution.message", {"content": None, "name": "desk"}),
        ("execution.message", {"role": ["user"], "content": "Hello"}),
        ("execution.message", {"role": "assistant", "tool_calls": "f()"}),
        ("execution.tool_call", {}),
        ("execution.tool_call", {"arguments": {"a": 1}}),
        ("execution.tool_call", {"name": None, "arguments": {}}),
        ("execution.tool_call", {"name": ["f"]}),
        ("execution.tool_call", {"name": "f", "call_id": {"no": "tag"}}),
        ("execution.tool_call", {"name": "f", "attempt": 0}),
        ("execution.tool_result", {"temperature": 21}),
        ("execution.tool_result", {"name": "f", "duration_ns": -1}),
        ("execution.tool_result", {"name": "f", "is_error": "no"}),
        ("execution.run_started", {"run_id": True}),
        ("execution.run_started", {"forked_from": {"correlation_id": "r", "position": 0}}),
        ("execution.human_input_requested", {"question": "Go?", "kind": "riddle"}),
        ("execution.human_input_received", {"decision": "maybe"}),
        ("execution.human_input_received", {}),
        ("execution.handoff", {"from": "desk"}),
        ("execution.model_call", {"usage": "12 tokens"}),
        ("execution.model_call", {"usage": {"input_tokens": -1}}),
        ("execution.model_call", {"usage": {"input_tokens": 1.5}}),
        ("execution.model_call", {"started_at": 1_796_000_000}),
        ("execution.evaluation", {"run_id": "r"}),
        ("execution.evaluation", {"score": 1}),
        ("execution.evaluation", {"run_id": "r", "score": 1, "kind": "robot"}),
        ("execution.evaluation", {"run_id": "r", "score": [1]}),
        ("system.task_started", {"workflow_id": "w"}),
        ("system.task_completed", {"output": 1}),
        ("system.error", {}),
        ("ui.interaction", {"value": 1}),
        ("integration.call", {"call_id": "c"}),
        ("ledger.gap", {"reason": "full"}),
    ],
)
def test_what_nobody_could_read_does_not_fit(event_type: str, payload: Any) -> None:
    assert_fits(False, event_type, payload)
