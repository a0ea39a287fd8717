"""Messages in every plain form: role and content, OpenAI messages with tool calls, OpenTelemetry GenAI parts.

Part names follow the OpenTelemetry GenAI semantic conventions (``text``, ``reasoning``, ``tool_call``,
``tool_call_response``, ``blob``, ``file``, ``uri``); the names that providers use for the same are read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.events.fields import (
    error_text,
    failed,
    first,
    ident,
    loads,
    merged,
    name_of,
    placeholder,
    readable,
    text_of,
)

__all__ = ["Call", "Media", "Result", "Said", "looks_like_message", "read_messages", "read_speaker"]

_NAMES = ("name", "sender", "agent", "author", "speaker", "from")
_PEOPLE = frozenset({*_NAMES, "recipient", "to"})
_CONTENT = ("parts", "content", "text", "value", "message", "output")
_NOT_PLAIN = frozenset(
    {
        *("messages", "message", "parts", "tool_calls", "function_call", "tool_call_id", "call_id"),
        *("reasoning", "reasoning_content", "refusal", "tool_responses", "tool_results"),
    }
)
"""A payload with none of these keys, a text as its content and a role other than a tool's is that text, said."""
_TEXT = frozenset({"text", "input_text", "output_text", "refusal"})
_REASONING = frozenset({"reasoning", "thinking", "redacted_thinking"})
_CALL = frozenset({"tool_call", "tool_use", "function_call", "server_tool_call", "server_tool_use"})
_RESULT = frozenset(
    {
        "tool_call_response",
        "tool_result",
        "function_call_output",
        "server_tool_call_response",
        "tool_response",
    }
)


class Call(msgspec.Struct, frozen=True, gc=False):
    """A wish to call a tool, or the call itself; ``arguments`` is a JSON value, ``None`` when unknown."""

    name: str | None
    call_id: str | None
    arguments: Any


class Result(msgspec.Struct, frozen=True, gc=False):
    """What a tool gave back; ``error`` is set when it failed."""

    name: str | None
    call_id: str | None
    result: Any
    error: str | None = None


class Media(msgspec.Struct, frozen=True, gc=False):
    """A part that is neither text nor tool: ``text`` is one line that names it, ``value`` the part as stored."""

    type: str
    text: str
    value: Any


