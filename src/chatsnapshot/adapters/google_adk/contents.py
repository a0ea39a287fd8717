"""What ADK says, in the words that all adapters share: parts of messages, token counts, answers of people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = [
    "CONFIRMATION",
    "CREDENTIAL",
    "answer_facts",
    "is_request",
    "parts_of",
    "question_facts",
    "text_of",
    "usage_of",
]

CONFIRMATION = "adk_request_confirmation"
CREDENTIAL = "adk_request_credential"
_REQUESTS = "adk_request_"
"""Calls that ADK writes itself when a person is to be asked; no tool is behind them."""


def is_request(call: Any) -> bool:
    """Whether a function call asks a person."""
    return str(getattr(call, "name", None) or "").startswith(_REQUESTS)


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a message; without calls that ask a person, and without answers to those."""
    made = []
    for part in getattr(content, "parts", None) or ():
        if part.text is not None:
            made.append(reasoning(part.text) if part.thought else text(part.text))
        elif part.function_call is not None:
            call = part.function_call
            if not is_request(call):
                made.append(tool_call_part(call.id, call.name, plain(call.args or {})))
        elif part.function_response is not None:
            answer = part.function_response
            if not is_request(answer):
                made.append(tool_response_part(answer.id, plain(answer.response)))
        elif part.inline_data is not None:
            blob = part.inline_data
            made.append({"type": "blob", "mime_type": blob.mime_type, "content": blob.data})
        elif part.file_data is not None:
            made.append(
                {"type": "uri", "mime_type": part.file_data.mime_type, "uri": part.file_data.file_uri}
            )
        elif part.executable_code is not None:
            made.append({"type": "executable_code", "content": part.executable_code.code})
        elif part.code_execution_result is not None:
            made.append({"type": "code_execution_result", "content": part.code_execution_result.output})
    return made


def text_of(content: Any) -> str | None:
    """The text of a message, without thoughts."""
    found = [
        part.text
        for part in getattr(content, "parts", None) or ()
        if part.text is not None and not part.thought
    ]
    return "".join(found) if found else None


def usage_of(response: Any) -> dict[str, int] | None:
    """Tokens of one model call. What Gemini counts beside (thoughts, prompts of tools) is part of what it is."""
    told = getattr(response, "usage_metadata", None)
    if told is None:
        return None

    def count(name: str) -> int:
        return getattr(told, name, None) or 0

    thoughts = count("thoughts_token_count")
    usage = {
        "input_tokens": count("prompt_token_count") + count("tool_use_prompt_token_count"),
        "output_tokens": count("candidates_token_count") + thoughts,
        "total_tokens": count("total_token_count"),
        "cache_read": count("cached_content_token_count"),
        "reasoning": thoughts,
    }
    kept = ("input_tokens", "output_tokens")
    return {name: value for name, value in usage.items() if value or name in kept}


def question_facts(call: Any) -> dict[str, Any]:
    """The arguments of a question that a call asks: an approval, a credential, or an input."""
    args = call.args or {}
    if call.name == CONFIRMATION:
        original = args.get("originalFunctionCall") or {}
        confirmation = args.get("toolConfirmation") or {}
        return {
            "kind": "approval",
            "prompt": confirmation.get("hint") or None,
            "call_id": original.get("id"),
            "name": original.get("name"),
            "arguments": plain(original.get("args")),
            "schema": plain(confirmation.get("payload")),
        }
    if call.name == CREDENTIAL:
        # What is in the configuration and in the answer are secrets.
        return {
            "prompt": "a credential is needed",
            "call_id": args.get("functionCallId") or args.get("function_call_id"),
        }
    return {
        "prompt": plain(args.get("message") or args.get("hint")) or call.name,
        "value": plain(args.get("payload")),
        "schema": plain(args.get("responseSchema") or args.get("response_schema")),
    }


def answer_facts(answer: Any) -> dict[str, Any]:
    """The arguments of an answer that a function response brings."""
    response = answer.response
    if answer.name == CREDENTIAL:
        return {"content": "a credential was given"}
    if answer.name != CONFIRMATION:
        return {"content": _unwrapped(response)}
    told = _unwrapped(response)
    confirmed = told.get("confirmed") if isinstance(told, Mapping) else None
    payload = told.get("payload") if isinstance(told, Mapping) else told
    decision = "edited" if confirmed and payload is not None else "approved" if confirmed else "rejected"
    return {"decision": decision, **({} if payload is None else {"content": plain(payload)})}


def _unwrapped(response: Any) -> Any:
    """ADK's web client sends an answer as JSON text in ``response``."""
    if isinstance(response, Mapping) and set(response) == {"response"}:
        inside = response["response"]
        try:
            return json.loads(inside) if isinstance(inside, str) else inside
        except ValueError:
            return inside
    if isinstance(response, Mapping) and set(response) == {"result"}:
        return response["result"]
    return response
