"""Finds the conversation of a run that was interrupted, by the approvals that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder

__all__ = ["asked_in", "asked_lately"]

_LOOKED_AT_MAX = 500


def asked_lately(recorder: OpenAIAgentsRecorder, call_ids: Sequence[str]) -> str | None:
    """The conversation of the last run of this recorder that asked about these tool calls."""
    wanted = set(call_ids)
    for correlation, left in reversed(list(recorder._ended.items())):
        if wanted.intersection(left.questions):
            return correlation
    return None


async def asked_in(recorder: OpenAIAgentsRecorder, call_ids: Sequence[str]) -> str | None:
    """The same among the last questions in the ledger, for a run that another process began."""
    wanted = set(call_ids)

    async def look() -> str | None:
        questions: Any = recorder.ledger.aread(
            event_type="execution.human_input_requested", reverse=True, limit=_LOOKED_AT_MAX
        )
        async with aclosing(questions):
            async for entry in questions:
                payload = entry.payload
                if entry.source.runtime == recorder.runtime and payload.get("question_id") in wanted:
                    found: str = entry.correlation_id
                    return found
        return None

    return await asyncio.wait_for(look(), recorder.safe.wait_seconds_max)
