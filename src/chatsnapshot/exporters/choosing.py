"""What is exported: the runs or the filtered events of a ledger at one moment, redacted where that is wanted."""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.jsonvalue import Blob, blob_digests
from chatsnapshot.projections.judged import Condition, parse
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.shapes import Run, Runs
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.redaction import Redacts

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["JUDGED_OUT", "Choice", "check_filters"]

JUDGED_OUT = "runs that were not evaluated so"
"""Why runs are left out for which a condition did not hold."""

MERGED_MAX = 32
"""Correlations that are read side by side; of more the whole ledger is read in one pass."""

Progress = Callable[[int, int], None]


class Choice:
    """Entries of a ledger as it stood at ``until``, in order of position. Works as what views are folded from.

    ``correlations`` is ``None`` for all. ``filters`` are those of ``Ledger.read`` but its bounds. With ``redactor`` no
    part of an entry is seen before it was redacted.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        runs: Sequence[str] | None = None,
        children: bool = True,
        until: Any = None,
        evaluation: Sequence[str] = (),
        filters: Mapping[str, Any] | None = None,
        redactor: Redacts | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.ledger = ledger
        self.redactor = redactor
        self.children = children
        self.filters = dict(filters or {})
        self.conditions: list[Condition] = [parse(text) for text in evaluation]
        self.until = max(ledger.read(until=until, reverse=True).scanned_to, 0)
        """The last position of the export: the ledger as it stands now, or as it stood."""
        self.validator = ledger.validator
        self.judged_out = 0
        """Runs for which a condition did not hold, of those that :meth:`runs` went through."""
        self._tell = progress or (lambda done, whole: None)
        self.named = None if runs is None else [unicodedata.normalize("NFC", str(run)) for run in runs]
        self._scope = None if self.named is None else self._families(self.named)
        self.correlations = None if self._scope is None else list(self._scope)
        if self.conditions:
            kept = dict.fromkeys(run.correlation_id for run in self.runs())
            self.correlations = list(kept)

    def _families(self, names: Sequence[str]) -> dict[str, None]:
        """The correlations that were named, with those of their children where these are wanted."""
        found: dict[str, None] = {}
        for name in names:
            replay = self.ledger.replay(name, until=self.until, children=self.children)
            found.update(dict.fromkeys(replay.correlations))
        return found

    # --- what views are folded from ---

    def read(self, *, until: Any = None) -> Iterator[LedgerEntry]:
        """All entries of the ledger up to the end of the export."""
        return map(self._seen, self.ledger.read(until=self._bound(until)))

    def replay(
        self, correlation_id: str, *, until: Any = None, children: bool = False
    ) -> Iterator[LedgerEntry]:
        """The entries of a correlation in position order, with those of its children when asked."""
        found = self.ledger.replay(correlation_id, until=self._bound(until), children=children)
        return map(self._seen, found)

    def get(self, event_id: str) -> LedgerEntry:
        """The entry of that event; raises :class:`NotFound`, also for one after the end of the export."""
        entry = self.ledger.get(event_id)
        if entry.position > self.until:
            raise NotFound(f"event {event_id} stands after position {self.until}, where the export ends")
        return self._seen(entry)

    def _bound(self, until: Any) -> int:
        return self.until if until is None else min(self.until, int(until))

    # --- what exporters write ---

    def entries(self) -> Iterator[LedgerEntry]:
        """What was chosen, as it was recorded; says on the way how far it is."""
        for entry in self._found():
            yield self._seen(entry)
            self._tell(entry.position, self.until)

    def newest(self) -> Iterable[LedgerEntry]:
        """What was chosen, with payloads in the newest version that upcasters lead to."""
        return newest(self, self.entries())

    def _found(self) -> Iterator[LedgerEntry]:
        if self.correlations is None:
            yield from self.ledger.read(until=self.until, **self.filters)
        elif len(self.correlations) <= MERGED_MAX:
            readings = [
                iter(self.ledger.read(correlation_id=one, until=self.until, **self.filters))
                for one in self.correlations
            ]
            yield from heapq.merge(*readings, key=attrgetter("position"))
        else:
            wanted = frozenset(self.correlations)
            for entry in self.ledger.read(until=self.until, **self.filters):
                if entry.correlation_id in wanted:
                    yield entry

    def runs(self) -> Iterator[Run]:
        """The runs that were chosen, parents first; those for which every condition of evaluation holds."""
        self.judged_out = 0
        for run in self._seen_runs():
            if all(condition.holds(run) for condition in self.conditions):
                yield run
            else:
                self.judged_out += 1

    def _seen_runs(self) -> Iterator[Run]:
        """The runs of what was named, before any condition."""
        if self._scope is None or self.conditions:
            # A run may be judged anywhere in the ledger.
            for run in _every(list_runs(self, until=self.until)):
                if self._scope is None or run.correlation_id in self._scope:
                    yield run
            return
        known: set[tuple[str, str, str]] = set()
        for name in self.named or ():
            try:
                found: Runs = view(self, "runs", name, until=self.until, children=self.children)
            except NotFound:
                continue  # it began after the moment of the export
            for run in _every(found.runs):
                key = run.correlation_id, run.kind, run.run_id
                if key not in known:
                    known.add(key)
                    yield run

    def each(self, pieces: Sequence[Any]) -> Iterator[Any]:
        """The pieces one by one; says on the way how far it is."""
        for number, piece in enumerate(pieces, 1):
            yield piece
            self._tell(number, len(pieces))

    # --- redaction ---

    def _seen(self, entry: LedgerEntry) -> LedgerEntry:
        if self.redactor is None:
            return entry
        parts = self.redactor.apply(
            entry.event_type,
            entry.correlation_id,
            b"{}" if entry.payload_json is None else entry.payload_json,
            tuple(self._blobs(entry.payload_json or b"")),
            entry.attributes_json,
            entry.source_json,
            self.ledger.limits,
        )
        return msgspec.structs.replace(
            entry,
            payload_json=None if entry.payload_json is None else parts.payload_json,
            attributes_json=parts.attributes_json,
            source_json=parts.source_json,
        )

    def _blobs(self, payload_json: bytes) -> Iterator[Blob]:
        """The blobs of a payload, so that what was moved to one is redacted like the rest."""
        for digest in blob_digests(payload_json):
            try:
                yield Blob(digest, self.ledger.blob(f"sha256:{digest.hex()}"), "")
            except NotFound:
                continue


def _every(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs and all below them, parents first."""
    waiting = list(runs)[::-1]
    while waiting:
        run = waiting.pop()
        yield run
        waiting.extend(reversed(run.children))


def check_filters(filters: Mapping[str, Any], format: str) -> None:
    """Refuse filters of events for a format of whole runs."""
    given = sorted(name for name, value in filters.items() if value is not None)
    if given:
        raise InvalidEvent(
            f"{format} writes whole runs, so it takes no filter of events ({', '.join(given)}); choose runs by "
            "their ids, an evaluation or until"
        )
