"""CrewAI's event bus: who is told of every event, in the thread that emits it and in the order of emission.

Handlers that are registered with the bus are called later, by ten threads, in any order, and cannot mark what a tool
runs inside of. Its public ``emit`` is the one door that every event goes through, so that is where we stand.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.requiring import need

__all__ = ["RUNTIME", "tell", "tell_no_more"]

RUNTIME = "crewai"

Told = Callable[[Any, Any], None]

_lock = threading.Lock()
_told: tuple[Told, ...] = ()


def tell(listener: Told) -> None:
    """Call ``listener(source, event)`` after every event; it must not raise. Twice is once.

    Raises :class:`MissingExtra` without CrewAI, :class:`LedgerError` when its version lacks what recording needs.
    """
    global _told
    bus = _bus()
    with _lock:
        if listener in _told:
            return
        if not _told:
            _stand_at_the_door(bus)
        _told = (*_told, listener)


def tell_no_more(listener: Told) -> None:
    """Undo :func:`tell`; the last one leaves the bus as it was."""
    global _told
    with _lock:
        _told = tuple(one for one in _told if one != listener)
        if not _told:
            bus = _bus()
            if getattr(vars(bus).get("emit"), "chatsnapshot", False):
                del bus.emit


def _bus() -> Any:
    module = need(
        "crewai.events",
        "crewai_event_bus.emit",
        "BaseEventListener",
        "FlowStartedEvent",
        "ToolUsageStartedEvent",
        "LLMCallCompletedEvent",
        "CrewKickoffStartedEvent",
        extra=RUNTIME,
        versions="crewai>=1.15",
        what="CrewAI",
    )
    return module.crewai_event_bus


def _stand_at_the_door(bus: Any) -> None:
    emit = bus.emit

    @functools.wraps(emit)
    def told(*given: Any, **named: Any) -> Any:
        future = emit(*given, **named)
        source = given[0] if given else named.get("source")
        event = given[1] if len(given) > 1 else named.get("event")
        for listener in _told if event is not None else ():
            listener(source, event)
        return future

    told.chatsnapshot = True  # type: ignore[attr-defined]
    bus.emit = told
