"""Spans by hand, as OTLP JSON, and a ledger that takes them as the service does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.ingest.otlp import jsonform
from chatsnapshot.ingest.otlp.logs import events_of_log
from chatsnapshot.ingest.otlp.mapping import events_of_span
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.taking import Taking

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_790_000_000_000_000_000


def value(given: Any) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(one) for one in given]}}
    if isinstance(given, dict):
        return {"kvlistValue": {"values": pairs(given)}}
    return {"stringValue": given}


def pairs(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in facts.items()]


class Otlp:
    """One producer and the ledger that it reports to."""

    TRACE = TRACE

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.memory = Memory()

    @staticmethod
    def span(
        number: int,
        name: str,
        facts: dict[str, Any] | None = None,
        *,
        parent: int | None = None,
        at: int = 0,
        took: int = 1_000,
        **more: Any,
    ) -> dict[str, Any]:
        """Span ``number``, from ``at`` microseconds on for ``took`` of them; ``more`` are OTLP's own keys."""
        made = {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(START + at * 1_000),
            "endTimeUnixNano": str(START + (at + took) * 1_000),
            "attributes": pairs(facts or {}),
            **more,
        }
        return made if parent is None else {**made, "parentSpanId": f"{parent:016x}"}

    @staticmethod
    def event(name: str, facts: dict[str, Any], at: int = 0) -> dict[str, Any]:
        return {"name": name, "timeUnixNano": str(START + at * 1_000), "attributes": pairs(facts)}

    @staticmethod
    def log(
        facts: dict[str, Any] | None = None, body: Any = None, *, at: int = 0, **more: Any
    ) -> dict[str, Any]:
        made = {"timeUnixNano": str(START + at * 1_000), "attributes": pairs(facts or {}), **more}
        return made if body is None else {**made, "body": value(body)}

    @staticmethod
    def traces(*spans: Any, scope: str = "test") -> bytes:
        group = {
            "resource": {"attributes": pairs({"service.name": "desk"})},
            "scopeSpans": [{"scope": {"name": scope, "version": "1"}, "spans": list(spans)}],
        }
        return json.dumps({"resourceSpans": [group]}).encode()

    @staticmethod
    def logs(*records: Any) -> bytes:
        group = {
            "resource": {"attributes": pairs({"service.name": "desk"})},
            "scopeLogs": [{"scope": {"name": "test"}, "logRecords": list(records)}],
        }
        return json.dumps({"resourceLogs": [group]}).encode()

    def take(self, *spans: Any, redact: object = None) -> Taking:
        """One request with these spans; what became of it."""
        return self._take(self.traces(*spans), jsonform.read_traces, events_of_span, redact)

    def take_logs(self, *records: Any) -> Taking:
        return self._take(self.logs(*records), jsonform.read_logs, events_of_log, None)

    def _take(self, body: bytes, read: Any, events_of: Any, redact: object) -> Taking:
        taking = Taking(self.ledger, self.memory)
        taking.read(read(body), events_of, redact)
        asyncio.run(taking.commit())
        return taking

    def entries(self, correlation_id: str | None = None) -> list[Any]:
        return list(self.ledger.read(correlation_id=correlation_id))

    def told(self) -> list[tuple[str, Any]]:
        """Type and payload of each event, without what is native."""
        return [
            (entry.event_type, {key: one for key, one in entry.payload.items() if key != "native"})
            for entry in self.entries()
        ]


@pytest.fixture
def otlp() -> Iterator[Otlp]:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        yield Otlp(ledger)
