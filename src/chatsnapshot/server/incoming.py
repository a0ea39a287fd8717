"""Takes drafts from the wire of the Store contract: checked as any event, sealed here with the salt that came."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import ORIGINS, EventEnvelope, source_of
from chatsnapshot.errors import InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.fields import sequence_expected
from chatsnapshot.integrity import is_canonical_object
from chatsnapshot.server.problems import Problem
from chatsnapshot.stores.base import Draft, Group
from chatsnapshot.stores.draft import LEDGER_CORRELATION, SYSTEM_SOURCE, make_draft, seal
from chatsnapshot.stores.http.wire import Append, Erase, WireDraft, WireGroup, blobs_of

if TYPE_CHECKING:
    from chatsnapshot.server.endpoints import Call

__all__ = ["erasure_of", "groups_of", "promotes"]

_FILLED = frozenset({"timestamp", "source", "causation_id"})
_PROMOTED = "ledger.promoted"
_SOURCE_CHARS_MAX = 4_096
_ERASED = "ledger.payload_erased"


def groups_of(call: Call, request: Append) -> list[Group | LedgerError]:
    """The groups as they are to be stored; one that cannot be has its error in its place."""
    return [_group(call, given) for given in request.groups]


def promotes(request: Append) -> bool:
    """Whether all that is asked for is to make a ledger of its own of a copy, which takes nothing else."""
    types = {draft.event_type for group in request.groups for draft in group.drafts}
    return types == {_PROMOTED}


def _group(call: Call, given: WireGroup) -> Group | LedgerError:
    limits = call.ledger.limits
    try:
        if len(given.drafts) > limits.batch_events_max:
            raise LimitExceeded(
                "batch_events_max", limits.batch_events_max, len(given.drafts), "record several batches"
            )
        size = sum(len(one.payload) for one in given.drafts)
        if size > limits.batch_bytes_max:
            raise LimitExceeded("batch_bytes_max", limits.batch_bytes_max, size, "record several batches")
        return Group([_draft(call, one) for one in given.drafts], sequence_expected(given.expected_sequence))
    except (InvalidEvent, LimitExceeded) as error:
        return error


def _draft(call: Call, given: WireDraft) -> Draft:
    if given.event_type == _PROMOTED:
        return _own(call, given, _PROMOTED)
    _check_shape(given)
    for blob in blobs_of(given):
        if len(blob.data) > call.ledger.limits.blob_bytes_max:
            raise LimitExceeded(
                "blob_bytes_max", call.ledger.limits.blob_bytes_max, len(blob.data), "keep it outside"
            )
    envelope = EventEnvelope(
        event_id=uuid_text(given.event_id),
        event_type=given.event_type,
        timestamp=given.timestamp,
        source=source_of(given.source),
        correlation_id=given.correlation_id,
        causation_id=None if given.causation_id is None else uuid_text(given.causation_id),
        payload_json=given.payload,
        schema_version=1 if given.schema_version is None else given.schema_version,
        attributes_json=given.attributes,
        filled=given.filled,
        blobs=blobs_of(given),
    )
    draft = call.ledger._intake.redraft(envelope, call.service.settings.redact)
    seal(draft, given.salt)
    return draft


def _check_shape(given: WireDraft) -> None:
    """What an envelope made in this process has by itself."""
    if len(given.event_id) != 16:
        raise InvalidEvent("event_id is 16 bytes", path="event_id")
    if given.causation_id is not None and len(given.causation_id) != 16:
        raise InvalidEvent("causation_id is 16 bytes", path="causation_id")
    if len(given.salt) != 16:
        raise InvalidEvent("salt is 16 bytes", path="salt")
    if not _FILLED.issuperset(given.filled):
        raise InvalidEvent(f"only {', '.join(sorted(_FILLED))} can be filled in", path="filled")
    if given.attributes is not None and not is_canonical_object(given.attributes):
        raise InvalidEvent("attributes is no JSON object in canonical form", path="attributes")
    wrong = _source_fault(given.source)
    if wrong:
        raise InvalidEvent(wrong, path="source")


@lru_cache(4_096)
def _source_fault(text: str) -> str | None:
    """What is wrong with a source; few differ in one ledger, so what was found is kept."""
    if len(text) > _SOURCE_CHARS_MAX:
        return f"source is longer than {_SOURCE_CHARS_MAX:,} characters"
    if not is_canonical_object(text):
        return "source is no JSON object in canonical form"
    try:
        source = source_of(text)
    except (TypeError, msgspec.DecodeError):
        return "source has origin, runtime and name"
    if not all(isinstance(one, str) for one in (source.origin, source.runtime, source.name or "")):
        return "source.origin, runtime and name are text"
    if source.origin not in ORIGINS:
        return f"source.origin is one of {', '.join(ORIGINS)}"
    return None


def erasure_of(call: Call, request: Erase) -> Draft:
    """The record of an erasure, which names just the positions that are erased."""
    record = _own(call, request.record, _ERASED)
    try:
        named = msgspec.json.decode(request.record.payload, type=dict[str, object]).get("positions")
    except msgspec.DecodeError:
        named = None
    if named != request.positions:
        raise InvalidEvent("the record names other positions than are to be erased", path="positions")
    head = call.ledger.head
    if not request.positions or any(not 1 <= one <= head for one in request.positions):
        raise InvalidEvent(f"positions are from 1 to {head}", path="positions")
    for position in request.positions:
        found = next(call.ledger.read(after=position - 1, until=position))
        if found.event_type.startswith("ledger."):
            raise InvalidEvent(f"position {position} is a record of the ledger itself and stays")
    return record


def _own(call: Call, given: WireDraft, event_type: str) -> Draft:
    """A fact of the ledger itself, which only ``admin`` may state; its source and correlation are not for choice."""
    if not call.access.allows("admin", call.name):
        raise Problem(403, "scope", f"{event_type} needs a key with the scope admin", scope="admin")
    if (given.event_type, given.correlation_id, given.source) != (
        event_type, LEDGER_CORRELATION, SYSTEM_SOURCE,
    ):  # fmt: skip
        raise InvalidEvent(f"the record is no {event_type} of the ledger", path="event_type")
    _check_shape(given)
    envelope = EventEnvelope(
        event_id=uuid_text(given.event_id),
        event_type="ledger.checked",  # the type itself is refused from anybody else
        timestamp=given.timestamp,
        source=source_of(given.source),
        correlation_id=given.correlation_id,
        payload_json=given.payload,
    )
    columns = call.ledger._intake.redraft(envelope).columns
    return make_draft((columns[0], event_type, *columns[2:]), given.salt, False, given.filled, ())
