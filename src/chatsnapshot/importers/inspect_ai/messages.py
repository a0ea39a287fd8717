"""Messages of an Inspect sample: attachments put back in their places, and each message told once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chatsnapshot.importers.chatrun import digest

__all__ = ["Attachments", "Heard", "told"]

_MARK = "attachment://"
_DEPTH_MAX = 40


class Attachments:
    """The long texts of a sample, which its messages and events name by their digest."""

    def __init__(self, given: object) -> None:
        self._given = given if isinstance(given, Mapping) else {}

    def resolved(self, facts: Any, keys: Iterable[str] | None = None) -> Mapping[str, Any]:
        """The object with its attachments in their places; of ``keys`` only, where they are given."""
        if not isinstance(facts, Mapping):
            return {}
        if not self._given:
            return facts
        names = facts.keys() if keys is None else keys
        changed = {name: self.value(facts[name]) for name in names if name in facts}
        return changed if keys is None else {**facts, **changed}

    def value(self, value: Any, depth: int = 0) -> Any:
        """A value with its attachments in their places."""
        if isinstance(value, str):
            return self._given.get(value[len(_MARK) :], value) if value.startswith(_MARK) else value
        if depth >= _DEPTH_MAX:
            return value
        if isinstance(value, list):
            return [self.value(one, depth + 1) for one in value]
        if isinstance(value, dict):
            return {key: self.value(one, depth + 1) for key, one in value.items()}
        return value


def told(item: Mapping[str, Any]) -> dict[str, Any]:
    """A message as others have it: the name of a tool's function is its name."""
    plain = dict(item)
    if plain.get("role") == "tool" and "name" not in plain and plain.get("function") is not None:
        plain["name"] = plain.pop("function")
    if plain.get("role") == "assistant" and isinstance(plain.get("content"), list):
        plain["content"] = [_part(one) for one in plain["content"]]
    return plain


def _part(part: Any) -> Any:
    """Reasoning under the name that other parts have for their text."""
    if (
        isinstance(part, dict)
        and part.get("type") == "reasoning"
        and "content" not in part
        and "reasoning" in part
    ):
        return {**part, "content": part["reasoning"]}
    return part


class Heard:
    """Which messages were told: every list of messages repeats those before."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._results: set[str] = set()

    def answered(self, call_id: str | None) -> None:
        """The result of a call was told by the step of the call."""
        if call_id is not None:
            self._results.add(call_id)

    def fresh(
        self, items: list[Any], attached: Attachments, *, answers: bool = False
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The messages of a list that are new, with their places.

        One without an id counts by how often the list has it; ``answers`` are new whatever was said before.
        """
        here: dict[str, int] = {}
        for number, item in enumerate(items):
            if not isinstance(item, Mapping):
                continue
            call_id, given = item.get("tool_call_id"), item.get("id")
            if item.get("role") == "tool" and isinstance(call_id, str) and call_id in self._results:
                continue
            known = isinstance(given, str) and given
            if known and f"id {given}" in self._counts:
                continue
            plain = told(attached.resolved(item))
            key = f"id {given}" if known else _key(plain)
            before = self._counts.get(key, 0) if answers else 0
            here[key] = here.get(key, before) + 1
            if self._counts.get(key, 0) < here[key]:
                self._counts[key] = here[key]
                yield number, plain


def _key(message: Mapping[str, Any]) -> str:
    return digest([message.get(key) for key in ("role", "content", "tool_calls", "tool_call_id", "name")], 32)
