"""Takes what a caller says happened and makes a draft of it: defaults, validation, encoding, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.clock import (
    Clock,
    idempotent_uuid,
    new_id,
    time_text,
    timestamp_text,
    uuid7,
    uuid_bytes,
)
from chatsnapshot.envelope import (
    EventEnvelope,
    Source,
    check_event_type,
    check_payload_json,
)
from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.fields import (
    Causelike,
    attributes_text,
    cause_key,
    checked_text,
    correlation_text,
    source_text,
)
from chatsnapshot.limits import Limits
from chatsnapshot.redaction import Redacts, redactor_of
from chatsnapshot.scope import Frame
from chatsnapshot.stores.base import Draft
from chatsnapshot.stores.draft import open_draft

__all__ = ["Intake"]


_FILLED = tuple(
    tuple(name for bit, name in ((1, "causation_id"), (2, "source"), (4, "timestamp")) if number & bit)
    for number in range(8)
)
"""The names of filled-in fields by the sum of their bits."""

_OWN_TYPES = frozenset(
    {
        "ledger.payload_erased", "ledger.clock_behind", "ledger.promoted",
        "ledger.key_created", "ledger.key_revoked", "ledger.access_refused", "ledger.entries_read",
    }
)  # fmt: skip
"""Facts that verification, copies and auditors rely on: only the ledger and its service state them."""

Check = Callable[[str, int | None, bytes], None]
"""Looks at event type, schema version (``None`` for 1) and payload as it will be stored; raises to refuse it."""

_ORIGIN_BY_DOMAIN = {"execution": "agent", "ui": "ui", "integration": "integration"}
_KEPT = 8_192


class Intake:
    """Makes drafts for one ledger. Safe for threads: its caches only ever gain equal values."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        source: Source | Mapping[str, Any] | None,
        stored_blob: Callable[[bytes], bytes | None],
        redactor: Redacts | None = None,
        check: Check | None = None,
    ) -> None:
        self.clock = clock
        self.limits = limits
        self._stored_blob = stored_blob
        self._redactor = redactor
        self._check = check
        self._default_source = None if source is None else source_text(source, limits)
        self._types: dict[str, str] = {}
        self._correlations: dict[str, str] = {}

    def draft(
        self,
        frame: Frame | None,
        now: str | None,
        spare: list[bytes],
        event_type: str,
        payload: Any = None,
        correlation_id: object = None,
        causation_id: Causelike | None = None,
        source: Source | Mapping[str, Any] | None = None,
        timestamp: object = None,
        event_id: object = None,
        idempotency_key: object = None,
        attributes: Mapping[str, Any] | None = None,
        schema_version: int | None = None,
        strict: bool = False,
        redact: object = None,
    ) -> Draft:
        """One draft; raises :class:`InvalidEvent` or :class:`LimitExceeded`.

        ``now`` stands for a missing timestamp (``None``: ask the clock); ``spare`` is a stack of ready ids of a batch,
        and what is not used is not missed. ``redact`` is applied before the ledger's own redaction.
        """
        default_source = self._types.get(event_type) if type(event_type) is str else None
        if default_source is None:
            event_type, default_source = self._know_type(event_type)
        if correlation_id is not None:
            correlation = self._correlations.get(correlation_id) if type(correlation_id) is str else None
            if correlation is None:
                correlation = self._know_correlation(correlation_id)
        elif frame is not None and frame.correlation_id is not None:
            correlation = frame.correlation_id
        else:
            raise InvalidEvent(
                "correlation_id is missing; give the id of the conversation, workflow or run, or record inside a scope",
                path="correlation_id",
            )
        filled = 0
        cause: bytes | None = None
        if causation_id is not None:
            cause = cause_key(causation_id)
        else:
            # Also outside of a scope: the retry of an event whose cause a scope filled in is the same event.
            filled = 1
            if frame is not None:
                cause = frame.cause
        if source is not None:
            source_json = source_text(source, self.limits)
        else:
            source_json = (frame and frame.source_json) or self._default_source or default_source
            filled |= 2
        if timestamp is None:
            moment = time_text(self.clock()) if now is None else now
            filled |= 4
        else:
            moment = timestamp_text(timestamp)
        fresh = False
        if event_id is not None:
            if idempotency_key is not None:
                raise InvalidEvent("give event_id or idempotency_key, not both", path="idempotency_key")
            key = uuid_bytes(event_id)
        elif idempotency_key is not None:
            key = idempotent_uuid(
                correlation, checked_text(idempotency_key, "idempotency_key", self.limits.id_chars_max)
            )
        else:
            key = spare.pop() if spare else new_id()
            fresh = True
        encoded = jsonvalue.encode({} if payload is None else payload, limits=self.limits, strict=strict)
        json, blobs = encoded.json, encoded.blobs
        version = None if schema_version is None else _version(schema_version)
        attributes_json = None if attributes is None else attributes_text(attributes, self.limits)
        if redact is not None or self._redactor is not None:
            for redactor in (redactor_of(redact), self._redactor):
                if redactor is not None:
                    json, blobs, attributes_json, source_json = redactor.apply(
                        event_type, correlation, json, blobs, attributes_json, source_json, self.limits
                    )
        if self._check is not None:
            self._check(event_type, version, json)
        return Draft(
            (key, event_type, moment, source_json, correlation, cause, json, version, attributes_json),
            len(json),
            fresh,
            _FILLED[filled],
            blobs,
        )

    def batch(self, frame: Frame | None, events: Sequence[EventEnvelope | Mapping[str, Any]]) -> list[Draft]:
        """Drafts of a batch; what the ledger fills in as timestamp is the moment of the call, for all of them.

        Raises :class:`InvalidEvent` naming the event by its index, and :class:`LimitExceeded`.
        """
        count, limits = len(events), self.limits
        if count > limits.batch_events_max:
            raise LimitExceeded("batch_events_max", limits.batch_events_max, count, "record several batches")
        now = time_text(self.clock())
        spare = uuid7(count) if count > 1 else []
        spare.reverse()
        draft = self.draft
        drafts: list[Draft] = []
        for event in events:
            try:
                if type(event) is EventEnvelope:
                    drafts.append(self.redraft(event))
                else:
                    drafts.append(draft(frame, now, spare, **event))  # type: ignore[arg-type]
            except (InvalidEvent, TypeError) as error:
                raise _in_batch(error, len(drafts), event) from None
        size = sum([made.payload_bytes for made in drafts])
        if size > limits.batch_bytes_max:
            raise LimitExceeded("batch_bytes_max", limits.batch_bytes_max, size, "record several batches")
        return drafts

    def redraft(self, envelope: EventEnvelope, redact: object = None) -> Draft:
        """A draft of a complete envelope; its payload is stored as it is, ``$`` tags included.

        ``redact`` is applied before the ledger's own redaction.
        """
        payload = envelope.payload_json
        if len(payload) > self.limits.payload_bytes_max:
            raise LimitExceeded(
                "payload_bytes_max",
                self.limits.payload_bytes_max,
                len(payload),
                "record it with record(payload=...)",
            )
        check_payload_json(payload)
        event_type = _usable_type(envelope.event_type)
        source_json = source_text(envelope.source, self.limits)
        correlation = correlation_text(envelope.correlation_id, self.limits)
        version = _version(envelope.schema_version)
        attributes_json = attributes_text(_attributes_of(envelope), self.limits)
        blobs = self._blobs_of(envelope) if b"$blob" in payload else ()
        if redact is not None or self._redactor is not None:
            for redactor in (redactor_of(redact), self._redactor):
                if redactor is not None:
                    payload, blobs, attributes_json, source_json = redactor.apply(
                        event_type, correlation, payload, blobs, attributes_json, source_json, self.limits
                    )
        if self._check is not None:
            self._check(event_type, version, payload)
        return open_draft(
            (
                uuid_bytes(envelope.event_id),
                event_type,
                timestamp_text(envelope.timestamp),
                source_json,
                correlation,
                None if envelope.causation_id is None else uuid_bytes(envelope.causation_id, "causation_id"),
                payload,
                version,
                attributes_json,
            ),
            False,
            envelope.filled,
            blobs,
        )

    def _blobs_of(self, envelope: EventEnvelope) -> tuple[jsonvalue.Blob, ...]:
        """The blobs that a complete envelope names: carried by it, or in this ledger already."""
        carried = {blob.digest: blob for blob in envelope.blobs}
        found: list[jsonvalue.Blob] = []
        for digest in jsonvalue.blob_digests(envelope.payload_json):
            blob = carried.get(digest)
            if blob is None:
                data = self._stored_blob(digest)
                if data is None:
                    raise InvalidEvent(
                        f"the envelope names blob sha256:{digest.hex()}, which is neither with it nor in this ledger; "
                        "record the value itself with record(payload=entry.value())",
                        path="payload",
                    )
                blob = jsonvalue.Blob(digest, data, "application/octet-stream")
            elif sha256(blob.data).digest() != digest:
                raise InvalidEvent(f"blob sha256:{digest.hex()} does not hash to its name", path="payload")
            found.append(blob)
        return tuple(found)

    def _know_type(self, event_type: object) -> tuple[str, str]:
        """Check a type once; gives it as plain text, and the source that stands for its domain."""
        known = _usable_type(event_type)
        origin = _ORIGIN_BY_DOMAIN.get(known.partition(".")[0], "system")
        source = f'{{"origin":"{origin}","runtime":"none"}}'
        if len(self._types) >= _KEPT:
            self._types.clear()
        self._types[known] = source
        return known, source

    def _know_correlation(self, correlation_id: object) -> str:
        text = correlation_text(correlation_id, self.limits)
        if type(correlation_id) is str:
            if len(self._correlations) >= _KEPT:
                self._correlations.clear()
            self._correlations[correlation_id] = text
        return text


