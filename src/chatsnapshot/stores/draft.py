"""Makes drafts: commitment and canonical header of an event whose parts are validated already."""

from __future__ import annotations

import time

import msgspec

from chatsnapshot.clock import Clock, Entropy, time_text, uuid7, uuid_text
from chatsnapshot.integrity import commit, header_parts
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.stores.base import Columns, Draft

__all__ = ["LEDGER_CORRELATION", "SYSTEM_SOURCE", "ledger_draft", "make_draft"]

LEDGER_CORRELATION = "ledger"
"""Correlation of the ledger's own facts."""

SYSTEM_SOURCE = '{"origin":"system","runtime":"none"}'


def make_draft(
    columns: Columns, salt: bytes, fresh: bool, filled: tuple[str, ...], blobs: tuple[Blob, ...]
) -> Draft:
    """Commit to the payload and write the header; every column is in its stored form already."""
    key, event_type, timestamp, source, correlation, cause, payload, version, attributes = columns
    assert payload is not None
    size = len(payload)
    commitment = commit(salt, payload)
    head, tail = header_parts(
        uuid_text(key),
        event_type,
        timestamp,
        source,
        correlation,
        None if cause is None else uuid_text(cause),
        version,
        attributes,
        commitment,
        size,
    )
    return Draft(columns, (salt, commitment, size), head, tail, fresh, filled, blobs)


def ledger_draft(
    event_type: str, payload: dict[str, object], entropy: Entropy, clock: Clock = time.time_ns
) -> Draft:
    """A draft of one of the ledger's own facts, such as ``ledger.payload_erased``."""
    encoded = msgspec.json.encode(payload)
    moment = time_text(clock())
    return make_draft(
        (uuid7()[0], event_type, moment, SYSTEM_SOURCE, LEDGER_CORRELATION, None, encoded, None, None),
        entropy(16),
        True,
        ("timestamp",),
        (),
    )
