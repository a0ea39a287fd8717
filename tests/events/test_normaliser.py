"""Tools, questions, runs, tasks and services are read from every plain form; nothing raises."""

from __future__ import annotations

import datetime
import decimal
import enum
import http
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot import jsonvalue
from chatsnapshot.events import facts, normaliser
from chatsnapshot.events.fields import error_text
from chatsnapshot.events.messages import Call, Result, read_messages


def stored(payload: Any) -> Any:
    return msgspec.json.decode(jsonvalue.encode(payload).json)


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "search", "call_id": "c1", "arguments": {"q": 1}},
        {"tool_name": "search", "call_id": "c1", "arguments": '{"q": 1}'},
        {"tool": "search", "tool_call_id": "c1", "args": {"q": 1}},
        {"tool": {"name": "search", "call_id": "c1", "arguments": {"q": 1}}, "agent": "a"},
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}},
        {"func_name": "search", "call_id": "c1", "arguments": {"q": 1}},
    ],
)
def test_a_tool_call_is_read_from_every_form(payload: dict[str, Any]) -> None:
    assert normaliser.read_call(payload) == Call("search", "c1", {"q": 1})


def test_arguments_that_are_no_json_stay_as_the_model_wrote_them() -> None:
    assert normaliser.read_call({"name": "f", "arguments": '{"q": '}).arguments == '{"q": '


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ({"tool_name": "f", "call_id": "c", "result": 4}, Result("f", "c", 4)),
        ({"name": "f", "call_id": "c", "output": "x"}, Result("f", "c", "x")),
        ({"name": "f", "tool_call_id": "c", "content": None}, Result("f", "c", None)),
        ({"name": "f", "result": "no", "is_error": True}, Result("f", None, "no", "no")),
        ({"name": "f", "is_exec_success": False, "content": "bad"}, Result("f", None, "bad", "bad")),
        (
            {"name": "f", "error": {"type": "KeyError", "message": "'x'"}},
            Result("f", None, None, "KeyError: 'x'"),
        ),
        ({"name": "f", "error": {"type": None, "message": "bad"}}, Result("f", None, None, "bad")),
        ({"tool": {"name": "f", "result": 1, "is_error": True}}, Result("f", None, 1, "1")),
        ({"temperature": 21}, Result(None, None, {"temperature": 21})),
    ],
)
def test_a_tool_result_is_read_from_every_form(payload: dict[str, Any], result: Result) -> None:
    assert normaliser.read_result(payload) == result


def test_an_exception_given_as_error_reads_as_type_and_message() -> None:
    assert normaliser.read_result(stored({"name": "f", "error": ValueError("no city")})).error == (
        "ValueError: no city"
    )


def test_python_values_read_as_people_write_them() -> None:
    call = normaliser.read_call(
        stored({"name": "f", "arguments": {"amount": decimal.Decimal("1.10"), "$x": 1}})
    )
    assert call.arguments == {"amount": "1.10", "$x": 1}


def test_a_question_is_read_flat_or_as_an_interrupt() -> None:
    flat = normaliser.read_question({"id": "q", "question": "Go?", "kind": "approval"})
    assert (flat.question_id, flat.text, flat.kind) == ("q", "Go?", "approval")
    nested = normaliser.read_question({"interrupt": {"id": "q", "question": "Go?"}})
    assert (nested.question_id, nested.text, nested.kind) == ("q", "Go?", "question")


def test_an_approval_of_a_tool_says_which_call() -> None:
    asked = normaliser.read_question({"kind": "approval", "tool": {"name": "rm", "arguments": {"path": "/"}}})
    assert asked.text == 'rm({"path": "/"})'


def test_an_answer_names_its_question_and_decision() -> None:
    answer = normaliser.read_answer({"answers": "q", "decision": "edited", "value": {"a": 1}})
    assert (answer.answers, answer.decision, answer.value) == ("q", "edited", {"a": 1})
    assert normaliser.read_answer({"approved": False}).decision == "rejected"


