"""Looks at the files of an SQLite ledger, and brings a log that was left over into the database."""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw

from chatsnapshot.errors import Corrupt, NotFound
from chatsnapshot.stores import filelock
from chatsnapshot.stores.file_findings import HARMLESS, REPAIR, RESTORE, FileFinding, left_beside
from chatsnapshot.stores.filelock import file_lock
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.sqlite_copy import ledger_names
from chatsnapshot.stores.sqlite_errors import mapped
from chatsnapshot.stores.sqlite_examine import examine
from chatsnapshot.stores.sqlite_read import one_snapshot
from chatsnapshot.stores.sqlite_schema import Names, connect

__all__ = ["bring_log_over", "look_at_database"]

_JOURNAL = "-journal"
_LOG = "-wal"


def look_at_database(path: str) -> Iterator[FileFinding]:
    """What is the matter with the database and the files beside it; changes nothing.

    The database is read by SQLite alone: closing a file of its own would drop the locks of this process.
    """
    for suffix, name in ((_LOG, "log"), (_JOURNAL, "journal")):
        size = _size(path + suffix)
        if size:
            cure = HARMLESS if suffix == _LOG else REPAIR
            what = f"a {name} of {size:,} bytes; SQLite applies what is whole in it by itself and passes over the rest"
            yield FileFinding(path + suffix, what, cure)
    yield from left_beside(path)
    try:
        names = ledger_names(path)
        if not names:
            raise NotFound(f"no ledger in {path}; record something there first, or check the path")
        with at_work:
            db = connect(path, write=False)
            try:
                for name in names:
                    with one_snapshot(db):
                        for found in examine(db, Names(name)):
                            at = "" if found.position is None else f" at position {found.position}"
                            of = "" if name == "main" else f" (ledger {name})"
                            what = f"{found.what}{at}{of}: {found.expected} expected, {found.found} found"
                            yield FileFinding(path, what, RESTORE)
            finally:
                db.close()
    except apsw.Error as error:
        yield FileFinding(path, _unreadable(mapped(error, path)), RESTORE)
    except (Corrupt, UnicodeDecodeError) as error:
        yield FileFinding(path, _unreadable(error), RESTORE)


def _unreadable(error: Exception) -> str:
    return f"SQLite cannot read it: {error}"


def bring_log_over(path: str) -> str:
    """Bring the log into the database and sync it; says what was done. Raises :class:`LedgerError`."""
    lock = file_lock(os.path.realpath(path) + ".lock")
    try:
        with lock.held(filelock.PATIENCE_SECONDS), at_work:
            db = connect(path, write=True)
            try:
                busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
            finally:
                db.close()
    except apsw.Error as error:
        raise mapped(error, path) from error
    finally:
        lock.close()
    if busy:
        return "the log is in use by a reader; it comes over when the reader is done"
    return "the log is in the database, synced"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
