"""Ends the runs that a process took with it: begun, not ended, and their process is there no more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chatsnapshot.errors import LedgerError
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS

if TYPE_CHECKING:
    from chatsnapshot.adapters.places import Parent
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger

__all__ = ["end_left"]


def end_left(ledger: Ledger, process: Parent, reason: str) -> None:
    """Record the end of every run below a process whose own process (attribute ``pid``) is gone: it was cancelled.

    Runs of processes that live on, and of processes that did not say which they are, are left as they are.
    """
    if process.cause is None:
        return
    after = ledger.get(process.cause).position
    below = {process.run_id}
    going_on: dict[tuple[str, str], LedgerEntry] = {}
    for entry in ledger.read(event_type=[*RUN_STARTS, *RUN_ENDS], after=after):
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        run_id = payload.get("run_id") or entry.event.correlation_id
        key = (entry.event.correlation_id, run_id)
        if entry.event_type not in RUN_STARTS:
            going_on.pop(key, None)
        elif payload.get("parent_run_id") in below:
            below.add(run_id)
            going_on[key] = entry
        elif key in going_on:
            going_on[key] = entry
    # What was begun last is inside of what was begun before it.
    for (correlation_id, run_id), begun in reversed(going_on.items()):
        pid = (begun.event.attributes or {}).get("pid")
        if isinstance(pid, int) and _is_gone(pid):
            try:
                ledger.end(run_id, correlation_id=correlation_id, reason=reason)
            except LedgerError:
                continue  # somebody else ended it, or goes on with it


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
