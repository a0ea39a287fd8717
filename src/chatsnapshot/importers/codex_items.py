"""What stands in the items of a Codex rollout: texts, calls, outputs, tokens; which user items the program wrote."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from chatsnapshot.events.fields import text_of
from chatsnapshot.importers.base import tokens_of

__all__ = [
    "CALLS",
    "agent_begun",
    "call_of",
    "content_parts",
    "digest_of",
    "error_in",
    "is_injected",
    "output_of",
]
__all__ += ["picture", "question_of", "said_by_person", "speaks", "text_of_parts", "thoughts_of", "usage_of"]
__all__ += ["without_history"]

_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|collaboration_mode|model_switch|"
    r"turn_aborted|user_shell_command|subagent_notification|apps_instructions|skills?_instructions|skill|personality_spec|"
    r"INSTRUCTIONS|realtime_conversation)\b|# AGENTS\.md instructions for )"
)
_EXIT = re.compile(
    r"\s*(?:Exit code: |Process exited with code )(-?\d{1,10})\b|(?:.*\n){1,6}Process exited with code (-?\d{1,10})\b"
)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.+)", re.DOTALL)

CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
        "tool_search_call",
        "image_generation_call",
    }
)
"""Items that call a tool."""


def is_injected(text: str) -> bool:
    """Whether a user item is context that the program wrote for the model."""
    return _INJECTED.match(text) is not None


def content_parts(content: object) -> list[dict[str, Any]]:
    """The content of a message as parts."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    items = content if isinstance(content, list) else []
    return [_part(item) for item in items]


def _part(item: object) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        return {"type": "text", "content": text_of(item)}
    kind = item.get("type")
    if kind in ("input_text", "output_text", "text", "summary_text", "reasoning_text"):
        return {"type": "text", "content": text_of(item.get("text"))}
    if kind == "input_image" and isinstance(item.get("image_url"), str):
        return picture(item["image_url"])
    return {"type": kind if isinstance(kind, str) and kind else "unknown", "content": dict(item)}


def picture(url: str) -> dict[str, Any]:
    """A picture by its address, or itself where the address holds it."""
    found = _DATA_URL.fullmatch(url)
    if found is not None:
        try:
            data = base64.b64decode(found[2], validate=True)
            return {"type": "blob", "modality": "image", "mime_type": found[1], "content": data}
        except (binascii.Error, ValueError):
            pass  # stays as it was written
    return {"type": "uri", "modality": "image", "uri": url}


def text_of_parts(parts: list[dict[str, Any]]) -> str:
    """The texts of parts."""
    return "\n".join(part["content"] for part in parts if part["type"] == "text")


def thoughts_of(item: Mapping[str, Any]) -> list[str]:
    """What a reasoning item says in words, in its parts."""
    parts = [part for name in ("summary", "content") for part in content_parts(item.get(name))]
    return [part["content"] for part in parts if part["type"] == "text" and part["content"]]


def call_of(item: Mapping[str, Any]) -> tuple[str, Any]:
    """The tool and the arguments of a call."""
    kind, name = item.get("type"), item.get("name")
    if kind == "function_call":
        return str(name or "unknown"), arguments_of(item.get("arguments"))
    if kind == "custom_tool_call":
        return str(name or "unknown"), {"input": item.get("input")}
    tool = str(kind).removesuffix("_call")
    if kind in ("local_shell_call", "web_search_call"):
        return tool, item.get("action")
    known = ("type", "id", "call_id", "status", "result")
    return tool, arguments_of(item.get("arguments")) or {k: v for k, v in item.items() if k not in known}


def arguments_of(arguments: object) -> Any:
    """Arguments as values; text that is no JSON stays as the model wrote it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def output_of(item: Mapping[str, Any]) -> Any:
    """What a tool gave: JSON text as values, a list of content as parts."""
    output = item.get("output", item.get("tools", item.get("result")))
    if isinstance(output, Mapping) and isinstance(output.get("content"), str):
        output = output["content"]
    if isinstance(output, list):
        parts = content_parts(output)
        return parts[0]["content"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    if isinstance(output, str) and output[:1] == "{":
        return arguments_of(output)
    return output


def error_in(item: Mapping[str, Any], output: Any) -> str | None:
    """Why a tool failed: it says so, or a command ended with another code than 0."""
    raw = item.get("output")
    code: object = None
    if isinstance(output, Mapping):
        metadata = output.get("metadata")
        code = metadata.get("exit_code") if isinstance(metadata, Mapping) else output.get("exit_code")
    elif isinstance(output, str) and (found := _EXIT.match(output)) is not None:
        code = int(found[1] or found[2])
    if type(code) is int and code != 0:
        return f"exit code {code}: {_printed(output)}".removesuffix(": ")
    if isinstance(raw, Mapping) and raw.get("success") is False:
        return text_of(output) or "failed"
    return "failed" if item.get("status") in ("failed", "incomplete") else None


def _printed(output: Any) -> str:
    """The end of what a command printed."""
    text = output if isinstance(output, str) else output.get("output") if isinstance(output, Mapping) else ""
    text = text_of(text)
    text = text.partition("Output:\n")[2] or text
    return text.strip()[-400:]


def usage_of(info: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens of the last model call; OpenAI counts cached ones among the input and reasoning among the output."""
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "total_tokens": "total_tokens",
        "cache_read": "cached_input_tokens",
        "reasoning": "reasoning_output_tokens",
    }
    return tokens_of(info.get("last_token_usage"), names)


def agent_begun(name: str | None, output: Any) -> str | None:
    """The thread that a call of ``spawn_agent`` began, as its output names it."""
    if name != "spawn_agent" or not isinstance(output, Mapping):
        return None
    found = output.get("agent_id") or output.get("thread_id")
    return found if isinstance(found, str) else None


def question_of(name: str, arguments: object) -> dict[str, Any] | None:
    """What a tool asks a person, for the tool that does."""
    if name != "request_user_input":
        return None
    asked = arguments.get("questions") if isinstance(arguments, Mapping) else None
    questions = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list) else []
    text = "\n".join(filter(None, (text_of(one.get("question")) for one in questions)))
    return {"kind": "question", "question": text or "question"}


def digest_of(facts: Mapping[str, Any]) -> str:
    """A line by what it says, times apart, as a fork repeats it."""
    said = repr((facts.get("type"), facts.get("payload", facts)))
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def speaks(facts: Mapping[str, Any]) -> bool:
    """Whether a line says something that a run begins with."""
    item = facts.get("payload")
    item = item if isinstance(item, Mapping) else facts
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return item.get("role") == "assistant" or bool(said_by_person(facts))
    return kind in CALLS or kind in (
        "user_message",
        "agent_message",
        "agent_reasoning",
        "reasoning",
        "turn_aborted",
    )


def said_by_person(facts: Mapping[str, Any]) -> str:
    """What a person says in a line; nothing where it is context that the program wrote."""
    item = facts.get("payload")
    item = item if isinstance(item, Mapping) else facts
    if item.get("type") == "user_message":
        return text_of(item.get("message"))
    if item.get("type") == "message" and item.get("role") == "user":
        text = text_of_parts(content_parts(item.get("content")))
        return "" if is_injected(text) else text
    return ""


def without_history(item: Mapping[str, Any]) -> dict[str, Any]:
    """A compaction without the history that it repeats: how many items that has."""
    history = item.get("replacement_history")
    return {**item, "replacement_history": len(history) if isinstance(history, list) else None}