def _usable_type(event_type: object) -> str:
    """An event type that a caller may record."""
    known = check_event_type(event_type)
    if known in _OWN_TYPES:
        raise InvalidEvent(
            f"{known} is recorded by the ledger itself; use erase() or chatsnapshot promote, or a type of your own",
            path="event_type",
        )
    return known


def _attributes_of(envelope: EventEnvelope) -> Any:
    try:
        return envelope.attributes
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidEvent(f"attributes are no JSON object: {error}", path="attributes") from None


def _version(version: object) -> int | None:
    """A schema version as it is stored: ``None`` for 1."""
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= 2**31 - 1:
        raise InvalidEvent(
            f"schema_version is a whole number from 1 on, not {version!r:.80}", path="schema_version"
        )
    return None if version == 1 else version


_ARGUMENTS = frozenset(
    {
        "event_type", "payload", "correlation_id", "causation_id", "source", "timestamp", "event_id",
        "idempotency_key", "attributes", "schema_version", "strict", "redact",
    }
)  # fmt: skip


def _in_batch(error: Exception, index: int, event: object) -> Exception:
    """What was wrong with one event of a batch, naming which."""
    where = f"event {index} of the batch"
    if isinstance(error, InvalidEvent):
        return InvalidEvent(f"{where}: {error}", path=error.path)
    if not isinstance(event, Mapping):
        return InvalidEvent(f"{where} must be a mapping or an EventEnvelope, not {type(event).__name__}")
    unknown = sorted(str(key) for key in event.keys() - _ARGUMENTS)
    if unknown:
        return InvalidEvent(f"{where}: {unknown[0]!r} is no argument of record()", path=unknown[0])
    if "event_type" not in event:
        return InvalidEvent(f"{where}: event_type is missing", path="event_type")
    return error
