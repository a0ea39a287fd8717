"""The events of files on their way into a ledger, in batches: what is new, what is known, what cannot be taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import NotFound
from chatsnapshot.importers.base import Piece, Problem
from chatsnapshot.ingesting import BadLine, Ingest

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Recording"]


class _Told(NamedTuple):
    offset: int
    event_id: str | None
    correlation: str
    first_holds: bool


class Recording:
    """Records pieces. ``stored``, ``known``, ``problems`` and ``last_position`` say what became of them so far."""

    def __init__(self, ledger: Ledger, redact: object, tell: Callable[[int], None] | None = None) -> None:
        self.problems: list[Problem] = []
        self.correlations: dict[str, None] = {}
        self.stored = self.known = self.last_position = 0
        self._ledger = ledger
        self._redact = redact
        self._tell = tell
        self._told: list[_Told] = []

    def take(self, pieces: Iterable[Piece | Problem]) -> None:
        """Record every event; stores what was ready also when the reader fails."""
        self._told = [_Told(0, None, "", False)]
        ingest = Ingest(
            self._ledger,
            redact=self._redact,
            skip_bad=True,
            on_bad=self._bad,
            progress=None if self._tell is None else lambda _: self._tell_offset(),
        )
        try:
            with closing(ingest):
                ingest.take(self._events(pieces))
        finally:
            report = ingest.report
            self.stored += report.stored
            self.known += report.known
            self.last_position = max(self.last_position, report.last_position)

    def _events(self, pieces: Iterable[Piece | Problem]) -> Iterator[Any]:
        for piece in pieces:
            if isinstance(piece, Problem):
                self.problems.append(piece)
                continue
            event = piece.event
            if isinstance(event, EventEnvelope):
                told = _Told(piece.offset, None, event.correlation_id, False)
            else:
                told = _Told(piece.offset, event.get("event_id"), event["correlation_id"], piece.first_holds)
            self._told.append(told)
            self.correlations[told.correlation] = None
            # Arguments of record(), also where they have all the keys of an envelope: their payload is to be encoded.
            yield event if isinstance(event, EventEnvelope) else {"schema_version": None, **event}

    def _bad(self, bad: BadLine) -> None:
        told = self._told[bad.number]
        if told.event_id is not None and self._holds(told):
            self.known += 1
            return
        self.problems.append(Problem(told.offset, bad.reason))

    def _holds(self, told: _Told) -> bool:
        """Whether what the ledger has under an id stands: others have a say in it, or another run told it first."""
        try:
            entry = self._ledger.get(told.event_id)
        except NotFound:
            return False
        return told.first_holds or entry.correlation_id != told.correlation

    def _tell_offset(self) -> None:
        if self._tell is not None:
            self._tell(self._told[-1].offset)
