"""Every limit, named with its unit, with its default.

Give other values with ``chatsnapshot.open(limits=Limits(payload_bytes_max=...))``. A limit that is passed raises
:class:`~chatsnapshot.errors.LimitExceeded`, which names it.
"""

from __future__ import annotations

import msgspec

__all__ = ["DEFAULTS", "Limits"]

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and counts that bound what one ledger takes and holds in memory."""

    payload_bytes_max: int = 8 * MIB
    """Stored payload bytes of one event, after blobs are split off; more becomes one JSON blob."""

    blob_bytes_max: int = 256 * MIB
    """Bytes of one blob; above that the value is cut and marked lossy with its size and digest."""

    blob_part_bytes: int = 512 * KIB
    """Size of the parts in which a blob is stored."""

    binary_inline_bytes_max: int = 32 * KIB
    """Binary values and data URIs above this size become blobs."""

    string_inline_bytes_max: int = 256 * KIB
    """Strings whose UTF-8 is above this size become blobs."""

    depth_max: int = 60
    """Nesting kept as JSON; what lies deeper becomes one ``$json`` string."""

    json_depth_max: int = 500
    """Nesting of JSON from outside (lines, envelopes, what a hook leaves); what is deeper is refused."""

    batch_events_max: int = 10_000
    """Events in one ``record_many``."""

    batch_bytes_max: int = 64 * MIB
    """Payload bytes in one ``record_many``."""

    id_chars_max: int = 256
    """Characters of an id, a name or an event type."""

    attributes_bytes_max: int = 16 * KIB
    """Canonical JSON bytes of the attributes of one event."""

    queue_events_max: int = 10_000
    """Accepted events that wait for the writer; more callers wait (back-pressure)."""

    queue_bytes_max: int = 64 * MIB
    """Payload bytes that wait for the writer."""

    group_events_max: int = 1_000
    """Events that the writer puts into one commit."""

    group_bytes_max: int = 1 * MIB
    """Payload bytes after which the writer closes a commit."""

    page_entries_max: int = 1_000
    """Entries that a reader fetches at a time; no transaction is held between pages."""

    page_bytes_max: int = 16 * MIB
    """Payload bytes after which a page ends."""

    scan_entries_max: int = 50_000
    """Entries that one filtered page looks at."""

    segment_bytes_max: int = 128 * MIB
    """Bytes of a JSONL file after which the next segment begins; a single larger commit is kept whole."""

    redaction_ms_max: int = 50
    """Milliseconds that redaction patterns of one's own may take for one event; then it counts as failed."""


DEFAULTS = Limits()
