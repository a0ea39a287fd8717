"""Records notes that a model makes about a run, as events of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.mcp.history import History
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["NOTE_CHARS_MAX", "record_note"]

NOTE_CHARS_MAX = 8_000

_LEDGER = "ledger"
"""The correlation of the ledger's own facts: not a run, and nobody's to write in."""


def record_note(ledger: Ledger, run: str, text: str, about: str | None) -> str:
    """Record a note in a known run as ``execution.memory``, caused by the event that it is about; secrets are taken out.

    Raises :class:`NotFound` for an unknown run or event, and what ``record`` raises.
    """
    correlation = correlation_of(ledger, run)
    if correlation == _LEDGER:
        raise InvalidEvent(
            "'ledger' is the correlation of the ledger's own facts; name a run (see list_runs)", path="run"
        )
    entry = ledger.record(
        "execution.memory",
        {"operation": "write", "store": "notes", "content": text},
        correlation_id=correlation,
        causation_id=None if about is None else History(ledger).entry(about),
        source={"origin": "agent", "runtime": "mcp"},
        redact="secrets",
    )
    return f"Recorded at position {entry.position:,} as event {entry.event_id}."
