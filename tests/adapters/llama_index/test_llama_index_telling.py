"""What LlamaIndex's messages, answers and events come to in payloads."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from chatsnapshot.adapters.llama_index.telling import (
    event_facts,
    output_of,
    parts_of,
    query_text,
    role_of,
    tool_answer,
    usage_of,
    words_of,
)

core = pytest.importorskip("llama_index.core")

from llama_index.core.base.llms.types import (  # noqa: E402
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.schema import QueryBundle  # noqa: E402
from llama_index.core.tools import ToolOutput  # noqa: E402
from llama_index.core.workflow import HumanResponseEvent, StopEvent  # noqa: E402


def test_the_blocks_of_a_message_are_parts() -> None:
    message = ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm"),
            TextBlock(text="Hello"),
            ImageBlock(url="https://example.org/lamp.png", image_mimetype="image/png"),
            ImageBlock(image=b"\x89PNG", image_mimetype="image/png"),
            ToolCallBlock(tool_call_id="call_1", tool_name="add", tool_kwargs='{"a": 2}'),
        ],
    )
    thought, said, linked, held, wanted = parts_of(message)
    assert (thought["type"], said) == ("reasoning", {"type": "text", "content": "Hello"})
    assert (linked["type"], linked["modality"], linked["uri"]) == (
        *("uri", "image", "https://example.org/lamp.png"),
    )
    assert (held["type"], held["mime_type"]) == ("blob", "image/png")
    assert wanted == {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 2}}
    assert words_of(message) == "Hello"
    json.dumps(parts_of(message))


def test_a_message_of_a_tool_answers_its_call() -> None:
    message = ChatMessage("5", role="tool", additional_kwargs={"tool_call_id": "call_1"})
    assert parts_of(message) == [{"type": "tool_call_response", "id": "call_1", "result": "5"}]


@pytest.mark.parametrize(
    ("role", "told"),
    [("developer", "system"), ("chatbot", "assistant"), ("model", "assistant"), ("function", "tool")],
)
def test_roles_have_their_common_names(role: str, told: str) -> None:
    assert role_of(ChatMessage("x", role=role)) == told


@pytest.mark.parametrize(
    ("raw", "more"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}, {}),
        ({"usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 2}}, {}),
        (SimpleNamespace(usage=SimpleNamespace(input_tokens=5, output_tokens=2)), {}),
        (None, {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}),
    ],
    ids=["openai", "gemini", "anthropic", "counted by LlamaIndex"],
)
def test_tokens_are_found_where_providers_put_them(raw: Any, more: dict[str, int]) -> None:
    response = ChatResponse(message=ChatMessage("x"), raw=raw, additional_kwargs=more)
    assert usage_of(response) == {"input_tokens": 5, "output_tokens": 2}
    assert usage_of(ChatResponse(message=ChatMessage("x"), raw={"usage": None})) is None


def test_a_tool_that_failed_tells_its_exception_and_one_that_did_not_its_value() -> None:
    error = ValueError("no such city")
    failed = ToolOutput(
        content="no", tool_name="fail", raw_input={}, raw_output=None, is_error=True, exception=error
    )
    assert tool_answer(failed) == {"error": error}
    gave = ToolOutput(content="5", tool_name="add", raw_input={}, raw_output=5)
    assert tool_answer(gave) == {"result": 5}
    of_an_engine = ToolOutput(content="words", tool_name="ask", raw_input={}, raw_output=object())
    assert tool_answer(of_an_engine) == {"result": "words"}


def test_events_and_answers_are_plain() -> None:
    assert event_facts(HumanResponseEvent(response="yes", by="odile")) == {"response": "yes", "by": "odile"}
    assert output_of(StopEvent(result=ChatMessage("done"))) == "done"
    assert output_of(StopEvent(result={"n": 1})) == {"n": 1}
    assert output_of(CompletionResponse(text="done")) == "done"
    assert query_text(QueryBundle("which?")) == query_text("which?") == "which?"


def test_a_stream_is_left_unread() -> None:
    read = []

    def pieces() -> Any:
        read.append(1)
        yield "x"

    assert output_of(SimpleNamespace(response_gen=pieces(), source_nodes=[])) is None
    assert not read
