"""One finding of the doctor: what was looked at, how grave it is, what was found and what to do."""

from __future__ import annotations

import msgspec

__all__ = ["NOTE", "OK", "PROBLEM", "WARNING", "Finding", "note", "ok", "problem", "warning"]

OK = "ok"
NOTE = "note"
WARNING = "warning"
PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """``grade`` is ok, note, warning or problem; ``found`` is one sentence; ``to_do`` is empty where all is well."""

    check: str
    grade: str
    found: str
    to_do: str = ""


def ok(check: str, found: str) -> Finding:
    """As it should be."""
    return Finding(check, OK, found)


def note(check: str, found: str, to_do: str = "") -> Finding:
    """Worth knowing; nothing is wrong."""
    return Finding(check, NOTE, found, to_do)


def warning(check: str, found: str, to_do: str) -> Finding:
    """Works, and may not go well."""
    return Finding(check, WARNING, found, to_do)


def problem(check: str, found: str, to_do: str) -> Finding:
    """A promise does not hold, or recording fails, or will soon."""
    return Finding(check, PROBLEM, found, to_do)
