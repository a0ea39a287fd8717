"""LangChain's messages, model answers and states as payloads have them; knows their shapes, imports nothing of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = [
    "Command",
    "Said",
    "answer_of",
    "commands_in",
    "held_in",
    "is_message",
    "is_state",
    "messages_in",
    "model_facts",
    "output_of",
    "rest_of",
    "result_of",
    "role_of",
    "said",
]

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "HumanMessageChunk": "user",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_BUILT_IN = frozenset({dict, list, tuple, str, int, float, bool, type(None)})
"""What states mostly hold; none of it is a message."""
_MEDIA = {"image", "audio", "video", "file", "image_url", "input_audio", "media", "document"}


class Said(NamedTuple):
    """A message: who it is of, its parts, and what it is known by."""

    role: str
    parts: list[dict[str, Any]]
    name: str | None
    message_id: str | None
    text: str
    call_id: str | None
    """The tool call that a message of a tool answers."""


def is_message(value: Any) -> bool:
    """Whether it is a message of LangChain."""
    if type(value) in _BUILT_IN:
        return False
    return hasattr(value, "content") and isinstance(getattr(value, "type", None), str)


def role_of(message: Any) -> str:
    """Who a message of LangChain is of."""
    role = _ROLES.get(message.type) or str(getattr(message, "role", None) or message.type)
    return role if role in ("system", "user", "assistant", "tool") else _ROLES.get(role, "user")


def said(message: Any) -> Said:
    """A message of LangChain."""
    role = role_of(message)
    call_id: Any = None
    # What a message does not have is asked of none: a model of pydantic takes long to say that it has it not.
    if role == "tool":
        call_id = getattr(message, "tool_call_id", None)
        parts = [tool_response_part(call_id, plain(message.content))]
    else:
        parts = list(_parts(message.content))
        if role == "assistant":
            for kind in ("tool_calls", "invalid_tool_calls"):
                for call in getattr(message, kind, None) or ():
                    parts.append(tool_call_part(call.get("id"), call.get("name"), plain(call.get("args"))))
    words = "".join([part["content"] for part in parts if part["type"] == "text"])
    name, message_id = getattr(message, "name", None), getattr(message, "id", None)
    return Said(
        role,
        parts or [text("")],
        name if isinstance(name, str) and name else None,
        message_id if isinstance(message_id, str) else None,
        words,
        call_id if isinstance(call_id, str) else None,
    )


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        if content:
            yield text(content)
        return
    for block in content if isinstance(content, (list, tuple)) else (content,):
        if isinstance(block, str):
            yield text(block)
        elif isinstance(block, Mapping):
            kind = str(block.get("type", ""))
            if kind in ("text", "output_text", "input_text"):
                yield text(block.get("text", ""))
            elif kind in ("reasoning", "thinking"):
                yield reasoning(
                    plain(block.get("reasoning") or block.get("thinking") or block.get("summary"))
                )
            elif kind in ("tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta"):
                continue  # told by tool_calls
            elif kind in _MEDIA:
                yield _media(kind, block)
            else:
                yield {"type": kind or "data", "content": plain(block)}
        elif block is not None:
            yield text(block)


def _media(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    given = block.get("image_url") if kind == "image_url" else None
    url = given.get("url") if isinstance(given, Mapping) else given or block.get("url")
    modality = "image" if kind == "image_url" else "audio" if kind == "input_audio" else kind
    media_type = block.get("mime_type") or block.get("media_type")
    if isinstance(url, str) and not url.startswith("data:"):
        return {"type": "uri", "modality": modality, "mime_type": media_type, "uri": url}
    if block.get("file_id"):
        return {"type": "file", "modality": modality, "mime_type": media_type, "file_id": block["file_id"]}
    content = url or block.get("base64") or block.get("data") or plain(block)
    return {"type": "blob", "modality": modality, "mime_type": media_type, "content": content}


# --- models -----------------------------------------------------------------------------------------------


def answer_of(response: Any) -> tuple[Any, str | None]:
    """The first answer of a model: a message, or its text."""
    for generations in getattr(response, "generations", None) or ():
        for generation in generations:
            message = getattr(generation, "message", None)
            return (message, None) if is_message(message) else (None, str(getattr(generation, "text", "")))
    return None, None


def model_facts(response: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's answer tells of the call: usage, model, provider, why it stopped."""
    message, _ = answer_of(response)
    told = getattr(response, "llm_output", None) or {}
    about = getattr(message, "response_metadata", None) or {}
    facts = {
        "usage": _usage(response, told),
        "model": about.get("model_name") or about.get("model") or told.get("model_name"),
        "provider": about.get("model_provider") or metadata.get("ls_provider"),
        "finish_reason": about.get("finish_reason") or about.get("stop_reason"),
        "response_id": about.get("id"),
    }
    facts["model"] = facts["model"] or metadata.get("ls_model_name")
    return {name: fact for name, fact in facts.items() if fact and isinstance(fact, (str, dict))}


