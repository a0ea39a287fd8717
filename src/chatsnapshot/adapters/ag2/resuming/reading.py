"""Reads a run that stopped out of the ledger: its entries, each checked against its hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chatsnapshot.adapters.ag2.saving.checking import checked_payload
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound

__all__ = ["Recorded", "Step", "read_run"]

_STARTS = frozenset({"execution.run_started", "execution.run_resumed"})
_ENDS = frozenset({"execution.run_completed", "execution.run_failed", "execution.run_cancelled"})


@dataclass(frozen=True)
class Step:
    """An entry that AG2's recorder wrote, and its payload with Python values."""

    entry: LedgerEntry
    payload: dict[str, Any]
    run_id: str

    @property
    def starts(self) -> bool:
        """Whether it is the first event of an execution."""
        return self.entry.event_type in _STARTS

    @property
    def ends(self) -> bool:
        """Whether it is the last event of an execution."""
        return self.entry.event_type in _ENDS

    @property
    def native(self) -> dict[str, Any]:
        """The event as AG2 has it, or nothing."""
        native = self.payload.get("native")
        return native if isinstance(native, dict) else {}


@dataclass(frozen=True)
class Recorded:
    """A recorded run, with the runs before it that it goes on from, in order.

    ``opening`` is the start of the run (of its last execution); ``ended`` its end, or ``None`` for a run that was
    killed.
    """

    correlation_id: str
    run_id: str
    steps: list[Step]
    opening: Step
    ended: Step | None

    @property
    def last(self) -> LedgerEntry:
        """The last event of the run itself."""
        return next(step.entry for step in reversed(self.steps) if step.run_id == self.run_id)

    @property
    def completed(self) -> bool:
        """Whether the run came to its end without a failure."""
        return self.ended is not None and self.ended.entry.event_type == "execution.run_completed"


def read_run(
    ledger: Any,
    correlation_id: object,
    run_id: object,
    conversation: Callable[[Step], object],
    wanted: Callable[[Step], bool],
) -> Recorded:
    """The run of this name, or else the last one under this correlation that is ``wanted``.

    ``conversation`` names what a run is part of: runs of one conversation before this one belong to its past. Raises
    :class:`NotFound` for an unknown correlation or run and for erased payloads, :class:`Corrupt` for an entry that was
    changed, :class:`InvalidEvent` when another run of the conversation followed.
    """
    correlation = str(header_text(correlation_id) or "")
    entries = [
        entry
        for entry in ledger.read(correlation_id=correlation)
        if entry.source.runtime == "ag2" and not entry.event_type.startswith("ag2.chat_")
    ]
    if not entries:
        raise NotFound(f"there is no recorded AG2 run under {correlation!r} in {ledger.url}")
    lost = [entry.position for entry in entries if entry.payload_json is None or "$withheld" in entry.payload]
    steps = [_step(entry, correlation) for entry in entries if entry.position not in lost]
    openings = [step for step in steps if step.starts]
    if run_id is not None:
        chosen = [step for step in openings if step.run_id == str(run_id)]
    else:
        chosen = [step for step in openings if wanted(step)]
    if not chosen:
        known = ", ".join(f"{step.run_id} ({step.payload.get('name')})" for step in openings)
        gone = f", and the payloads at positions {_listed(lost)} were erased or withheld" if lost else ""
        raise NotFound(
            f"there is no such AG2 run under {correlation!r}; recorded are {known or 'none'}{gone}"
        )
    opening = chosen[-1]
    mine = {step.run_id for step in openings if conversation(step) == conversation(opening)}
    kept = [step for step in steps if step.run_id in mine]
    if kept[-1].run_id != opening.run_id:
        raise InvalidEvent(
            f"run {opening.run_id!r} was followed by {kept[-1].run_id!r} in the same conversation; go on with that one"
        )
    _whole(kept, lost, correlation)
    last = next((step for step in reversed(kept) if step.starts or step.ends), None)
    return Recorded(correlation, opening.run_id, kept, opening, last if last and last.ends else None)


def _step(entry: LedgerEntry, correlation: str) -> Step:
    _, value = checked_payload(entry)
    run_id = value.get("run_id")
    return Step(entry, value, run_id if isinstance(run_id, str) else correlation)


def _whole(steps: Sequence[Step], unreadable: Sequence[int], correlation: str) -> None:
    """Raise where something of the conversation cannot be read."""
    first = steps[0].entry.position
    lost = [position for position in unreadable if first < position]
    if lost:
        raise NotFound(
            f"the payloads at positions {_listed(lost)} of {correlation!r} were erased, or withheld by a redaction that "
            "failed, so the conversation cannot be built again from the record; begin a new one"
        )


def _listed(positions: Sequence[int]) -> str:
    shown = ", ".join(str(position) for position in positions[:20])
    return f"{shown} and {len(positions) - 20} more" if len(positions) > 20 else shown
