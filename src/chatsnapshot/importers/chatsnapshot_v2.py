"""Events that version 2.0.0 of ChatSnapshot wrote, as lines of JSON or in a SQLite file: taken as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.clock import foreign_uuid, uuid_bytes, uuid_text
from chatsnapshot.envelope import ORIGINS
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.fields import correlation_text
from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.chatrun import moment
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.sqlitefile import Row, has_table, rows_of

__all__ = ["ChatSnapshotV2"]

_KEYS = ("event_id", "event_type", "timestamp", "source", "correlation_id", "causation_id", "payload")
_NEEDED = frozenset(_KEYS) - {"causation_id"}
_NATIVE = "chatsnapshot-v2"
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)\s*\Z", re.IGNORECASE)
_MARK = b"\xef\xbb\xbf"


class ChatSnapshotV2:
    """Reads each event with its id, cause, order and payload; times without a zone are taken as UTC, and marked."""

    kind = "chatsnapshot-v2"
    what = "events of ChatSnapshot 2.0.0 (events.jsonl, or a SQLite file)"

    def looks_like(self, head: bytes) -> float:
        """By the table of the SQLite file; of lines by the agent's name in the source, or a time without a zone."""
        if has_table(head, "events", _KEYS):
            return 1.0
        line = head.removeprefix(_MARK).lstrip().partition(b"\n")[0]
        event = read_object(line).members
        if not event.keys() >= _NEEDED:
            return 0.0
        if isinstance(event["source"], Mapping) and "agent_name" in event["source"]:
            return 1.0
        # Events of today have a zone: they are for 'ingest'.
        return 0.9 if isinstance(event["timestamp"], str) and not _ZONE.search(event["timestamp"]) else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """Every event by itself, in the order of the file."""
        from_table = has_table(data[: 64 * 1024], "events", _KEYS)
        for found in _rows(data) if from_table else _lines(data):
            if isinstance(found, Problem):
                yield found
                continue
            offset, event = found
            try:
                yield Piece(offset, _event(event))
            except InvalidEvent as error:
                yield Problem(offset, str(error))


def _lines(data: bytes) -> Iterator[Row | Problem]:
    offset = len(_MARK) if data.startswith(_MARK) else 0
    for line in data[offset:].split(b"\n"):
        start = offset + len(line) - len(line.lstrip())
        offset += len(line) + 1
        if not line.strip():
            continue
        document = read_object(line.strip())
        if document.problem is not None:
            yield Problem(start, f"no event: {document.problem.reason}")
        else:
            yield Row(start, document.members)


def _rows(data: bytes) -> Iterator[Row | Problem]:
    for row in rows_of(data, "events", _KEYS, ("event_id", "event_type")):
        if isinstance(row, Problem):
            yield row
            continue
        values: dict[str, Any] = dict(row.values)
        for name in ("source", "payload"):
            text = values[name]
            document = read_object((text or "").encode("utf-8", "surrogateescape"))
            if document.problem is not None:
                yield Problem(
                    row.offset, f"{name} of event {str(values['event_id'])!r:.60}: {document.problem.reason}"
                )
                break
            values[name] = document.members
        else:
            yield Row(row.offset, values)


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``record()``; raises :class:`InvalidEvent`."""
    missing = sorted(_NEEDED - {key for key, value in event.items() if value is not None})
    if missing:
        raise InvalidEvent(f"the event has no {', '.join(missing)}")
    given = event["timestamp"]
    at = moment(given.get("$date") if isinstance(given, Mapping) else given)
    if at is None:
        raise InvalidEvent(f"the timestamp is no time: {given!r:.60}")
    made = {
        "event_id": _id(event["event_id"]),
        "event_type": event["event_type"],
        "timestamp": at,
        "correlation_id": correlation_text(event["correlation_id"]),
        "causation_id": None if event.get("causation_id") in (None, "") else _id(event["causation_id"]),
        "payload": event["payload"],
        "schema_version": None,  # arguments of record(): its payload knows no tags
    }
    if not isinstance(made["payload"], Mapping):
        made["payload"] = {"value": made["payload"]}
    source = event["source"]
    if isinstance(source, Mapping) and source.get("origin") in ORIGINS:
        made["source"] = {
            "origin": source["origin"],
            "runtime": name_text(source.get("runtime"), 64) or "none",
        }
        if (name := name_text(source.get("agent_name"))) is not None:
            made["source"]["name"] = name
    if isinstance(given, str) and not _ZONE.search(given):
        made["attributes"] = {"timestamp.zone": "unknown"}
    return made


def _id(given: object) -> str:
    """A UUID as it is; another id as the UUID that it always becomes."""
    if not isinstance(given, str) or not given or name_text(given, len(given)) != given:
        raise InvalidEvent(f"an id is a text without control characters, not {given!r:.60}")
    try:
        return uuid_text(uuid_bytes(given))
    except InvalidEvent:
        return uuid_text(foreign_uuid(_NATIVE, given))