def _usage(response: Any, told: Mapping[str, Any]) -> dict[str, int] | None:
    """The tokens of all answers of one call."""
    total: dict[str, int] = {}
    for generations in getattr(response, "generations", None) or ():
        for generation in generations:
            given = getattr(getattr(generation, "message", None), "usage_metadata", None)
            if isinstance(given, Mapping):
                inside, outside = (
                    given.get("input_token_details") or {},
                    given.get("output_token_details") or {},
                )
                _add(total, "input_tokens", given.get("input_tokens"))
                _add(total, "output_tokens", given.get("output_tokens"))
                _add(total, "cache_read", inside.get("cache_read"))
                _add(total, "cache_write", inside.get("cache_creation"))
                _add(total, "reasoning", outside.get("reasoning"))
    if not total:
        given = told.get("token_usage") or told.get("usage") or {}
        if isinstance(given, Mapping):
            _add(total, "input_tokens", given.get("prompt_tokens", given.get("input_tokens")))
            _add(total, "output_tokens", given.get("completion_tokens", given.get("output_tokens")))
    return total or None


def _add(total: dict[str, int], name: str, count: Any) -> None:
    if isinstance(count, int) and not isinstance(count, bool):
        total[name] = total.get(name, 0) + count


# --- states -----------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A ``Command`` of LangGraph: where it goes, and what it changes."""

    goto: tuple[str, ...]
    update: Any


def _command(value: Any) -> Command | None:
    if type(value).__name__ != "Command" or not hasattr(value, "goto") or not hasattr(value, "update"):
        return None
    goto = value.goto if isinstance(value.goto, (list, tuple)) else (value.goto,)
    names = (one if isinstance(one, str) else getattr(one, "node", None) for one in goto)
    return Command(tuple(name for name in names if name), value.update)


def commands_in(output: Any) -> list[Command]:
    """The commands that a node or tool gave."""
    given = output if isinstance(output, (list, tuple)) else (output,)
    return [command for one in given if (command := _command(one)) is not None]


def is_state(value: Any) -> bool:
    """Whether it is a mapping of channels."""
    return isinstance(value, Mapping)


def messages_in(value: Any) -> list[Any]:
    """The messages that an input, an output or an update holds, in their order."""
    if is_message(value):
        return [value]
    if (command := _command(value)) is not None:
        return messages_in(command.update)
    if isinstance(value, Mapping):
        return [one for item in value.values() for one in _converted(item)]
    if isinstance(value, (list, tuple)):
        return [
            one
            for item in value
            for one in (messages_in(item) if _holds(item) else messages_in(item[1]) if _pair(item) else ())
        ]
    return []


def _holds(item: Any) -> bool:
    return is_message(item) or isinstance(item, Mapping) or _command(item) is not None


def _pair(item: Any) -> bool:
    """A channel and its value, as an update may name them."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], (list, tuple))


def _converted(item: Any) -> Iterable[Any]:
    """A channel's messages; those written as pairs and mappings too, where all of them are."""
    if is_message(item):
        return [item]
    if not isinstance(item, (list, tuple)) or not item:
        return ()
    found = [one for one in item if is_message(one)]
    if len(found) == len(item):
        return found
    if all(is_message(one) or _short(one) for one in item):
        import langchain_core.messages

        try:
            return langchain_core.messages.convert_to_messages(list(item))
        except Exception:
            return ()
    return found


def _short(one: Any) -> bool:
    """``("user", "text")`` or ``{"role": "user", "content": "text"}``."""
    if isinstance(one, Mapping):
        return "content" in one and ("role" in one or "type" in one)
    known = ("user", "human", "assistant", "ai", "system", "tool", "developer")
    return isinstance(one, (list, tuple)) and len(one) == 2 and one[0] in known


def rest_of(value: Any) -> Any:
    """What an input, an output or an update holds besides messages, as plain data; ``None`` when that is nothing."""
    if (command := _command(value)) is not None:
        return rest_of(command.update)
    if value is None or is_message(value):
        return None
    if isinstance(value, Mapping):
        rest = {key: plain(item) for key, item in value.items() if not _converted(item) and item != []}
        return rest or None
    if isinstance(value, (list, tuple)):
        rest_of_all = [rest for item in value if (rest := rest_of(item)) is not None]
        return rest_of_all[0] if len(rest_of_all) == 1 else rest_of_all or None
    return plain(value)


def held_in(value: Any) -> tuple[list[Any], Any]:
    """The messages of an input, an output or an update, and what it holds besides, looked through once."""
    if type(value) is not dict:
        return messages_in(value), rest_of(value)
    messages: list[Any] = []
    rest: dict[Any, Any] = {}
    for key, item in value.items():
        if found := _converted(item):
            messages += found
        elif item != []:
            rest[key] = plain(item)
    return messages, rest or None


def output_of(value: Any) -> Any:
    """What a run comes to: the text of its last message, and what else is in the state."""
    messages, rest = held_in(value)
    if not messages:
        return rest
    last = said(messages[-1]).text
    return last if rest is None else {"message": last, **rest} if isinstance(rest, dict) else rest


def result_of(output: Any) -> tuple[Any, bool]:
    """What a tool gave, and whether it says that it failed."""
    commands = commands_in(output)
    messages = messages_in(output) if commands else [output] if is_message(output) else []
    answers = [one for one in messages if getattr(one, "tool_call_id", None)]
    if answers:
        return plain(answers[-1].content), getattr(answers[-1], "status", None) == "error"
    if commands:
        return plain(rest_of(commands[0].update)), False
    return plain(output), False
