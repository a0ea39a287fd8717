"""Makes drafts: commitment and canonical header of an event whose parts are validated already."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from chatsnapshot.clock import Clock, Entropy, time_text, uuid7_of, uuid_text
from chatsnapshot.integrity import commit, header_parts
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.stores.base import Columns, Draft, Group

__all__ = [
    "LEDGER_CORRELATION",
    "SYSTEM_SOURCE",
    "ledger_draft",
    "make_draft",
    "open_draft",
    "seal",
    "seal_groups",
]

LEDGER_CORRELATION = "ledger"
"""Correlation of the ledger's own facts."""

SYSTEM_SOURCE = '{"origin":"system","runtime":"none"}'


def open_draft(
    columns: Columns, fresh: bool, filled: tuple[str, ...] = (), blobs: tuple[Blob, ...] = ()
) -> Draft:
    """A draft that is still to be sealed; every column is in its stored form already."""
    return Draft(columns, len(columns[6] or b""), fresh, filled, blobs)


def seal(draft: Draft, salt: bytes) -> None:
    """Commit to the payload and write the header."""
    key, event_type, timestamp, source, correlation, cause, payload, version, attributes = draft.columns
    assert payload is not None
    draft.salt = salt
    draft.commitment = commitment = commit(salt, payload)
    draft.head, draft.tail = header_parts(
        uuid_text(key),
        event_type,
        timestamp,
        source,
        correlation,
        None if cause is None else uuid_text(cause),
        version,
        attributes,
        commitment,
        draft.payload_bytes,
    )


def make_draft(
    columns: Columns, salt: bytes, fresh: bool, filled: tuple[str, ...], blobs: tuple[Blob, ...]
) -> Draft:
    """A sealed draft."""
    draft = open_draft(columns, fresh, filled, blobs)
    seal(draft, salt)
    return draft


def seal_groups(groups: Sequence[Group], entropy: Entropy) -> None:
    """Seal what is not sealed yet, in order, each with 16 bytes of its own."""
    waiting = [draft for group in groups for draft in group.drafts if not draft.head]
    noise = entropy(16 * len(waiting))
    start = 0
    for draft in waiting:
        end = start + 16
        seal(draft, noise[start:end])
        start = end


def ledger_draft(
    event_type: str,
    payload: dict[str, object],
    entropy: Entropy,
    clock: Clock = time.time_ns,
    key: bytes | None = None,
) -> Draft:
    """A draft of one of the ledger's own facts, such as ``ledger.payload_erased``.

    Its id is ``key`` for a fact that can be stated once, else made of the same sources.
    """
    encoded = msgspec.json.encode(payload)
    now = clock()
    noise = entropy(26)
    made = key or uuid7_of(now, noise[16:])
    return make_draft(
        (made, event_type, time_text(now), SYSTEM_SOURCE, LEDGER_CORRELATION, None, encoded, None, None),
        noise[:16],
        key is None,
        ("timestamp",),
        (),
    )
