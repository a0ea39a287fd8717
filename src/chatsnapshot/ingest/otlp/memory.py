"""What an importer or a service remembers between spans, bounded: messages told already, and who asked for which tool.

Nothing depends on it but effort and the finer cause: without it a message is offered to the ledger again, which knows it
by its id, and a tool call follows from its parent span.
"""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["Memory"]

_Key = TypeVar("_Key")

MESSAGES_MAX = 50_000
ASKED_MAX = 20_000


class Memory:
    """For one ledger. Safe for threads: single operations on dicts only, and what is lost is found again."""

    def __init__(self, asked: dict[str, dict[str, bytes]] | None = None) -> None:
        self._told: dict[bytes, None] = {}
        self._asked: dict[str, dict[str, bytes]] = asked or {}
        self._asks = sum(len(calls) for calls in self._asked.values())

    def all_told(self) -> list[bytes]:
        """The messages that are known to be in the ledger."""
        return list(self._told)

    def all_asked(self) -> dict[str, dict[str, bytes]]:
        """The messages that asked for tool calls, by correlation and call."""
        return {correlation: dict(calls) for correlation, calls in list(self._asked.items())}

    def told(self, key: bytes) -> bool:
        """Whether the message is in the ledger, for all that is remembered."""
        return key in self._told

    def tell(self, key: bytes) -> None:
        """The message is in the ledger."""
        self._told[key] = None
        if len(self._told) > MESSAGES_MAX:
            _drop_half(self._told)

    def ask(self, correlation: str, call: str, message: bytes) -> None:
        """The message asks for the tool call."""
        self._asked.setdefault(correlation, {})[call] = message
        self._asks += 1
        if self._asks > ASKED_MAX:
            _drop_half(self._asked)
            self._asks = sum(len(calls) for calls in list(self._asked.values()))

    def asks(self, correlation: str) -> bool:
        """Whether a message of the correlation is known that asks for a tool call."""
        return correlation in self._asked

    def asked(self, correlation: str, call: str) -> bytes | None:
        """The message that asked for the tool call."""
        return self._asked.get(correlation, {}).get(call)


def _drop_half(kept: dict[_Key, Any]) -> None:
    for key in list(kept)[: len(kept) // 2]:
        kept.pop(key, None)
