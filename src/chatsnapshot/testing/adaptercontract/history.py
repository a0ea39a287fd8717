"""A recorded history as the checks look at it: runs, and what is said, called and asked in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.expecting import expect

__all__ = ["ENDS", "STARTS", "History", "RunSeen", "facts", "text_of"]

STARTS = ("execution.run_started", "execution.run_resumed")
ENDS = (
    "execution.run_completed",
    "execution.run_failed",
    "execution.run_cancelled",
    "execution.run_paused",
)


def facts(entry: LedgerEntry) -> dict[str, Any]:
    """The payload of an entry, a dict."""
    payload = entry.payload
    return payload if isinstance(payload, dict) else {}


def text_of(entry: LedgerEntry) -> str:
    """What a message says: its parts of text, or its content."""
    payload = facts(entry)
    parts = payload.get("parts")
    if isinstance(parts, list):
        return "".join(str(part.get("content") or "") for part in parts if part.get("type") == "text")
    return str(payload.get("content") or "")


_ENDS = frozenset({f"execution.run_{how}" for how in ("completed", "failed", "cancelled", "paused")})


class RunSeen:
    """One stretch of a run in the history, from its start or its resumption on: its entries in order."""

    def __init__(self, correlation_id: str, run_id: str) -> None:
        self.correlation_id = correlation_id
        self.run_id = run_id
        self.entries: list[LedgerEntry] = []

    @property
    def agent(self) -> str:
        """The agent that it is a run of."""
        first = facts(self.entries[0])
        return str(first.get("agent") or first.get("name") or "")

    def of(self, *event_types: str) -> list[LedgerEntry]:
        """Its entries of these types."""
        return [entry for entry in self.entries if entry.event_type in event_types]


class History:
    """What one play recorded, without the ledger's own facts."""

    def __init__(self, entries: Sequence[LedgerEntry]) -> None:
        self.entries = [entry for entry in entries if not entry.event_type.startswith("ledger.")]
        self.by_id = {entry.event_id: entry for entry in self.entries}
        self.runs: list[RunSeen] = []
        latest: dict[tuple[str, str], RunSeen] = {}
        for entry in self.entries:
            key = (entry.correlation_id, str(facts(entry).get("run_id") or entry.correlation_id))
            run = latest.get(key)
            # A run that was paused and goes on keeps its id: what follows is another stretch of it.
            if run is None or (entry.event_type == "execution.run_resumed" and run.of(*_ENDS)):
                run = latest[key] = RunSeen(*key)
                self.runs.append(run)
            run.entries.append(entry)

    def of(self, *event_types: str) -> list[LedgerEntry]:
        """The entries of these types."""
        return [entry for entry in self.entries if entry.event_type in event_types]

    def cause(self, entry: LedgerEntry) -> LedgerEntry | None:
        """The entry that this one names as its cause; ``None`` when it names none, or one that is not here."""
        return self.by_id.get(entry.causation_id or "")

    def run_of(self, entry: LedgerEntry) -> RunSeen:
        """The run that an entry belongs to."""
        return next(run for run in self.runs if entry in run.entries)

    def messages(self, role: str, run: RunSeen | None = None) -> list[LedgerEntry]:
        """The messages of a role, of one run or of all."""
        said = self.of("execution.message") if run is None else run.of("execution.message")
        return [entry for entry in said if facts(entry).get("role") == role]

    def saying(self, role: str, text: str) -> list[LedgerEntry]:
        """The messages of a role that hold a text."""
        return [entry for entry in self.messages(role) if text in text_of(entry)]

    def root(self) -> RunSeen:
        """The first run, which the caller of the runtime started."""
        expect(self.runs, "nothing was recorded")
        return self.runs[0]

    def conversation(self) -> list[RunSeen]:
        """The runs in the correlation of the first one."""
        root = self.root()
        return [run for run in self.runs if run.correlation_id == root.correlation_id]

    def told(self) -> str:
        """The history as lines for whoever reads why a check failed."""
        lines = []
        for entry in self.entries:
            cause = self.cause(entry)
            by = str(cause.position) if cause is not None else entry.causation_id or "-"
            payload = facts(entry)
            about = payload.get("role") or payload.get("call_id") or payload.get("name") or ""
            lines.append(
                f"{entry.position:4} {entry.correlation_id[-6:]}/{str(payload.get('run_id'))[-6:]} "
                f"{entry.event_type.partition('.')[2]} {about} <- {by}"
            )
        return "\n".join(lines)
