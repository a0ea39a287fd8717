"""Turns apsw errors into the errors of ChatSnapshot, at one place."""

from __future__ import annotations

import apsw

from chatsnapshot.errors import Corrupt, LedgerError, ReadOnly, StoreFull, StoreUnavailable
from chatsnapshot.stores.jsonl_file import FULL

__all__ = ["is_full", "is_unwritten", "mapped"]


def is_unwritten(error: apsw.Error) -> bool:
    """Whether a write failed: no space, a quota, a limit on the size of files, the device."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE


def is_full(error: apsw.Error, db: apsw.Connection | None) -> bool:
    """Whether a write to ``db`` failed for want of space, quota or size; not when the device failed.

    SQLite says "full" for ENOSPC alone; what it was otherwise, the connection knows.
    """
    if isinstance(error, apsw.FullError):
        return True
    return is_unwritten(error) and db is not None and db.system_errno in FULL


def mapped(error: apsw.Error, path: str, db: apsw.Connection | None = None) -> LedgerError:
    """The error of ours for one that was raised by ``db`` before a commit: nothing was stored."""
    text = str(error)
    if is_full(error, db):
        return StoreFull(f"no space left to write to {path} ({text}); nothing was stored, free some space")
    if is_unwritten(error):
        return StoreUnavailable(
            f"a write to {path} failed ({text}); nothing was stored, look at the disk and its logs and try again"
        )
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"{path} is damaged ({text}); keep a copy of it and run chatsnapshot verify")
    if isinstance(error, (apsw.ReadOnlyError, apsw.AuthError, apsw.PermissionsError)):
        return ReadOnly(
            f"{path} cannot be written ({text}); check its permissions or open with read_only=True"
        )
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreUnavailable(
            f"{path} stayed locked by another program ({text}); nothing was stored, try again"
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(
            f"{path} cannot be opened ({text}); check that the folder exists and is writable"
        )
    return StoreUnavailable(f"{path}: {type(error).__name__}: {text}; nothing was stored")
