"""Checks single entries before anything is restored from them: leaf and payload follow from the stored columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, LedgerError, NotFound
from chatsnapshot.integrity import commit, header_bytes, leaf_hash

__all__ = ["check", "checked_payload"]


def check(entry: LedgerEntry) -> None:
    """Raise :class:`Corrupt` with the position when the columns do not lead to the leaf and the commitment."""
    try:
        header = header_bytes(
            uuid_text(entry.event_key),
            entry.event_type,
            entry.timestamp,
            entry.source_json,
            entry.correlation_id,
            entry.causation_id,
            entry.version,
            entry.attributes_json,
            entry.commitment,
            entry.payload_bytes,
            entry.recorded_at,
        )
        sound = leaf_hash(header) == entry.leaf
        if sound and entry.payload_json is not None:
            sound = (
                entry.salt is not None
                and len(entry.payload_json) == entry.payload_bytes
                and commit(entry.salt, entry.payload_json) == entry.commitment
            )
    except (LedgerError, ValueError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise _changed(entry, "does not match its hash")


def checked_payload(entry: LedgerEntry) -> tuple[dict[str, Any], dict[str, Any]]:
    """The payload of a checked entry twice: as stored JSON values, and with its Python values back.

    Raises :class:`Corrupt` with the position for an entry or blob that was changed, or a payload that is no object.
    """
    check(entry)
    if entry.payload_json is None:
        raise NotFound(
            f"the payload at position {entry.position} was erased, so chat {entry.correlation_id!r} cannot be read"
        )

    def fetch(reference: Mapping[str, Any]) -> bytes:
        if entry.fetch is None:
            raise NotFound(f"the blobs of the entry at position {entry.position} cannot be reached")
        data = entry.fetch(reference)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != reference.get("$blob"):
            raise _changed(entry, "names a blob that does not match its hash")
        return data

    raw = entry.payload
    if isinstance(raw, dict) and raw.get("media_type") == "application/json" and "$blob" in raw:
        raw = msgspec.json.decode(fetch(raw))
    value = jsonvalue.decode(entry.payload_json, blob=fetch)
    if not isinstance(raw, dict) or not isinstance(value, dict):
        raise _changed(entry, "is no chat that was saved")
    return raw, value


def _changed(entry: LedgerEntry, what: str) -> Corrupt:
    return Corrupt(
        f"the entry at position {entry.position} (chat {entry.correlation_id!r}) {what}, so nothing was restored from "
        "it; run: chatsnapshot verify",
        position=entry.position,
    )
