"""What ``verify`` answers: the report, its problems, and in words what is not proven."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chatsnapshot.misfits import Misfits

__all__ = ["Problem", "Report", "noted_facts", "summary_text", "unproven_facts"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is not as it must be; ``position`` is ``None`` when it concerns the whole."""

    position: int | None
    what: str
    expected: str
    found: str
    code: int = 3
    """Exit code of ``chatsnapshot verify``: 3 corrupt, 4 truncated, 7 payload missing without record."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verify`` found.

    ``level`` is "A1", "A0" or "" (not even the rows are sound, or nothing to verify). ``unproven`` says what no check of
    this level can prove. ``notes`` are no faults: dangling causes, tool calls without result, erased payloads.
    """

    ok: bool
    level: str
    head: int
    root: str
    entries: int
    payload_bytes: int
    erased: int
    blobs: int
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    unproven: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dangling_causes: tuple[int, ...] = ()
    open_tool_calls: tuple[int, ...] = ()
    summary: str = ""
    misfits: Misfits | None = None
    """Payloads that do not fit their schemas, where that was asked for; no fault of the ledger."""


def unproven_facts(size: int, erased: int) -> tuple[str, ...]:
    """What no check of this level can prove."""
    if not size:
        return ()
    words = [
        "that nobody rewrote the whole ledger, or cut its end: keep a root elsewhere and compare (level A2 and up)",
        "that what the producers said is true, and that their clocks were right",
    ]
    if erased:
        words.append(f"what the {erased:,} erased payloads said: only that they were committed to")
    return tuple(words)


def summary_text(size: int, count: int, problems: Sequence[Problem]) -> str:
    """The report in one sentence: of a ledger of ``size`` entries with ``count`` problems."""
    if not size:
        return f"{count} problems in an empty ledger" if count else "nothing to verify: the ledger is empty"
    if not count:
        return f"{size:,} entries are sound and hash to the root of the head (level A1)"
    where = "" if problems[0].position is None else f" at position {problems[0].position}"
    return f"{count:,} problems; the first{where}: {problems[0].what}"


def noted_facts(dangling: Sequence[int], calls: Sequence[int], erased: int) -> tuple[str, ...]:
    """What is no fault and worth knowing: dangling causes, tool calls without result, erased payloads."""
    notes: list[str] = []
    if dangling:
        notes.append(
            f"{len(dangling):,} causes are not in this ledger, first named at position {dangling[0]}"
        )
    if calls:
        said = "tool call has" if len(calls) == 1 else "tool calls have"
        notes.append(f"{len(calls):,} {said} no result, the first at position {calls[0]}")
    if erased:
        notes.append(f"{erased:,} payloads were erased, each with its record")
    return tuple(notes)
