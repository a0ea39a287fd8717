"""What stands in the messages of Claude Code: content blocks as message parts, calls, results; who wrote a user line."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from chatsnapshot.events.fields import text_of
from chatsnapshot.importers.base import tokens_of
from chatsnapshot.importers.transcripts import Line

__all__ = [
    "answer_of",
    "blocks_of",
    "error_of",
    "is_call",
    "is_result",
    "kind_of",
    "parts_of",
    "question_of",
    "result_of",
]
__all__ += ["native_of", "text_in", "usage_of"]

_EVERYWHERE = frozenset(
    {
        "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "version", "gitBranch",
        "isSidechain", "userType", "agentId", "slug", "message", "requestId", "toolUseResult", "entrypoint",
    }
)  # fmt: skip
"""Keys that are read, or stand in every line alike; others go into ``native``."""

_TOLD = re.compile(
    r"\s*(?:Caveat: The messages below were generated|"
    r"<(?:local-command-|system-reminder|task-notification|bash-stdout|bash-stderr|user-memory-input))"
)
"""Beginnings of user lines that the program wrote for the model."""

_COMMAND = re.compile(r"\s*<(?:command-(?:name|message|args)|bash-input)>")
_INTERRUPTED = re.compile(r"\s*\[Request interrupted by user")


def blocks_of(message: object) -> list[Mapping[str, Any]]:
    """The content blocks of a message in any of its forms; a text is one block."""
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        return [] if content is None else [{"type": "text", "text": text_of(content)}]
    return [one if isinstance(one, Mapping) else {"type": "text", "text": text_of(one)} for one in content]


def is_call(block: Mapping[str, Any]) -> bool:
    """Whether a block asks for a tool, of the program or of the provider."""
    return str(block.get("type")).endswith("tool_use")


def is_result(block: Mapping[str, Any]) -> bool:
    """Whether a block is what a tool gave."""
    return str(block.get("type")).endswith("tool_result")


def text_in(blocks: list[Mapping[str, Any]]) -> str:
    """The texts of blocks."""
    return "\n".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")


def kind_of(facts: Mapping[str, Any], text: str) -> str:
    """What a user line is: a person's ``prompt``, ``command`` or ``interruption``, or ``told`` by the program."""
    if facts.get("isMeta") or facts.get("isCompactSummary") or _TOLD.match(text):
        return "told"
    if _INTERRUPTED.match(text):
        return "interruption"
    return "command" if _COMMAND.match(text) else "prompt"


def parts_of(blocks: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Blocks as parts of a message, by the names of the OpenTelemetry GenAI conventions."""
    return [_part(block) for block in blocks]


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "content": text_of(block.get("text"))}
    if kind == "thinking":
        return {"type": "reasoning", "content": text_of(block.get("thinking"))}
    if is_call(block):
        call_id, name = block.get("id"), block.get("name")
        return {
            "type": "tool_call",
            "id": call_id if isinstance(call_id, str) else None,
            "name": name if isinstance(name, str) and name else "unknown",
            "arguments": block.get("input"),
        }
    source = block.get("source")
    if kind in ("image", "document") and isinstance(source, Mapping):
        return _media(str(kind), source)
    return {"type": kind if isinstance(kind, str) and kind else "unknown", "content": dict(block)}


def _media(kind: str, source: Mapping[str, Any]) -> dict[str, Any]:
    data, media_type = source.get("data"), source.get("media_type")
    part: dict[str, Any] = {"type": "blob", "modality": kind}
    if isinstance(media_type, str):
        part["mime_type"] = media_type
    if isinstance(source.get("url"), str):
        return {**part, "type": "uri", "uri": source["url"]}
    if source.get("type") == "base64" and isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            pass  # stays as it was written
    return {**part, "content": data}


def result_of(block: Mapping[str, Any]) -> Any:
    """What a tool gave: one text as itself, several blocks as parts."""
    content = block.get("content")
    if not isinstance(content, list):
        return content
    blocks = blocks_of(block)
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return text_of(blocks[0].get("text"))
    return parts_of(blocks)


def error_of(block: Mapping[str, Any]) -> str | None:
    """Why a tool failed, where its result says that it did."""
    if block.get("is_error") is not True:
        return None
    content = block.get("content")
    told = text_in(blocks_of(block)) if isinstance(content, list) else text_of(content)
    return told.strip() or "failed"


def usage_of(message: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens of a model call; Anthropic counts those from and to caches beside the input."""
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read": "cache_read_input_tokens",
        "cache_write": "cache_creation_input_tokens",
    }
    return tokens_of(message.get("usage"), names)


def question_of(name: object, arguments: object) -> dict[str, Any] | None:
    """What a tool asks a person, for the tools that do."""
    given = arguments if isinstance(arguments, Mapping) else {}
    if name == "ExitPlanMode":
        return {
            "kind": "approval",
            "question": given.get("plan") or "May the plan be carried out?",
            "name": name,
        }
    if name != "AskUserQuestion":
        return None
    asked = given.get("questions")
    questions = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list) else []
    texts = [text_of(one.get("question")) for one in questions]
    found: dict[str, Any] = {"kind": "question", "question": "\n".join(filter(None, texts)) or "question"}
    options = questions[0].get("options") if len(questions) == 1 else None
    if isinstance(options, list) and options:
        found["choices"] = [one.get("label") if isinstance(one, Mapping) else one for one in options]
    return found


def answer_of(question: str, structured: object, result: Any, error: str | None) -> dict[str, Any]:
    """A person's answer as the result of the tool that asked: a decision on a plan, or what was chosen."""
    if question == "ExitPlanMode":
        return {"decision": "rejected" if error is not None else "approved", "comment": error}
    answers = structured.get("answers") if isinstance(structured, Mapping) else None
    if error is not None:
        return {"decision": "rejected", "comment": error}
    return {"answer": answers if answers is not None else (result if result is not None else "")}


def native_of(line: Line, home: Mapping[str, Any]) -> dict[str, Any]:
    """The ids of a line, its digest, where it differs from the run's ``home``, and the keys that are not known here."""
    facts = line.facts
    found: dict[str, Any] = {"uuid": facts.get("uuid"), "line": line.digest}
    found |= {name: facts[name] for name, known in home.items() if name in facts and facts[name] != known}
    message = facts.get("message")
    if isinstance(message, Mapping):
        found["message_id"] = message.get("id")
    found["request_id"] = facts.get("requestId")
    return found | {
        name: value for name, value in facts.items() if name not in _EVERYWHERE and name not in found
    }
