"""Finds the conversation of a run that was interrupted, from its state alone: by its trace, or by what it waits for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, NamedTuple

from chatsnapshot.adapters.looking import looked

__all__ = ["Waiting", "Wanted", "paused_facts"]

_KEPT_MAX = 1_000
_LAST: dict[str, Any] = {"event_type": "execution.run_paused", "reverse": True, "limit": 500}


class Waiting:
    """Runs that wait for approvals, as one recorder knows them; those of other processes are found in the ledger."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], str] = OrderedDict()

    def add(self, agent: str, call_ids: Iterable[str], correlation_id: str) -> None:
        """A run of ``agent``, no child of another, waits for approval of these tool calls."""
        key = (agent, *sorted(call_ids))
        self._known[key] = correlation_id
        self._known.move_to_end(key)
        if len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)

    def known(self, agent: str, call_ids: Iterable[str]) -> str | None:
        """The conversation of the last such run in this process."""
        return self._known.get((agent, *sorted(call_ids)))

    async def find(self, wanted: Wanted, seconds_max: float) -> str | None:
        """The same, also among the last runs in the ledger."""
        found = self.known(wanted.agent, wanted.call_ids)
        return found or await asyncio.wait_for(wanted.look(), seconds_max)

    def find_now(self, wanted: Wanted, seconds_max: float) -> str | None:
        """As :meth:`find`, where nothing can be awaited: another thread looks, for that long."""
        found = self.known(wanted.agent, wanted.call_ids)
        return found or looked(seconds_max, wanted.look_now)


class Wanted(NamedTuple):
    """A paused run that is looked for in a ledger."""

    ledger: Any
    runtime: str
    agent: str
    call_ids: list[str]

    async def look(self) -> str | None:
        """Its conversation."""
        paused: Any = self.ledger.aread(**_LAST)
        async with aclosing(paused):
            async for entry in paused:
                if self._is(entry):
                    return str(entry.correlation_id)
        return None

    def look_now(self) -> str | None:
        """The same, blocking."""
        return next((str(one.correlation_id) for one in self.ledger.read(**_LAST) if self._is(one)), None)

    def _is(self, entry: Any) -> bool:
        payload = entry.payload
        native = payload.get("native")
        return (
            entry.source.runtime == self.runtime
            and payload.get("agent") == self.agent
            and isinstance(native, dict)
            and native.get("waiting") == sorted(self.call_ids)
            and not native.get("child")
        )


def paused_facts(call_ids: Iterable[str], *, child: bool) -> dict[str, Any]:
    """What a pause has to say of itself to be found again."""
    return {"native": {"waiting": sorted(call_ids), **({"child": True} if child else {})}}
