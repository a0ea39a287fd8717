"""Small indexes for the list of runs: where each correlation starts, and where runs are judged from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import holds_runs
from chatsnapshot.events.fields import payload_of
from chatsnapshot.events.normaliser import read_evaluation
from chatsnapshot.projections.base import register

__all__ = ["JudgementsProjection", "Judges", "StartState", "StartsProjection", "start_key"]

EVALUATION = "execution.evaluation"


class StartState(msgspec.Struct):
    """The first event of a correlation: where it stands and what caused it."""

    correlation_id: str = ""
    cause: str | None = None


def start_key(position: int) -> str:
    """A position as a key: keys sort as positions do."""
    return f"{position:020d}"


@register
class StartsProjection:
    """Key: the position of a correlation's first event. The ledger's own facts and states of runtimes are left out."""

    name = "starts"
    version = 2

    def key(self, entry: LedgerEntry) -> str | None:
        """The position, when the correlation begins with this entry."""
        begins = entry.sequence == 1 and holds_runs(entry.correlation_id)
        return start_key(entry.position) if begins else None

    def initial(self) -> StartState:
        """Nothing begun."""
        return StartState()

    def apply(self, state: StartState, entry: LedgerEntry) -> StartState:
        """What began here."""
        return StartState(entry.correlation_id, entry.causation_id)

    def erased(self, entry: LedgerEntry) -> Iterable[str]:
        """Nothing of a payload is kept."""
        return ()


class Judges(msgspec.Struct):
    """The correlations that hold evaluations which name a run, in the order in which they first did."""

    correlations: dict[str, None] = {}


@register
class JudgementsProjection:
    """Key: the id of the run that an evaluation names."""

    name = "judgements"
    version = 2

    def key(self, entry: LedgerEntry) -> str | None:
        """The run that is judged."""
        return read_evaluation(payload_of(entry)).run_id if entry.event_type == EVALUATION else None

    def initial(self) -> Judges:
        """Judged nowhere."""
        return Judges()

    def apply(self, state: Judges, entry: LedgerEntry) -> Judges:
        """Judged here."""
        state.correlations[entry.correlation_id] = None
        return state

    def erased(self, entry: LedgerEntry) -> Iterable[str] | None:
        """Which run it was is gone with the payload."""
        return None if entry.event_type == EVALUATION else ()
