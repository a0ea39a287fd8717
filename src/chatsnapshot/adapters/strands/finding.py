"""Finds what an agent that waits for somebody has said so far: in memory, and after a restart in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.observed import Earlier
from chatsnapshot.adapters.places import Parent
from chatsnapshot.adapters.plain import header_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.strands.recorder import StrandsRecorder

__all__ = ["child_before", "earlier_of"]

_LOOKED_AT_MAX = 100


async def earlier_of(recorder: StrandsRecorder, own: str, name: str, answers: dict[str, Any]) -> Earlier:
    """What the run before left open in the conversation ``own``, where a run of ``name`` goes on."""
    parent = recorder.parent_here()
    inside = parent is not None and parent.inside_tool
    correlation = header_text(own if inside else recorder.correlation_id or own) or own
    earlier = await recorder.aleft_open(correlation)
    if answers and not any(question in earlier.questions for question in answers):
        return recorder.left_open(correlation, name)  # another agent of the conversation ran meanwhile
    return earlier


async def child_before(recorder: StrandsRecorder, name: str) -> str | None:
    """The correlation of the child run that ``name`` goes on with, as the ledger knows it.

    It is caused by the tool call that this one goes on in, or by the task of a node that waited.
    """
    parent = recorder.parent_here()
    if parent is None or not parent.inside_tool or recorder.safe.kept:
        return None
    try:
        return await asyncio.wait_for(_found(recorder.ledger, parent, name), recorder.safe.wait_seconds_max)
    except Exception:
        return None  # a ledger that cannot be read is told of where it cannot be written


async def _found(ledger: Any, parent: Parent, name: str) -> str | None:
    async for cause in _causes(ledger, parent):
        async for entry in ledger.aread(causation_id=cause, limit=_LOOKED_AT_MAX):
            if entry.event_type == "execution.run_started" and entry.payload.get("name") == name:
                return str(entry.correlation_id)
    return None


async def _causes(ledger: Any, parent: Parent) -> AsyncIterator[Any]:
    yield parent.cause
    tasks = {"event_type": "system.task_started", "reverse": True, "limit": _LOOKED_AT_MAX}
    async for task in ledger.aread(correlation_id=parent.correlation_id, **tasks):
        yield task.event_id
