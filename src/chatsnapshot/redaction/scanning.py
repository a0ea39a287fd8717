"""Looks for secrets in events that are stored already; tells where, never what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.jsonvalue import Blob, blob_digests
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.redaction.base import Redactor
from chatsnapshot.redaction.walk import At

__all__ = ["Finding", "path_text", "scan"]


class Finding(msgspec.Struct, frozen=True):
    """One secret in a ledger: the entry, the path inside it, and the kind.

    ``shown`` is up to four characters of a prefix that every key of that kind has, else empty.
    """

    position: int
    event_id: str
    event_type: str
    correlation_id: str
    path: str
    kind: str
    shown: str


def scan(entries: Iterable[LedgerEntry], redactor: Redactor, limits: Limits = DEFAULTS) -> Iterator[Finding]:
    """What the redactor would take out of entries that were read from a ledger, their blobs included.

    Erased payloads and blobs that are gone hold nothing. Raises :class:`InvalidEvent` for patterns that take too long.
    """
    for entry in entries:
        payload = entry.payload_json or b"{}"
        try:
            places = redactor.places(
                payload, _blobs(entry, payload), entry.attributes_json, entry.source_json, limits
            )
        except TimeoutError:
            raise InvalidEvent(
                f"the patterns took over {limits.redaction_ms_max} ms at position {entry.position}; "
                "find the one that backtracks and simplify it",
                path="redact",
            ) from None
        for at, kind, shown in places:
            yield Finding(
                entry.position,
                entry.event_id,
                entry.event_type,
                entry.correlation_id,
                path_text(at),
                kind,
                shown,
            )


def path_text(at: At) -> str:
    """A path as it is read by people: ``payload.items[3].token``."""
    parts = [f"[{step}]" if type(step) is int else f".{step}" for step in at]
    return "".join(parts).removeprefix(".")


def _blobs(entry: LedgerEntry, payload: bytes) -> tuple[Blob, ...]:
    """The blobs that a payload names, as far as they are there."""
    if entry.fetch is None or b"$blob" not in payload:
        return ()
    found: list[Blob] = []
    for digest in blob_digests(payload):
        try:
            data = entry.fetch({"$blob": f"sha256:{digest.hex()}"})
        except NotFound:
            continue
        found.append(Blob(digest, data, ""))
    return tuple(found)
