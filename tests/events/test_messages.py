"""Every plain form of a message says the same to every reader."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.events.messages import Call, Media, Result, Said, read_messages

ASKS = (Call("search", "c1", {"q": "refund"}),)


def only(payload: dict[str, Any]) -> Said:
    (said,) = read_messages(payload)
    return said


@pytest.mark.parametrize(
    "payload",
    [
        {"role": "user", "content": "Hello"},
        {"role": "user", "parts": [{"type": "text", "content": "Hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"role": "user", "content": ["Hello"]},
        {"message": {"role": "user", "parts": [{"type": "text", "content": "Hello"}]}, "run_id": "r"},
        {"role": "user", "message": "Hello"},
        {"role": "user", "text": "Hello"},
    ],
)
def test_text_is_read_from_every_form(payload: dict[str, Any]) -> None:
    said = only(payload)
    assert (said.role, said.text) == ("user", "Hello")


@pytest.mark.parametrize(
    "payload",
    [
        {"parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "refund"}}]},
        {
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q": "refund"}'},
                }
            ],
        },
        {"content": "", "tool_calls": [{"id": "c1", "name": "search", "args": {"q": "refund"}}]},
        {"content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "refund"}}]},
        {
            "content": [
                {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":"refund"}'}
            ]
        },
    ],
)
def test_a_wish_for_a_tool_is_read_from_every_form(payload: dict[str, Any]) -> None:
    assert only({"role": "assistant", **payload}).calls == ASKS


def test_a_call_that_stands_in_parts_and_beside_them_counts_once() -> None:
    call = {"id": "c1", "name": "search", "arguments": {"q": "refund"}}
    assert (
        only({"role": "assistant", "parts": [{"type": "tool_call", **call}], "tool_calls": [call]}).calls
        == ASKS
    )


@pytest.mark.parametrize(
    "payload",
    [
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "4"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "4"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "4"}]}
            ],
        },
        {"role": "tool", "tool_responses": [{"tool_call_id": "c1", "role": "tool", "content": "4"}]},
    ],
)
def test_a_tools_answer_is_read_from_every_form(payload: dict[str, Any]) -> None:
    said = only(payload)
    assert said.results == (Result(None, "c1", "4"),)
    assert said.empty


def test_an_answer_that_failed_carries_its_error() -> None:
    part = {"type": "tool_result", "tool_use_id": "c1", "content": "no such file", "is_error": True}
    assert only({"role": "user", "content": [part]}).results[0].error == "no such file"


def test_speaker_and_recipient_are_read_from_names_and_objects() -> None:
    said = only({"role": "assistant", "content": "x", "sender": {"name": "planner"}, "recipient": "coder"})
    assert (said.name, said.to) == ("planner", "coder")


def test_reasoning_stands_apart_from_text() -> None:
    said = only({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, "So"]})
    assert (said.reasoning, said.text) == ("hm", "So")


def test_pictures_and_blobs_are_named_and_kept() -> None:
    blob = {"$blob": "sha256:" + "ab" * 32, "bytes": 40_000, "media_type": "image/png"}
    picture = {"type": "uri", "modality": "image", "uri": "https://x.example/a.png"}
    said = only({"role": "user", "parts": [picture, blob, {"type": "holo_gram", "content": "zzz"}]})
    assert [part.text for part in said.media] == [
        "[uri image https://x.example/a.png]",
        "<image/png, 40,000 bytes, sha256:abababababab…>",
        "[holo_gram 3 characters]",
    ]
    assert said.media[2] == Media(
        "holo_gram", "[holo_gram 3 characters]", {"type": "holo_gram", "content": "zzz"}
    )


def test_a_payload_with_several_messages_gives_each() -> None:
    payload = {
        "agent": "a",
        "messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}],
    }
    assert [(said.role, said.text) for said in read_messages(payload)] == [("user", "1"), ("assistant", "2")]


def test_an_odd_payload_is_shown_as_it_is() -> None:
    assert only({"foo": [1, None], "bar": {"x": True}}).text == '{"foo": [1, null], "bar": {"x": true}}'
    assert only({"value": "just a text"}).text == "just a text"
    assert only({"role": "user", "content": {"k": 1}}).text == '{"k": 1}'
    assert only({}).text == ""


def test_a_part_whose_type_is_no_text_is_shown_as_it_is() -> None:
    assert only({"role": "user", "content": [{"type": ["?"]}]}).text == '{"type": ["?"]}'
    nested = {"type": "tool_result", "id": "c", "content": [{"type": {}}]}
    assert only({"role": "user", "content": [nested]}).results[0].result == [{"type": {}}]


def test_a_message_that_says_nothing_is_empty_not_odd() -> None:
    assert only({"role": "assistant", "content": None, "refusal": None}).text == ""