class Said(msgspec.Struct, frozen=True, gc=False):
    """One message. ``role`` and ``name`` are ``None`` where the payload does not say."""

    role: str | None
    name: str | None
    to: str | None
    text: str
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    media: tuple[Media, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show but tool calls and results."""
        return not (self.text or self.reasoning or self.media)


class _Parts:
    """What was found in the parts of one message, in order."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[Call] = []
        self.results: list[Result] = []
        self.media: list[Media] = []

    def content(self, value: Any) -> None:
        if isinstance(value, list):
            for part in value:
                self.part(part)
        else:
            self.part(value)

    def part(self, part: Any) -> None:
        if not isinstance(part, Mapping):
            self._say(text_of(part))
            return
        there = placeholder(part)
        if there is not None:
            blob = "$blob" in part
            if blob:
                self.media.append(Media("blob", there, readable(part)))
            else:
                self._say(there)
            return
        kind = part_type(part)
        if kind in _TEXT or (kind is None and isinstance(part.get("text"), str)):
            self._say(text_of(first(part, "content", "text", "refusal")))
        elif kind in _REASONING:
            self.reasoning.append(text_of(first(part, "content", "thinking", "text", "summary", "data")))
        elif kind in _CALL:
            self.calls.append(read_call_part(part))
        elif kind in _RESULT:
            self.results.append(read_result_part(part))
        elif kind is not None:
            self.media.append(Media(kind, _media_text(kind, part), readable(part)))
        else:
            self._say(text_of(part))

    def call(self, call: Call) -> None:
        """A call from beside the parts; the same call is not counted twice."""
        if call.call_id is None or all(call.call_id != other.call_id for other in self.calls):
            self.calls.append(call)

    def _say(self, text: str) -> None:
        if text:
            self.text.append(text)


def part_type(part: Mapping[str, Any]) -> str | None:
    """The type of a part; one that is no text counts as none."""
    kind = part.get("type")
    return kind if isinstance(kind, str) else None


def _media_text(kind: str, part: Mapping[str, Any]) -> str:
    facts = [kind]
    for value in (part.get("modality"), first(part, "mime_type", "media_type")):
        if isinstance(value, str) and value not in facts:
            facts.append(value)
    for key in ("file_id", "uri", "url", "image_url", "filename", "name"):
        value = part.get(key)
        if isinstance(value, Mapping):
            value = first(value, "url", "uri") if placeholder(value) is None else placeholder(value)
        if isinstance(value, str) and value:
            facts.append(value if len(value) <= 120 else value[:60] + "…")
            break
    content = part.get("content")
    if isinstance(content, str) and content:
        facts.append(f"{len(content):,} characters")
    elif (there := placeholder(content)) is not None:
        facts.append(there)
    return "[" + " ".join(facts) + "]"


def read_call_part(part: Mapping[str, Any]) -> Call:
    """A tool call as it stands inside a message: OpenTelemetry, OpenAI, Anthropic, LangChain."""
    function = part.get("function")
    inner = function if isinstance(function, Mapping) else part
    name = name_of(first(inner, "name", "tool_name", "func_name"))
    if name is None and not isinstance(function, Mapping):
        name = ident(function)
    arguments = first(inner, "arguments", "args", "input", "parameters")
    call_id = ident(first(part, "call_id", "id", "tool_call_id", "tool_use_id"))
    return Call(name, call_id, readable(loads(arguments)))


def read_result_part(part: Mapping[str, Any]) -> Result:
    """A tool's answer as it stands inside a message."""
    value = first(part, "result", "response", "output", "content")
    text = error_text(part.get("error"))
    if text is None and failed(part):
        text = text_of(value) or "failed"
    return Result(
        name_of(first(part, "name", "tool_name")),
        ident(first(part, "call_id", "tool_call_id", "tool_use_id", "id")),
        _flat(readable(value)),
        text,
    )


def _flat(value: Any) -> Any:
    """Content blocks that are all text read as that text: ``[{"type": "text", "text": "4"}]`` is ``4``."""
    if isinstance(value, list) and value and all(_is_text(part) for part in value):
        return "\n".join(text_of(first(part, "content", "text")) for part in value)
    return value


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part_type(part) in _TEXT and set(part) <= {"type", "text", "content"}


def looks_like_message(payload: Mapping[str, Any]) -> bool:
    """Whether a payload of any type reads as a message: a role as text beside content or parts."""
    return isinstance(payload.get("role"), str) and ("content" in payload or "parts" in payload)


def read_messages(payload: Mapping[str, Any]) -> tuple[Said, ...]:
    """The messages of a payload, one as a rule; a payload of no known shape becomes one message with its JSON."""
    text = payload.get("content")
    if type(text) is str and text and _NOT_PLAIN.isdisjoint(payload):
        role = ident(payload.get("role"))
        if role != "tool" and role != "function":
            if _PEOPLE.isdisjoint(payload):
                return (Said(role, None, None, text),)
            name, to = first(payload, *_NAMES), first(payload, "recipient", "to")
            return (Said(role, name_of(name), name_of(to), text),)
    return tuple(map(_read, _apart(payload)))


def read_speaker(payload: Mapping[str, Any]) -> str | None:
    """The name that the first message of a payload gives."""
    return name_of(first(_apart(payload)[0], *_NAMES))


def _apart(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The payload of each message; at least one."""
    several = payload.get("messages")
    if (
        isinstance(several, list)
        and several
        and not any(key in payload for key in ("content", "parts", "text"))
    ):
        beside = {key: value for key, value in payload.items() if key in ("role", "name", "agent")}
        return [
            {**beside, **item} if isinstance(item, Mapping) else {**beside, "content": item}
            for item in several
        ]
    return [merged(payload, "message")]


def _read(payload: Mapping[str, Any]) -> Said:
    found = _Parts()
    role = ident(payload.get("role"))
    value = first(payload, *_CONTENT)
    call_id = ident(first(payload, "tool_call_id", "call_id"))
    if (role in ("tool", "function")) and not isinstance(payload.get("parts"), list):
        answers = first(payload, "tool_responses", "tool_results")
        if isinstance(answers, list):
            found.results.extend(read_result_part(item) for item in answers if isinstance(item, Mapping))
        elif call_id is not None or role == "function" or payload.get("name") is not None:
            found.results.append(read_result_part({"content": value, **payload, "id": call_id}))
        else:
            found.content(value)
    else:
        found.content(value)
    calls = payload.get("tool_calls")
    for item in calls if isinstance(calls, list) else ():
        if isinstance(item, Mapping):
            found.call(read_call_part(item))
    if isinstance(legacy := payload.get("function_call"), Mapping):
        found.call(read_call_part(legacy))
    for key in ("reasoning", "reasoning_content"):
        if isinstance(payload.get(key), str) and payload[key]:
            found.reasoning.append(payload[key])
    if isinstance(refusal := payload.get("refusal"), str) and refusal:
        found.text.append(refusal)
    text = "\n".join(found.text)
    if not (text or found.calls or found.results or found.media or found.reasoning) and not _expected(
        payload
    ):
        text = text_of(payload) if payload else ""
    return Said(
        role=role,
        name=name_of(first(payload, *_NAMES)),
        to=name_of(first(payload, "recipient", "to")),
        text=text,
        reasoning="\n".join(filter(None, found.reasoning)) or None,
        calls=tuple(found.calls),
        results=tuple(found.results),
        media=tuple(found.media),
    )


def _expected(payload: Mapping[str, Any]) -> bool:
    """Whether an empty message is what the payload says, not a shape that was not understood."""
    return any(key in payload for key in (*_CONTENT, "tool_calls", "role"))
