"""Errors of the index beside the lines, and of payloads that do not go, as errors of ours."""

from __future__ import annotations

import apsw

from chatsnapshot.errors import Corrupt, LedgerError, StoreFull, StoreUnavailable

__all__ = ["erasing_error", "index_error"]


def index_error(error: apsw.Error, path: str) -> LedgerError:
    """An error of the index before anything was written; the lines are not touched by it."""
    if isinstance(error, apsw.FullError):
        return StoreFull(
            f"no space left for the index of {path} ({error}); nothing was stored, free some space"
        )
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(
            f"the index {path}.index.db is damaged ({error}); delete it, it is made again from the lines"
        )
    return StoreUnavailable(
        f"the index {path}.index.db cannot be used ({type(error).__name__}: {error}); nothing was stored, try again"
    )


def erasing_error(error: OSError, path: str) -> StoreUnavailable:
    """The error of ours when the record of an erasure is stored, and payloads are still on the disk."""
    return StoreUnavailable(
        f"the record of an erasure is stored in {path}, and not all its payloads are overwritten on the disk ({error}); "
        "whoever writes next goes on with it before anything else"
    )
