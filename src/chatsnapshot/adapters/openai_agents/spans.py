"""The tracing processor: tells a recorded call what only spans know. It is added beside those that are there.

Adding it neither switches the vendor's own upload on nor off, and where tracing is off it is never called.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from chatsnapshot.adapters.openai_agents.calls import CURRENT

__all__ = ["listen"]


def listen() -> None:
    """Be among the processors, also after somebody has replaced them all."""
    from agents.tracing import add_trace_processor, get_trace_provider

    ours = _processor()
    with suppress(Exception):
        held: Any = get_trace_provider()
        if ours in held._multi_processor._processors:
            return
    add_trace_processor(ours)


@cache
def _processor() -> Any:
    from agents.tracing import TracingProcessor

    class Listener(TracingProcessor):
        """Runs inside the task that the trace or span belongs to, so the call is the one of here and now."""

        def on_trace_start(self, trace: Any) -> None:
            if (call := CURRENT.get()) is not None:
                call.begin(trace)

        def on_trace_end(self, trace: Any) -> None:
            pass

        def on_span_start(self, span: Any) -> None:
            pass

        def on_span_end(self, span: Any) -> None:
            if (call := CURRENT.get()) is not None:
                call.span_ended(span)

        def shutdown(self) -> None:
            pass

        def force_flush(self) -> None:
            pass

    return Listener()
