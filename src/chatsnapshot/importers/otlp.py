"""Files of OTLP JSON: one document, or one a line as the file exporter of the OpenTelemetry Collector writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.importers.base import Piece, Problem
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.tornjson import closed, without_lone_surrogates
from chatsnapshot.ingest.otlp import jsonform
from chatsnapshot.ingest.otlp.event import Event, envelope_of
from chatsnapshot.ingest.otlp.logs import events_of_log
from chatsnapshot.ingest.otlp.mapping import events_of_span
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.records import Refused

__all__ = ["OtlpFiles"]

_MARK = b"\xef\xbb\xbf"
_LISTS = frozenset({b"spans", b"logRecords"})


class OtlpFiles:
    """Reads spans and log records as over HTTP; their events come in the order of their times."""

    kind = "otlp"
    what = "OTLP JSON: traces and logs of OpenTelemetry, in one document or one a line"

    def looks_like(self, head: bytes) -> float:
        """By the name of the list that every document has."""
        members = read_object(head.removeprefix(_MARK).lstrip()).members
        return 1.0 if "resourceSpans" in members or "resourceLogs" in members else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """Every span by itself: one that cannot be read, or a line that is no JSON, is a problem beside the others."""
        memory = Memory()
        found: list[tuple[int, int, int, Event]] = []
        for offset, record in _records(without_lone_surrogates(data)):
            if isinstance(record, Problem):
                yield record
                continue
            if isinstance(record, Refused):
                yield Problem(offset, record.reason)
                continue
            try:
                events = (
                    events_of_span(record, memory)
                    if hasattr(record, "parent")
                    else events_of_log(record, memory)
                )
            except Exception as error:  # whatever a span holds, it takes no other with it
                yield Problem(offset, f"it could not be read: {type(error).__name__}")
                continue
            found += [(event.at, event.rank, offset, event) for event in events]
        found.sort(key=itemgetter(0, 1))
        told: set[bytes] = set()
        now = time.time_ns()
        for _, _, offset, event in found:
            if event.told:
                if event.key in told:
                    continue
                told.add(event.key)
            yield Piece(offset, envelope_of(event, now))


def _records(data: bytes) -> Iterator[tuple[int, Any]]:
    """Each span and log record with the byte at which its document begins."""
    before = len(_MARK) if data.startswith(_MARK) else 0
    body = data[before:]
    try:
        yield from [(before, record) for record in _document(body)]
        return
    except InvalidEvent as error:
        if len(body.split(b"\n", 2)) < 2:
            yield from _broken(before, body, str(error))
            return
        whole = str(error)
    offset, lines = before, 0
    for line in body.splitlines(keepends=True):
        if line.strip():
            lines += 1
            try:
                yield from [(offset, record) for record in _document(line)]
            except InvalidEvent as error:
                if lines == 1:  # one document over many lines, which is broken or cut off
                    yield from _broken(offset, body, whole)
                    return
                yield from _broken(offset, line, str(error))
        offset += len(line)


def _broken(offset: int, text: bytes, reason: str) -> Iterator[tuple[int, Any]]:
    """The records of a broken document that are whole, and where the rest begins."""
    part = closed(text, _LISTS)
    records: list[Any] = []
    rest = 0
    if part is not None:
        try:
            records, rest = _document(part[0]), part[1]
        except InvalidEvent:
            pass
    yield from [(offset, record) for record in records]
    yield offset + rest, Problem(offset + rest, reason)


def _document(data: bytes) -> list[Any]:
    """The spans and log records of one document; metrics are passed over."""
    return [*jsonform.read_traces(data), *jsonform.read_logs(data)]
