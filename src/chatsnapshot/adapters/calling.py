"""Where the calls of a protocol's client belong: the scope of here and now, or a correlation of their own."""

from __future__ import annotations

from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.web.carrying import carried_here
from chatsnapshot.adapters.web.header import Carried
from chatsnapshot.clock import uuid7, uuid_text

__all__ = ["caller_here", "in_scope"]


def in_scope(ledger: Any) -> bool:
    """Whether the code of here and now runs in a scope of this ledger."""
    return hasattr(ledger, "scope_owner") and carried_here(ledger) is not None


def caller_here(recorder: RuntimeRecorder, name: str, correlation_id: str | None = None) -> ObservedRun:
    """Builds the events of a call that is made here; it is never begun nor ended.

    In a scope that is its run, with its cause and its agent; in auto mode the run of the process. Elsewhere the call
    belongs to the recorder's correlation, to ``correlation_id``, or to a new one, and ``name`` is who calls.
    """
    ledger = recorder.ledger
    here = carried_here(ledger) if hasattr(ledger, "scope_owner") else None
    above = recorder.parent_here()
    if here is None and above is not None and above.correlation_id is not None:
        here = Carried(above.correlation_id, above.cause, above.run_id)
    correlation = here.correlation_id if here else recorder.correlation_id or correlation_id
    correlation = correlation or uuid_text(uuid7()[0])
    caller = ObservedRun(
        runtime=recorder.runtime,
        ledger=ledger,
        key="",
        run_id=(here.run_id if here else None) or correlation,
        correlation_id=correlation,
        agent=(above.agent if above else None) or name,
    )
    caller.last = here.cause if here else recorder.cause
    return caller
