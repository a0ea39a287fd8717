"""Messages as spans and logs carry them, in one form; each with an identity that every span that repeats it shares.

Forms that are read: ``gen_ai.input.messages`` and its kin (JSON text or structure), OpenInference's flattened lists,
``gen_ai.prompt.N.role`` of older instrumentations, and bodies of ``gen_ai.*.message`` events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chatsnapshot.ingest.otlp.event import event_key
from chatsnapshot.ingest.otlp.flat import taken_list

__all__ = [
    "Message",
    "asked_calls",
    "call_without_id",
    "identified",
    "instructions",
    "parsed",
    "read_events",
    "taken_messages",
]

Facts = dict[str, Any]

Message = Facts
"""The payload of ``execution.message``: ``role`` and ``content`` (one text) or ``parts``."""

_INPUTS = ("gen_ai.input.messages", "gen_ai.input_messages", "gen_ai.prompt")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.output_messages", "gen_ai.completion")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_TEXTS = ("text", "input_text", "output_text")


def parsed(value: Any) -> Any:
    """A value that may come as JSON text; text that is no JSON object or list stays as it is."""
    if type(value) is str and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def taken_messages(facts: Facts, output: bool) -> list[Message]:
    """The messages in a span's attributes, taken out of them: what the model was given, or what it said."""
    for name in _OUTPUTS if output else _INPUTS:
        if name in facts:
            return _spoken(_read(parsed(facts.pop(name)), "assistant" if output else "user"))
    for prefix in ("gen_ai.completion",) if output else ("gen_ai.prompt",):
        found = taken_list(facts, prefix)
        if found:
            return _spoken(_read(found, "assistant" if output else "user"))
    found = taken_list(facts, "llm.output_messages" if output else "llm.input_messages")
    return _spoken([_inference(item) for item in found if isinstance(item, dict)])


def _spoken(messages: list[Message]) -> list[Message]:
    """Without those of which nothing but the role is told."""
    return [message for message in messages if message.get("content") is not None or message.get("parts")]


def instructions(value: Any) -> list[Message]:
    """``gen_ai.system_instructions``: a list of parts, or a text."""
    value = parsed(value)
    if not value:
        return []
    return [_shaped("system", value if isinstance(value, list) else [value], None)]


def read_events(events: Iterable[tuple[int, str, Facts]]) -> tuple[list[Message], list[Message]]:
    """What older conventions put into span events: the messages given, and those said."""
    given: list[Message] = []
    said: list[Message] = []
    for _, name, facts in events:
        if name == "gen_ai.choice":
            body = parsed(facts.get("message"))
            said += _read(
                [body if isinstance(body, dict) else {**facts, "content": facts.get("content", body)}],
                "assistant",
            )
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            given += _read([dict(facts)], name[len("gen_ai.") : -len(".message")])
        elif name == "gen_ai.content.prompt":
            given += _read(parsed(facts.get("gen_ai.prompt")), "user")
        elif name == "gen_ai.content.completion":
            said += _read(parsed(facts.get("gen_ai.completion")), "assistant")
    return given, said


def _read(value: Any, role: str) -> list[Message]:
    """Messages of the GenAI conventions or of OpenAI's form; a bare text is one message."""
    if value is None or value == "":
        return []
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return [{"role": role, "content": value}]
    made: list[Message] = []
    for item in value:
        if not isinstance(item, dict):
            made.append({"role": role, "content": item})
            continue
        said = item.get("role")
        said = _ROLES.get(said, said) if isinstance(said, str) and said else role
        parts = item.get("parts")
        if not isinstance(parts, list):
            parts = _parts_of(item)
        made.append(_shaped(said, parts, item.get("name"), item.get("tool_call_id", item.get("id"))))
    return made


