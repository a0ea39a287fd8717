"""Makes drafts of the spans or log records of one request, in the order of their times, each refused by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.ingest.otlp import jsonform
from chatsnapshot.ingest.otlp.drafts import drafts_of, redact_drafts
from chatsnapshot.ingest.otlp.event import Event
from chatsnapshot.ingest.otlp.logs import events_of_log
from chatsnapshot.ingest.otlp.mapping import events_of_span
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.records import Refused
from chatsnapshot.stores.base import Draft

if TYPE_CHECKING:
    from chatsnapshot.intake import Intake

__all__ = ["LOGS", "TRACES", "Made", "Signal", "made_of", "records_of"]

_log = logging.getLogger("chatsnapshot.otlp")


class Signal(NamedTuple):
    """Traces or logs: the name of its reader, and its rule."""

    reader: str
    events_of: Callable[[Any, Memory], list[Event]]


TRACES = Signal("read_traces", events_of_span)
LOGS = Signal("read_logs", events_of_log)


class Made(msgspec.Struct):
    """Drafts in the order of their times, and for each the number of its span or record.

    ``told`` are the ids of messages, which other spans tell too; ``refused`` counts, ``reason`` is the first one's.
    ``unfit`` are the places of the drafts that may not fit the schemas that come with this package (``None``: any).
    """

    drafts: list[Draft]
    owners: list[int]
    told: list[bytes]
    refused: int
    reason: str
    unfit: list[int] | None = None


def records_of(body: bytes, json: bool, signal: Signal) -> Iterable[Any]:
    """What a body holds; raises :class:`InvalidEvent` and :class:`MissingExtra`, here or as it is gone through."""
    module: ModuleType = jsonform
    if not json:
        from chatsnapshot.ingest.otlp import protobuf

        module = protobuf
    found: Iterable[Any] = getattr(module, signal.reader)(body)
    return found


def made_of(
    records: Iterable[Any],
    events_of: Callable[[Any, Memory], list[Event]],
    memory: Memory,
    intake: Intake,
    now: str,
    redact: object,
) -> Made:
    """The drafts of all records, redacted, not held against schemas yet; raises what going through them raises."""
    made: list[tuple[int, int, Draft, int]] = []
    told: list[bytes] = []
    refused: list[str] = []
    for number, record in enumerate(records):
        if isinstance(record, Refused):
            refused.append(record.reason)
            continue
        try:
            events = events_of(record, memory)
            drafts = drafts_of(events, intake, now)
        except (InvalidEvent, LimitExceeded) as error:
            refused.append(str(error))
            continue
        except Exception as error:  # whatever a span holds, it takes no other with it
            _log.exception("a span or log record could not be read")
            refused.append(f"it could not be read: {type(error).__name__}")
            continue
        for event, draft in zip(events, drafts, strict=True):
            made.append((event.at, event.rank, draft, number))
            if event.told:
                told.append(event.key)
    made.sort(key=itemgetter(0, 1))
    drafts = [one[2] for one in made]
    redact_drafts(drafts, intake, redact)
    return Made(drafts, [one[3] for one in made], told, len(refused), refused[0] if refused else "")
