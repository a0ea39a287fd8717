"""The machine under a ledger: clock, free space, limits on files, versions, what falsifies syncs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import apsw

from chatsnapshot.clock import parse_time
from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = [
    "Space",
    "judge_clock",
    "judge_space",
    "judge_sqlite",
    "judge_sync",
    "judge_system",
    "loaded_libraries",
    "now",
    "space_at",
]

CLOCK_BEHIND_SECONDS = 5
SPACE_PROBLEM_BYTES = 16 * 1024 * 1024
SPACE_WARNING_BYTES = 256 * 1024 * 1024
EVENT_BYTES_ASSUMED = 1024
"""Bytes an event, for a ledger that has too few events to tell."""

EVENTS_THAT_TELL = 100

_SYNC_FALSIFIERS = ("libeatmydata", "nosync")


def judge_clock(recorded_at: str, created_at: str, now: datetime) -> Finding:
    """The last commit beside the clock of now; times are RFC 3339, empty for an empty ledger."""
    check = "clock"
    shown = now.strftime("%Y-%m-%d %H:%M:%SZ")
    if not recorded_at and not created_at:
        return ok(check, f"it is {shown}; the ledger is empty")
    last = parse_time(recorded_at or created_at)
    ahead = (last - now).total_seconds()
    if ahead > CLOCK_BEHIND_SECONDS:
        return warning(
            check,
            f"it is {shown}, {_span(ahead)} before the last commit: either this clock is behind or the one before was "
            "ahead",
            "set the clock (NTP); until it has caught up, recorded_at repeats the last time, and order is not affected",
        )
    return ok(check, f"it is {shown}, {_span(max(-ahead, 0))} after the last commit")


def _span(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))


class Space(NamedTuple):
    """Room on a file system, for this account: bytes and files (``None`` where there is no limit on them)."""

    bytes: int
    files: int | None


def space_at(folder: str) -> Space | None:
    """The room in a folder, or ``None`` where the system does not say."""
    try:
        found = os.statvfs(folder)
    except (AttributeError, OSError):
        return None
    return Space(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def judge_space(space: Space | None, file_bytes: int, events: int) -> list[Finding]:
    """How much room there is, and how many events of the average size fit into it."""
    check = "free space"
    if space is None:
        return [note(check, "unknown: this system does not say how much is free")]
    average = file_bytes / events if events >= EVENTS_THAT_TELL else EVENT_BYTES_ASSUMED
    fits = int(space.bytes / average)
    found = f"{space.bytes / 2**20:,.0f} MiB are free: about {fits:,} events of {average:,.0f} bytes"
    to_do = (
        "make room, or move the ledger; when the disk is full, record() raises StoreFull and nothing is lost"
    )
    findings = []
    if space.bytes < SPACE_PROBLEM_BYTES:
        findings.append(problem(check, found, to_do))
    elif space.bytes < SPACE_WARNING_BYTES:
        findings.append(warning(check, found, to_do))
    else:
        findings.append(ok(check, found))
    if space.files is not None and space.files < 16:
        findings.append(
            problem(check, f"only {space.files} more files can be made here", "remove files there")
        )
    if resource is not None:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY:
            findings.append(
                warning(
                    check,
                    f"a process started from here may write no file beyond {limit:,} bytes",
                    "raise the limit (ulimit -f unlimited) where the recording process starts",
                )
            )
    return findings


def judge_sync(libraries: Iterable[str]) -> list[Finding]:
    """Libraries loaded into this process that make a sync do nothing; none is the rule."""
    for library in libraries:
        if any(name in library for name in _SYNC_FALSIFIERS):
            return [
                problem(
                    "sync",
                    f"{library} is loaded into this process and makes syncs do nothing",
                    "start processes that record without it (LD_PRELOAD)",
                )
            ]
    return []


def loaded_libraries() -> list[str]:
    """Paths of what is mapped into this process, and what is to be preloaded; empty where the system does not say."""
    found = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            found += sorted({line.rstrip("\n").split(maxsplit=5)[5] for line in lines if ".so" in line})
    except OSError:
        pass
    return found


def judge_sqlite(version: tuple[int, ...]) -> Finding:
    """The SQLite library beside what is known of its versions (sqlite.org/wal.html, section on the WAL-reset bug)."""
    text = ".".join(map(str, version))
    mended = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if mended:
        return ok("SQLite", f"SQLite {text} (apsw {apsw.apsw_version()})")
    return note(
        "SQLite",
        f"SQLite {text} can damage a file when one program checkpoints while another writes; ChatSnapshot never does "
        "both at once, other programs on the same file may",
        "upgrade apsw to one with SQLite 3.51.3 or newer; open the ledger with nothing else meanwhile",
    )


def judge_system(has_locks: bool) -> Finding:
    """Python and operating system; ``has_locks`` says whether processes can lock each other out here."""
    found = f"Python {platform.python_version()} on {platform.system()} {platform.release()} ({platform.machine()})"
    if not has_locks:
        return warning(
            "system",
            f"{found}: locks between processes are not supported here",
            "let one process record, or use Linux or macOS",
        )
    if sys.maxsize < 2**32:
        return note("system", f"{found}, 32 bit: large ledgers are slow to verify")
    return ok("system", found)


def now() -> datetime:
    """The clock of this machine."""
    return datetime.now(timezone.utc)
