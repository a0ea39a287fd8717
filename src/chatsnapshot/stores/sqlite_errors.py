"""Turns apsw errors into the errors of ChatSnapshot, at one place."""

from __future__ import annotations

import apsw

from chatsnapshot.errors import Corrupt, LedgerError, ReadOnly, StoreFull, StoreUnavailable

__all__ = ["is_unwritten", "mapped"]


def is_unwritten(error: apsw.Error) -> bool:
    """Whether a write failed: no space, a quota, a limit on the size of files, the device."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE


def mapped(error: apsw.Error, path: str) -> LedgerError:
    """The error of ours for one that was raised before a commit: nothing was stored."""
    text = str(error)
    if is_unwritten(error):
        return StoreFull(f"no space left to write to {path} ({text}); nothing was stored, free some space")
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
