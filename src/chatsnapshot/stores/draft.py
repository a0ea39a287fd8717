"""Makes drafts: commitment and canonical header of an event whose parts are validated already."""

from __future__ import annotations

import time

import msgspec

from chatsnapshot.clock import Clock, Entropy, time_text, uuid7, uuid_text
from chatsnapshot.integrity import commit, header_parts
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.stores.base import Draft

__all__ = ["LEDGER_CORRELATION", "SYSTEM_SOURCE", "ledger_draft", "make_draft"]

LEDGER_CORRELATION = "ledger"
"""Correlation of the ledger's own facts."""

SYSTEM_SOURCE = '{"origin":"system","runtime":"none"}'


def make_draft(
    event_id: bytes,
    event_type: str,
    timestamp: str,
    source_json: str,
    correlation_id: str,
    causation_id: bytes | None,
    payload: bytes,
    schema_version: int | None,
    attributes_json: str | None,
    salt: bytes,
    fresh: bool,
    filled: tuple[str, ...] = (),
    blobs: tuple[Blob, ...] = (),
) -> Draft:
    """Commit to the payload and write the header; every part is in its stored form already."""
    commitment = commit(salt, payload)
    size = len(payload)
    head, tail = header_parts(
        uuid_text(event_id),
        event_type,
        timestamp,
        source_json,
        correlation_id,
        None if causation_id is None else uuid_text(causation_id),
        schema_version,
        attributes_json,
        commitment,
        size,
    )
    return Draft(
        (
            event_id, event_type, timestamp, source_json, correlation_id,
            causation_id, payload, schema_version, attributes_json,
        ),
        (salt, commitment, size),
        head,
        tail,
        fresh,
        filled,
        blobs,
    )  # fmt: skip


def ledger_draft(
    event_type: str, payload: dict[str, object], entropy: Entropy, clock: Clock = time.time_ns
) -> Draft:
    """A draft of one of the ledger's own facts, such as ``ledger.payload_erased``."""
    return make_draft(
        uuid7()[0],
        event_type,
        time_text(clock()),
        SYSTEM_SOURCE,
        LEDGER_CORRELATION,
        None,
        msgspec.json.encode(payload),
        None,
        None,
        entropy(16),
        fresh=True,
        filled=("timestamp",),
    )