def _parts_of(item: Facts) -> list[Any]:
    """The parts of a message in OpenAI's form, flattened or not."""
    content = parsed(item.get("content"))
    parts: list[Any] = (
        list(content) if isinstance(content, list) else [] if content in (None, "") else [item["content"]]
    )
    calls = parsed(item.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            inner = call.get("function")
            inner = inner if isinstance(inner, dict) else call
            parts.append(_call(call.get("id"), inner.get("name"), inner.get("arguments")))
    if item.get("reasoning_content"):
        parts.insert(0, {"type": "reasoning", "content": item["reasoning_content"]})
    return parts


def _inference(item: Facts) -> Message:
    """One of OpenInference's messages."""
    inner = item.get("message")
    message: Facts = inner if isinstance(inner, dict) else {}
    role = message.get("role")
    role = _ROLES.get(role, role) if isinstance(role, str) and role else "user"
    parts: list[Any] = []
    for one in message.get("contents") or ():
        inner = one.get("message_content") if isinstance(one, dict) else None
        if isinstance(inner, dict):
            kind = inner.pop("type", "text")
            text = inner.pop("text", None)
            parts.append({"type": kind, **({"content": text} if text is not None else {}), **inner})
    content = message.get("content")
    if content not in (None, "") and all(content != part["content"] for part in parts if "content" in part):
        parts.insert(0, content)  # some write the text in both places
    for one in message.get("tool_calls") or ():
        call = one.get("tool_call") if isinstance(one, dict) else None
        if isinstance(call, dict):
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            parts.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    name = message.get("function_call_name")
    if name:
        parts.append(_call(None, name, message.get("function_call_arguments_json")))
    return _shaped(role, parts, message.get("name"), message.get("tool_call_id"))


def _call(call_id: Any, name: Any, arguments: Any) -> Facts:
    part: Facts = {"type": "tool_call"}
    if call_id:
        part["id"] = call_id
    part["name"] = name
    part["arguments"] = parsed(arguments)
    return part


def _shaped(role: str, parts: list[Any], name: Any, call_id: Any = None) -> Message:
    """A message: one text as ``content``, a tool's answer as its part, anything else as parts."""
    message: Message = {"role": role}
    if (
        role == "tool"
        and (call_id or name)
        and not any(isinstance(one, dict) and "type" in one for one in parts)
    ):
        answer: Facts = {"type": "tool_call_response"}
        if call_id:
            answer["id"] = call_id
        if name:
            answer["name"] = name
        answer["result"] = parts[0] if len(parts) == 1 else parts
        message["parts"] = [answer]
        return message
    if name:
        message["name"] = name
    if len(parts) == 1:
        only = parts[0]
        if type(only) is str:
            message["content"] = only
            return message
        if type(only) is dict and only.get("type") in _TEXTS and only.keys() <= {"type", "content", "text"}:
            text = only.get("content", only.get("text"))
            if type(text) is str:
                message["content"] = text
                return message
    message["parts"] = [{"type": "text", "content": one} if type(one) is str else one for one in parts]
    return message


# --- identity ---


def asked_calls(message: Message) -> list[str]:
    """What tells each tool call that a message asks for: its id, and its name with its arguments."""
    asked: list[str] = []
    for part in message.get("parts") or ():
        if isinstance(part, dict) and part.get("type") == "tool_call":
            if isinstance(part.get("id"), str):
                asked.append(part["id"])
            asked.append(call_without_id(part.get("name"), part.get("arguments")))
    return asked


def call_without_id(name: Any, arguments: Any) -> str:
    """What stands for the id of a call where a tool's span has none."""
    return hashlib.sha256(_stable([name, parsed(arguments)])).hexdigest()


def identified(correlation: str, messages: list[Message]) -> list[bytes]:
    """The id of each message of one history, in its order.

    It follows from the conversation, the role and the parts, and from how many messages before it in the history are
    the same: the second "yes" is another message than the first. What only some spans tell (names, reasoning, finish
    reasons) is left out.
    """
    seen: dict[bytes, int] = {}
    keys: list[bytes] = []
    for message in messages:
        digest = hashlib.sha256(_essence(message)).digest()
        number = seen[digest] = seen.get(digest, 0) + 1
        conversation = hashlib.sha256(correlation.encode("utf-8", "replace")).hexdigest()[:32]
        keys.append(event_key("message", conversation, digest.hex(), str(number)))
    return keys


_encoder = msgspec.json.Encoder(order="sorted")


def _essence(message: Message) -> bytes:
    role = message["role"]
    content = message.get("content")
    parts: list[Any]
    if type(content) is str:
        parts = [content]
    else:
        parts = [_part(one) for one in message.get("parts") or [content]]
        parts = [one for one in parts if one is not None] or list(message.get("parts") or [content])
    if role == "user" and parts and all(type(one) is list and one[:1] == ["answer"] for one in parts):
        role = "tool"
    return _stable([role, parts])


def _stable(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except Exception:  # lone surrogates, bytes: any stable text will do
        return repr(value).encode("utf-8", "replace")


def _part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind in _TEXTS:
        return part.get("content", part.get("text"))
    if kind in ("reasoning", "thinking"):
        return None
    if kind == "tool_call":
        return ["call", part.get("id"), part.get("name"), parsed(part.get("arguments"))]
    if kind == "tool_call_response":
        return ["answer", part.get("id"), parsed(part.get("result", part.get("response")))]
    return part
