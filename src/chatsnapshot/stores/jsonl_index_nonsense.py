"""Tells a damaged index file from an error of ours, when what was read from it made no sense."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

__all__ = ["nonsense_is_damage"]

_NONSENSE = (TypeError, ValueError, LookupError, OverflowError, MemoryError)
"""What a value of another type or size than any that was written leads to."""

_BYTES_MAX = 1 << 48
"""No segment is as long as this."""


@contextmanager
def nonsense_is_damage(db: apsw.Connection) -> Iterator[None]:
    """Raises :class:`apsw.CorruptError` for an error inside that comes of damage to the file of this index.

    SQLite checks the structure of what it reads, not the values: a changed bit makes NULL, text or a blob of a number.
    The file is looked through only when something went wrong; other errors are raised as they are.
    """
    try:
        yield
    except (*_NONSENSE, OSError) as error:
        if (
            isinstance(error, OSError) and error.errno != errno.EINVAL
        ):  # that of a place before or beyond every file
            raise
        fault = _fault(db, error)
        if fault is None:
            raise
        raise apsw.CorruptError(fault) from error


def _fault(db: apsw.Connection, error: Exception) -> str | None:
    if isinstance(error, UnicodeDecodeError):  # lines are decoded where they are read, and are bad lines then
        return f"text that is none ({error.reason})"
    try:
        found = db.execute("PRAGMA integrity_check(1)").get
        if found != "ok":
            return str(found)
        position = db.execute(
            "SELECT position FROM entry WHERE offset NOT BETWEEN 0 AND ?1 OR length NOT BETWEEN 1 AND ?1 LIMIT 1",
            (_BYTES_MAX,),
        ).get
    except (apsw.Error, UnicodeDecodeError) as other:
        return str(other)
    return None if position is None else f"position {position} is nowhere in a file"
