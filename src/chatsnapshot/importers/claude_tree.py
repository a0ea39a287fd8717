"""The tree that the lines of a Claude Code run make by their ids: what a line follows from, and which one is a copy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from chatsnapshot.importers.base import name_text
from chatsnapshot.importers.transcripts import Line

__all__ = ["Node", "Tree", "is_uuid"]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Node(NamedTuple):
    """A line in the tree: what follows from it follows from this event; its number in the order of the lines."""

    event_id: str | None
    number: int


class Tree:
    """The lines of one run by their ids."""

    def __init__(self, session: str, correlation: str) -> None:
        self._session = session
        self._correlation = correlation
        self._nodes: dict[str, Node] = {}
        self._seen: dict[str, str] = {}

    @property
    def size(self) -> int:
        """How many lines stand in it."""
        return len(self._nodes)

    def key(self, line: Line) -> str | None:
        """What the ids of a line's events are made of; ``None`` for a copy of a line before.

        A session that is resumed in a new file copies lines with their ids. The same id with another message is no copy.
        """
        uuid = line.facts.get("uuid")
        if not isinstance(uuid, str):
            key, content = f"{self._correlation} {line.digest}", ""
        else:
            said = repr(line.facts.get("message")).encode("utf-8", "surrogatepass")
            key, content = self._name(uuid), sha256(said).hexdigest()[:32]
        if self._seen.get(key, content) != content:
            key = f"{key} {line.digest}"
        if key in self._seen:
            return None
        self._seen[key] = content
        return key

    def node(self, uuid: object) -> Node | None:
        """The line with that id, where it was read."""
        return self._nodes.get(self._name(uuid)) if isinstance(uuid, str) else None

    def note(self, facts: Mapping[str, Any], event_id: str | None) -> None:
        """What follows from this line follows from that event."""
        uuid = facts.get("uuid")
        if isinstance(uuid, str):
            self._nodes.setdefault(self._name(uuid), Node(event_id, len(self._nodes)))

    def _name(self, uuid: str) -> str:
        """Ids that are unique everywhere stand for themselves, so that a copy in another session is known again."""
        return uuid.lower() if is_uuid(uuid) else f"{self._session} {name_text(uuid) or ''}"


def is_uuid(text: str) -> bool:
    """Whether a text is an id that is unique everywhere."""
    return _UUID.fullmatch(text) is not None
