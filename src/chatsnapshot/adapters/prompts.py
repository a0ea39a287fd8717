"""Which instructions of which agent are on record already, so that they are not recorded again with every run."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["KnownPrompts"]

_KEPT_MAX = 10_000


class KnownPrompts:
    """The last instructions of each agent in each conversation, as far as one recorder knows."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], int] = OrderedDict()

    def is_new(self, correlation_id: str, agent: str, prompt: str) -> bool:
        """Whether these instructions are not the ones that the agent had last in this conversation."""
        key = (correlation_id, agent)
        if self._known.get(key) == hash(prompt):
            return False
        self._known[key] = hash(prompt)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)
        return True
