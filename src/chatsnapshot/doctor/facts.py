"""What the doctor learns from a ledger itself, whatever its store."""

from __future__ import annotations

import msgspec

from chatsnapshot.doctor.finding import Finding, note, ok, warning

__all__ = ["Facts", "judge_blobs"]


class Facts(msgspec.Struct):
    """Findings of a store, and what other checks go by: events, bytes of the files, times of the ledger."""

    findings: list[Finding]
    events: int = 0
    file_bytes: int = 0
    recorded_at: str = ""
    created_at: str = ""
    beside: tuple[str, ...] = ()
    """Paths of the files that whoever records must be able to write."""


def judge_blobs(count: int, unused: int, unused_bytes: int, to_do: str) -> Finding:
    """Blobs, and those that no unerased entry names."""
    if not unused:
        return ok("blobs", f"{count:,} blobs, each named by an entry" if count else "no blobs")
    found = f"{unused:,} of {count:,} blobs ({unused_bytes:,} bytes) are named by no entry"
    if to_do:
        return note("blobs", f"{found}; they take space and do no harm", to_do)
    return warning(
        "blobs", f"{found}, which the store does not leave behind by itself", "run chatsnapshot verify"
    )