def test_facts_of_runs_tasks_services_and_models_are_read() -> None:
    run = normaliser.read_run({"run_id": 7, "name": "n", "tags": {"env": "dev"}, "error": "bad"})
    assert (run.run_id, run.name, run.tags, run.error) == ("7", "n", ("env=dev",), "bad")
    task = normaliser.read_task({"task": {"id": "t", "name": "n"}, "attempt": 2})
    assert (task.task_id, task.name, task.attempt) == ("t", "n", 2)
    service = normaliser.read_service({"service": "crm", "operation": "get", "status": 503})
    assert (service.name, service.error) == ("crm get", "status 503")
    model = normaliser.read_model_call({"model": "m", "usage": {"prompt_tokens": 3}, "duration_ns": 5})
    assert (model.model, model.input_tokens, model.output_tokens, model.duration_ns) == ("m", 3, None, 5)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 9, "output_tokens": 7, "cache_read": 3, "cache_write": 2, "reasoning": 5},
        {
            "input_tokens": 9,
            "output_tokens": 7,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 2,
            "thinking_tokens": 5,
        },
        {
            "prompt_tokens": 9,
            "completion_tokens": 7.0,
            "prompt_tokens_details": {"cached_tokens": 3},
            "cache_write_tokens": 2,
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    ],
)
def test_tokens_are_read_by_the_names_of_all_providers(usage: dict[str, Any]) -> None:
    call = normaliser.read_model_call({"usage": usage})
    counts = (call.cache_read_tokens, call.cache_write_tokens, call.reasoning_tokens)
    assert (call.input_tokens, call.output_tokens, *counts) == (9, 7, 3, 2, 5)


def test_a_model_call_says_who_called_whom_when_and_how_it_went() -> None:
    started = datetime.datetime(2026, 11, 30, 2, 26, tzinfo=datetime.timezone.utc)
    call = normaliser.read_model_call(
        stored(
            {
                "provider": "acme",
                "agent": "desk",
                "started_at": started,
                "attempt": 2,
                "finish_reasons": ["stop"],
            }
        )
    )
    assert (call.provider, call.agent, call.attempt, call.finish_reason) == ("acme", "desk", 2, "stop")
    assert call.started_at == "2026-11-30T02:26:00+00:00"
    assert normaliser.read_model_call({"usage": "12 tokens"}).input_tokens is None


def test_ids_names_and_labels_given_as_python_values_are_read() -> None:
    number = uuid.UUID(int=7)
    assert normaliser.read_call(stored({"name": "f", "call_id": number})).call_id == str(number)
    assert normaliser.read_run(stored({"run_id": number, "tags": ("a", "b")})).tags == ("a", "b")
    assert normaliser.read_answer(stored({"decision": Decision.APPROVED})).decision == "approved"
    broken = normaliser.read_service(stored({"service": "crm", "status": http.HTTPStatus.BAD_GATEWAY}))
    assert broken.error == "status 502"


def test_an_object_of_no_known_kind_is_no_id() -> None:
    assert normaliser.read_call({"name": "f", "call_id": {"$type": "unheard of"}}).call_id is None


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "f", "result": 4},
        {"name": "f", "error": {}},
        {"name": "f", "error": "no"},
        {"tool": {"name": "f", "is_error": True}},
        {"name": "f", "status": 503},
    ],
)
def test_a_tool_has_failed_when_its_result_has_an_error(payload: dict[str, Any]) -> None:
    assert normaliser.tool_failed(payload) is (normaliser.read_result(payload).error is not None)


class Decision(str, enum.Enum):
    APPROVED = "approved"


READERS = [
    getattr(module, name)
    for module in (normaliser, facts)
    for name in module.__all__
    if name.startswith("read_")
]
READERS.append(read_messages)
WORDS = """
    role content parts text name tool tool_name tool_calls call_id id arguments result error is_error status messages
    message function usage task answers decision interrupt type value $type $blob $erased $json $withheld from to tags
    sender approved tool_responses positions documents finish_reasons triggered limit used behind_ns operation key
"""
KEYS = st.sampled_from(WORDS.split())
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | KEYS
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner)
)


@given(st.dictionaries(KEYS, TREES))
def test_no_payload_makes_a_reader_raise_or_give_what_json_cannot_hold(payload: dict[str, Any]) -> None:
    for reader in READERS:
        msgspec.json.encode(reader(payload))


@pytest.mark.parametrize("levels", [90, 900])
def test_a_payload_nested_beyond_reason_is_cut_not_refused(levels: int) -> None:
    deep: Any = "core"
    for _ in range(levels):
        deep = [deep]
    said = read_messages({"role": "user", "content": {"k": deep}})[0]
    assert "nested too deeply" in said.text
    msgspec.json.encode(normaliser.read_call({"name": "f", "arguments": deep}))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"type": "KeyboardInterrupt", "module": "builtins", "message": ""}, "KeyboardInterrupt"),
        ({"type": "ValueError", "module": "builtins", "message": "no city"}, "ValueError: no city"),
        ({"type": "limit", "tokens": 5}, '{"type": "limit", "tokens": 5}'),
    ],
)
def test_an_exception_that_says_nothing_is_told_by_its_type(error: Any, said: str) -> None:
    assert error_text(error) == said
