"""Makes drafts of events for one ledger: encoded, redacted, checked and limited as everything that comes in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.errors import LimitExceeded
from chatsnapshot.ingest.otlp.event import Event, filled_of
from chatsnapshot.jsonvalue import Blob, encode
from chatsnapshot.redaction import Redactor, Redacts, redactor_of
from chatsnapshot.stores.base import Draft

if TYPE_CHECKING:
    from chatsnapshot.intake import Intake
    from chatsnapshot.ledger import Ledger

__all__ = ["check_draft", "drafts_of", "redact_drafts"]

_NO_BLOBS: tuple[Blob, ...] = ()
_json = msgspec.json.Encoder().encode
_MENDS_MAX = 20
_LOOKED_AT = 32
"""So many events are looked at together for secrets; only where one may be, each is looked at by itself."""


def drafts_of(events: Iterable[Event], intake: Intake, now: str) -> list[Draft]:
    """The drafts of one span or record, not redacted yet; ``now`` stands for a time that is not known.

    Raises :class:`InvalidEvent` and :class:`LimitExceeded`.
    """
    limits, correlations = intake.limits, intake._correlations
    # A payload of more bytes may hold a text that becomes a blob.
    plain_max = min(limits.string_inline_bytes_max, limits.binary_inline_bytes_max, limits.payload_bytes_max)
    drafts: list[Draft] = []
    for event in events:
        json, blobs = b"", _NO_BLOBS
        if event.plain:
            json = _json(event.payload)
        if not 0 < len(json) <= plain_max or b"$" in json:
            encoded = encode(event.payload, limits=limits)
            json, blobs = encoded.json, encoded.blobs
        if len(json) > limits.payload_bytes_max:
            raise LimitExceeded("payload_bytes_max", limits.payload_bytes_max, len(json), "send less of it")
        drafts.append(
            Draft(
                (
                    event.key,
                    event.type,
                    time_text(event.at) if event.at else now,
                    event.source,
                    correlations.get(event.correlation) or intake._know_correlation(event.correlation),
                    event.cause,
                    json,
                    None,
                    event.attributes,
                ),
                len(json),
                False,
                filled_of(event),
                blobs,
            )
        )
    return drafts


def redact_drafts(drafts: list[Draft], intake: Intake, redact: object) -> None:
    """Take secrets out of drafts, in place: each passes ``redact`` and then the ledger's own redaction."""
    for redactor in (redactor_of(redact), intake._redactor):
        if redactor is None:
            continue
        for start in range(0, len(drafts), _LOOKED_AT):
            some = drafts[start : start + _LOOKED_AT]
            if not (isinstance(redactor, Redactor) and redactor.clean(_texts(some))):
                for draft in some:
                    _redact(draft, redactor, intake)


def _texts(drafts: Sequence[Draft]) -> bytes:
    """What redaction would look at in any of them. The attributes are ids that are made here."""
    parts = [draft.columns[6] or b"" for draft in drafts]
    parts += [source.encode() for source in {draft.columns[3] for draft in drafts}]
    parts += [blob.data for draft in drafts for blob in draft.blobs]
    return b"\n".join(parts)


def _redact(draft: Draft, redactor: Redacts, intake: Intake) -> None:
    key, event_type, timestamp, source, correlation, cause, json, version, attributes = draft.columns
    json, draft.blobs, attributes, source = redactor.apply(
        event_type, correlation, json or b"", draft.blobs, attributes, source, intake.limits
    )
    draft.columns = (key, event_type, timestamp, source, correlation, cause, json, version, attributes)
    draft.payload_bytes = len(json)


def check_draft(draft: Draft, ledger: Ledger) -> None:
    """Hold the payload against the schema of its type; what does not fit goes to ``native.unfit``.

    Raises :class:`InvalidEvent` where the ledger is strict and has other schemas for the type.
    """
    check = ledger._intake._check
    if check is None:
        return
    event_type, json = draft.columns[1], draft.columns[6] or b""
    if ledger.validator.fits(event_type, json):
        return
    for _ in range(_MENDS_MAX):
        misfit = ledger.validator.schemas.misfit(event_type, 1, json)
        if misfit is None or (mended := _without(json, misfit.path, event_type)) is None:
            break
        json = mended
    check(event_type, None, json)
    if json != draft.columns[6]:
        draft.columns = (*draft.columns[:6], json, *draft.columns[7:])
        draft.payload_bytes = len(json)
        draft.head = b""  # what was sealed already is sealed anew


def _without(json: bytes, path: str, event_type: str) -> bytes | None:
    """The payload with the key at the beginning of ``path`` put aside; ``None`` where there is none."""
    payload = msgspec.json.decode(json)
    key = re.split(r"[.\[]", path.removeprefix("$."), maxsplit=1)[0]
    if key not in payload or key == "native":
        return None
    unfit = payload.pop(key)
    if event_type == "execution.message" and key == "parts":
        payload["content"] = unfit  # the content of a message may be anything
        return _json(payload)
    native = payload.setdefault("native", {})
    if not isinstance(native, dict):
        return None
    native.setdefault("unfit", {})[key] = unfit
    if event_type == "execution.message" and "content" not in payload and "parts" not in payload:
        payload["role"] = "unknown"
    return _json(payload)
