"""Entries without a ledger: positions, sequences and times as a ledger would give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from chatsnapshot import jsonvalue
from chatsnapshot.clock import timestamp_text, uuid_bytes
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import NotFound

START = datetime(2026, 11, 30, 2, 26, 0, tzinfo=timezone.utc)


class History:
    """A list of entries that reads like a ledger: ``read``, ``replay`` and ``get``."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []
        self.sequences: Counter[str] = Counter()

    def add(
        self,
        event_type: str,
        payload: Any = None,
        *,
        run: str = "run-1",
        cause: LedgerEntry | str | None = None,
        at: float | None = None,
        name: str | None = None,
        origin: str | None = None,
        runtime: str = "none",
        erased: bool = False,
        raw: bytes | None = None,
        event_id: str | None = None,
        links: list[str] | None = None,
    ) -> LedgerEntry:
        """Record an event; ``at`` is seconds after the start, by default one second an event."""
        position = len(self.entries) + 1
        self.sequences[run] += 1
        domain = event_type.partition(".")[0]
        origins = {"execution": "agent", "ui": "ui", "integration": "integration"}
        source = {"origin": origin or origins.get(domain, "system"), "runtime": runtime}
        if name is not None:
            source["name"] = name
        when = START + timedelta(seconds=position if at is None else at)
        stored = raw if raw is not None else jsonvalue.encode({} if payload is None else payload).json
        entry = LedgerEntry(
            position=position,
            sequence=self.sequences[run],
            recorded_at=timestamp_text(START + timedelta(seconds=position)),
            event_key=uuid_bytes(event_id) if event_id else position.to_bytes(16, "big"),
            event_type=event_type,
            timestamp=timestamp_text(when),
            source_json=msgspec.json.encode(source).decode(),
            correlation_id=run,
            causation_key=uuid_bytes(cause.event_id if isinstance(cause, LedgerEntry) else cause)
            if cause is not None
            else None,
            payload_json=None if erased else stored,
            version=None,
            attributes_json=msgspec.json.encode({"links": links}).decode() if links else None,
            leaf=bytes(32),
            salt=None if erased else bytes(16),
            commitment=bytes(32),
            payload_bytes=len(stored),
        )
        self.entries.append(entry)
        return entry

    def read(self, *, until: Any = None) -> Iterator[LedgerEntry]:
        for entry in self.entries:
            if until is None or (
                entry.position <= until if isinstance(until, int) else entry.recorded_at <= until
            ):
                yield entry

    def get(self, event_id: str) -> LedgerEntry:
        for entry in self.entries:
            if entry.event_id == event_id:
                return entry
        raise NotFound(f"no event {event_id}")

    def replay(
        self, correlation_id: str, *, until: Any = None, children: bool = False
    ) -> Iterator[LedgerEntry]:
        family = {correlation_id}
        if children:
            ids = {entry.event_id: entry.correlation_id for entry in self.read(until=until)}
            above: dict[str, str | None] = {}
            for entry in self.read(until=until):
                own = entry.correlation_id
                if entry.sequence == 1 and entry.causation_id is not None:
                    above[own] = ids.get(entry.causation_id)
                elif (
                    entry.event_type == "execution.run_started"
                    and above.get(own) == own
                    and entry.causation_id
                ):
                    above[own] = ids.get(entry.causation_id)  # it began inside: its start tells
            grown = -1
            while grown != len(family):
                grown = len(family)
                family |= {own for own, parent in above.items() if parent in family}
        return (entry for entry in self.read(until=until) if entry.correlation_id in family)


@pytest.fixture
def history() -> History:
    return History()
