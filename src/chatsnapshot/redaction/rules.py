"""Field rules: paths such as ``payload.user.email`` and what is done with what stands there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from chatsnapshot.errors import InvalidEvent

__all__ = ["ACTIONS", "NO_RULES", "Rules", "States"]

ACTIONS = ("keep", "mask", "hash")

States = frozenset[tuple[int, int]]
"""Rules that are under way: the number of the rule, and how many of its segments are behind."""

_SPLIT = re.compile(r"(?<!\\)\.")
RULES_MAX = 1_000


class _Rule(NamedTuple):
    segments: tuple[str, ...]
    action: str


class Rules:
    """Which action applies where. Of several rules that name one field, the last one wins.

    A path begins with ``payload``, ``attributes`` or ``source.name``; ``*`` is any one key and ``**`` any number of
    keys. Lists have no segment of their own: a rule goes into each item. A dot inside a key is written ``\\.``.
    """

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        self.given = dict(rules or {})
        if len(self.given) > RULES_MAX:
            raise InvalidEvent(
                f"{len(self.given)} rules were given, and {RULES_MAX} is the most", path="redact"
            )
        self.payload: list[_Rule] = []
        self.attributes: list[tuple[str, str]] = []
        self.source_name: str | None = None
        for path, action in self.given.items():
            self._add(path, action)

    def __bool__(self) -> bool:
        return bool(self.given)

    def _add(self, path: str, action: str) -> None:
        if action not in ACTIONS:
            raise InvalidEvent(
                f"the action for {path!r:.80} is one of {', '.join(ACTIONS)}, not {action!r:.80}",
                path="redact",
            )
        if not isinstance(path, str) or not path:
            raise InvalidEvent(
                f"a rule is for a path such as payload.user.email, not {path!r:.80}", path="redact"
            )
        root, *segments = (segment.replace("\\.", ".") for segment in _SPLIT.split(path))
        if path == "source.name":
            self.source_name = action
        elif root == "attributes" and segments and all(segments):
            self.attributes.append((".".join(segments), action))
        elif root == "payload" and all(segments):
            self.payload.append(_Rule(tuple(segments), action))
        else:
            raise InvalidEvent(
                f"a rule is for payload.…, attributes.… or source.name, not {path!r:.80}; "
                "ids, types and times are never redacted",
                path="redact",
            )

    def begin(self) -> States:
        """Where every rule stands at the payload itself."""
        return self._spread({(number, 0) for number in range(len(self.payload))})

    def step(self, states: States, key: str) -> States:
        """Where the rules stand one key deeper."""
        found = set()
        for number, behind in states:
            segments = self.payload[number].segments
            if behind < len(segments):
                wanted = segments[behind]
                if wanted == "**":
                    found.add((number, behind))
                elif wanted in ("*", key):
                    found.add((number, behind + 1))
        return self._spread(found)

    def action(self, states: States) -> str | None:
        """What is done here; ``None`` when no rule names this place."""
        ended = [number for number, behind in states if behind == len(self.payload[number].segments)]
        return self.payload[max(ended)].action if ended else None

    def attribute(self, key: str) -> str | None:
        """What is done with an attribute."""
        action = None
        for wanted, given in self.attributes:
            if wanted in ("*", "**", key):
                action = given
        return action

    def _spread(self, states: set[tuple[int, int]]) -> States:
        """``**`` may also stand for nothing."""
        waiting = list(states)
        while waiting:
            number, behind = waiting.pop()
            segments = self.payload[number].segments
            if behind < len(segments) and segments[behind] == "**" and (number, behind + 1) not in states:
                states.add((number, behind + 1))
                waiting.append((number, behind + 1))
        return frozenset(states)


NO_RULES = Rules()
