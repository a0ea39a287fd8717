"""Agents of the classic line that follow a script, and ways to look at what was recorded of them.

The agents here need no model: a reply function says what the script tells, so that the same chats run on every
version and without any client library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from autogen import ConversableAgent

from chatsnapshot import Ledger, LedgerEntry

AUTO = "execution."


def add(a: int, b: int) -> int:
    return a + b


def explode(x: int) -> int:
    raise ValueError("the tool exploded")


def agent(name: str, *script: Any, **options: Any) -> ConversableAgent:
    """An agent that says one item of its script a turn: a text, a message, or an exception that is raised."""
    options = {"llm_config": False, "human_input_mode": "NEVER", "default_auto_reply": "ok"} | options
    made = ConversableAgent(name, **options)
    left = list(script)

    def reply(recipient: Any, messages: Any = None, sender: Any = None, config: Any = None) -> Any:
        if not left:
            return False, None
        said = left.pop(0)
        if isinstance(said, BaseException):
            raise said
        return True, said() if callable(said) else said

    if script:
        # Behind the functions that run tools and ask people.
        made.register_reply([ConversableAgent, None], reply, position=len(made._reply_func_list) - 1)
    return made


def calls(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A message with tool calls, as a model would send it."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call-{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(tools, 1)
        ],
    }


def pair(*script: Any, tools: Iterable[Callable[..., Any]] = (add, explode)) -> tuple[Any, Any]:
    """An assistant that follows the script, and a user that executes its tools and stops at TERMINATE."""
    assistant = agent("assistant", *script)
    user = agent("user", is_termination_msg=lambda message: "TERMINATE" in str(message.get("content")))
    user.register_function({tool.__name__: tool for tool in tools})
    return assistant, user


def types(ledger: Ledger, correlation_id: str = "run-1") -> list[str]:
    return [entry.event_type.removeprefix(AUTO) for entry in ledger.read(correlation_id=correlation_id)]


def one(ledger: Ledger, event_type: str) -> LedgerEntry:
    (entry,) = ledger.read(event_type=event_type)
    return entry


def said(ledger: Ledger, **where: Any) -> list[tuple[str, str]]:
    """Who said what, of the messages that hold a text."""
    return [
        (entry.payload["name"], entry.payload["parts"][0]["content"])
        for entry in ledger.read(event_type="execution.message", **where)
        if entry.payload["parts"] and entry.payload["parts"][0]["type"] == "text"
    ]


def causes(ledger: Ledger) -> list[tuple[str, str]]:
    """Every event with its cause, each by what it is: ``("tool_result call-1", "tool_call call-1")``."""
    entries = list(ledger.read())
    labels = {entry.event_id: _label(entry) for entry in entries}
    return [(labels[entry.event_id], labels.get(entry.causation_id or "", "")) for entry in entries]


def _label(entry: LedgerEntry) -> str:
    payload = entry.payload
    kind = entry.event_type.removeprefix(AUTO)
    if kind == "message":
        return f"{payload['role']} {payload['name']}"
    for key in ("call_id", "to", "agents", "name"):
        if key in payload:
            value = payload[key]
            return f"{kind} {' '.join(value) if isinstance(value, list) else value}"
    return kind
