"""What MCP says on the wire, as the values that are recorded, and the context in ``_meta``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.web.carrying import write_into
from chatsnapshot.adapters.web.header import Carried

__all__ = [
    "Asked",
    "answer_facts",
    "as_wire",
    "asked_in",
    "error_of",
    "operation_of",
    "result_of",
    "with_context",
]

RECORDED = frozenset({"tools/call", "resources/read", "prompts/get"})
"""The methods that are recorded: those that do something."""


def as_wire(value: Any) -> Any:
    """A model of ``mcp`` as the JSON it has on the wire; anything else as plain values."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    return plain(value)


def result_of(wire: Any) -> Any:
    """What a tool gave: its structured result, else its text, else its contents."""
    if not isinstance(wire, Mapping):
        return wire
    structured = wire.get("structuredContent")
    if isinstance(structured, Mapping):
        # Servers wrap a value that is no object: {"result": 5}.
        return structured["result"] if set(structured) == {"result"} else structured
    contents = wire.get("content")
    if isinstance(contents, list) and contents and all(_is_text(one) for one in contents):
        return "\n".join(str(one["text"]) for one in contents)
    return contents if contents is not None else wire


def error_of(wire: Any) -> dict[str, Any] | None:
    """The error that a result is, or ``None``: MCP tells failures of tools as results."""
    if not isinstance(wire, Mapping) or wire.get("isError") is not True:
        return None
    told = result_of({"content": wire.get("content")})
    return {"message": told if isinstance(told, str) else "the tool failed"}


def operation_of(method: str, params: Mapping[str, Any]) -> str:
    """A call in short: ``tools/call add``, ``resources/read file:///a``."""
    return f"{method} {params.get('name') or params.get('uri') or ''}".strip()


class Asked:
    """A question that a server asks in the middle of a call (an elicitation)."""

    def __init__(self, params: Any) -> None:
        wire = as_wire(params)
        self.params: Mapping[str, Any] = wire if isinstance(wire, Mapping) else {"message": wire}

    @property
    def facts(self) -> dict[str, Any]:
        """The question as the facts of ``execution.human_input_requested``."""
        schema = self.params.get("requestedSchema")
        prompt = self.params.get("message")
        url = self.params.get("url")
        return {"kind": "question", "prompt": prompt, "schema": schema, **({"url": url} if url else {})}


def asked_in(wire: Any) -> dict[str, Asked]:
    """The questions to a person in a result that asks for input, by their keys."""
    if not isinstance(wire, Mapping) or not isinstance(wire.get("inputRequests"), Mapping):
        return {}
    return {
        str(key): Asked(request.get("params"))
        for key, request in wire["inputRequests"].items()
        if isinstance(request, Mapping) and request.get("method") == "elicitation/create"
    }


def answer_facts(response: Any) -> Any:
    """What a person answered: the content where it was accepted, else what was done (decline, cancel)."""
    wire = as_wire(response)
    if isinstance(wire, Mapping) and wire.get("action") == "accept" and wire.get("content") is not None:
        return wire["content"]
    return wire


def with_context(meta: Any, carried: Carried) -> dict[str, Any]:
    """The ``_meta`` of a request, with the context of the call in it; what is there already stays."""
    made: dict[str, Any] = dict(meta or {})
    write_into(made, carried)
    return made


def _is_text(content: Any) -> bool:
    return isinstance(content, Mapping) and content.get("type") == "text"
