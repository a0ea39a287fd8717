"""Makes drafts of events for one ledger: encoded, redacted, checked and limited as everything that comes in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.clock import time_text
from chatsnapshot.errors import LimitExceeded
from chatsnapshot.fields import correlation_text
from chatsnapshot.ingest.otlp.event import Event, filled_of
from chatsnapshot.jsonvalue import encode
from chatsnapshot.redaction import Redacts, redactor_of
from chatsnapshot.stores.base import Draft

if TYPE_CHECKING:
    from chatsnapshot.intake import Intake

__all__ = ["drafts_of"]


def drafts_of(events: Iterable[Event], intake: Intake, redact: object, now: str) -> list[Draft]:
    """The drafts of one span or record; ``now`` stands for a time that is not known.

    Raises :class:`InvalidEvent` and :class:`LimitExceeded`.
    """
    limits, check = intake.limits, intake._check
    redactors: Sequence[Redacts] = [one for one in (redactor_of(redact), intake._redactor) if one is not None]
    drafts: list[Draft] = []
    for event in events:
        correlation = correlation_text(event.correlation, limits)
        encoded = encode(event.payload, limits=limits)
        json, blobs, attributes, source = encoded.json, encoded.blobs, event.attributes, event.source
        for redactor in redactors:
            json, blobs, attributes, source = redactor.apply(
                event.type, correlation, json, blobs, attributes, source, limits
            )
        if len(json) > limits.payload_bytes_max:
            raise LimitExceeded(
                "payload_bytes_max", limits.payload_bytes_max, len(json), "send fewer attributes"
            )
        if check is not None:
            check(event.type, None, json)
        drafts.append(
            Draft(
                (
                    event.key,
                    event.type,
                    time_text(event.at) if event.at else now,
                    source,
                    correlation,
                    event.cause,
                    json,
                    None,
                    attributes,
                ),
                len(json),
                False,
                filled_of(event),
                blobs,
            )
        )
    return drafts
