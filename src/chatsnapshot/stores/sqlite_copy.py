"""Copies an SQLite ledger out of one snapshot while others write to it, and puts a copy in the place of another.

SQLite's backup interface copies pages as they are, which is fast, shows progress and carries what ``verify`` must find;
``VACUUM INTO`` would build every index anew. Left to itself the interface begins again whenever another process writes;
inside a read transaction, as here, all steps copy the one snapshot, and writers go on in the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import apsw

from chatsnapshot.errors import LedgerError, StoreFull, StoreUnavailable
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.placing import exists, place_new, second_name
from chatsnapshot.stores.sqlite_errors import is_full, is_unwritten, mapped
from chatsnapshot.stores.sqlite_read import one_snapshot
from chatsnapshot.stores.sqlite_schema import connect

__all__ = ["copy_database", "ledger_names", "place_database"]

_STEP_PAGES = 1_000
_IN_USE_MS = 1_000
_LOGS = ("-wal", "-journal")
"""SQLite would apply these to whatever file lies beside them."""


def ledger_names(path: str) -> list[str]:
    """The names of the ledgers in a file; none in a file that no ledger was ever made in."""
    try:
        with at_work:
            db = connect(path, write=False)
            try:
                if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").get:
                    return []
                return [name for (name,) in db.execute("SELECT name FROM ledger ORDER BY name")]
            finally:
                db.close()
    except apsw.Error as error:
        raise mapped(error, path) from error


def copy_database(path: str, target: str, progress: Callable[[int, int], None]) -> None:
    """Copy the database as it is at one moment into the new file ``target``; not synced.

    ``progress`` gets bytes done and bytes in all. Raises :class:`StoreFull` when the target's disk is full, and errors
    of reading.
    """
    try:
        with at_work:
            source = connect(path, write=False)
        try:
            with one_snapshot(source):
                _copy(source, target, progress)
        finally:
            with at_work:
                source.close()
    except apsw.Error as error:
        raise mapped(error, path) from error


def _copy(source: apsw.Connection, target: str, progress: Callable[[int, int], None]) -> None:
    page_bytes = source.execute("PRAGMA page_size").get
    with at_work:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # from here on the snapshot is fixed
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        goal = apsw.Connection(target, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
    try:
        # Nobody else has the file, and the caller syncs it once.
        goal.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE")
        with goal.backup("main", source, "main") as copying:
            while not copying.done:
                with at_work:
                    copying.step(_STEP_PAGES)
                whole = copying.page_count
                progress((whole - copying.remaining) * page_bytes, whole * page_bytes)
    except apsw.Error as error:
        if not is_unwritten(error):
            raise
        if is_full(error, goal) or is_full(error, source):
            raise StoreFull(
                f"no space left to copy to {target} ({error}); free some space there, the ledger is as it was"
            ) from error
        raise StoreUnavailable(
            f"{target} cannot be written ({error}); look at that disk and its logs, the ledger is as it was"
        ) from error
    finally:
        with at_work:
            goal.close()


def place_database(made: str, target: str, *, force: bool, aside: str, keep: bool) -> str | None:
    """Put the finished file ``made`` at ``target`` in one step; gives where what was there is kept, if anywhere.

    Without ``force`` nothing is replaced. With it, what is there gets the name ``aside`` when it is to be kept, and is
    gone otherwise. Raises :class:`StoreUnavailable` while somebody uses the file that is to be replaced, ``OSError``.
    """
    if os.path.lexists(target) and (not force or os.path.isdir(target)):
        raise exists(target)
    logs = [target + side for side in _LOGS if _holds_something(target + side)]
    if not force:
        if logs:
            raise LedgerError(
                f"{logs[0]} is the log of another file, and SQLite would apply it to the new one; move it away, or give "
                "--force to have it set aside"
            )
        place_new(made, target)
        return None
    # Second names first: SQLite removes a log that it cannot make anything of, and somebody else may.
    saved = {log: aside + log[len(target) :] for log in logs}
    for log, name in saved.items():
        second_name(log, name)
    kept = None
    if os.path.exists(target):
        if _brought_to_rest(target, saved.values()):
            saved.clear()
        if keep:
            second_name(target, aside)
            kept = aside
    for side in ("-shm", *_LOGS):
        _remove(target + side)
    os.replace(made, target)
    return kept or next(iter(saved.values()), None)


def _brought_to_rest(target: str, saved: Iterable[str]) -> bool:
    """Bring the log of a database into it and remove the log; false when it is none that SQLite can read.

    Leaving the write-ahead log works only for a connection that is the only one. The ``saved`` names of the log are
    removed when they are not needed: when it is in the database, and when nothing is to happen.
    """
    with at_work:
        try:
            db = apsw.Connection(target, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
        except apsw.CantOpenError:
            return False
        try:
            db.set_busy_timeout(_IN_USE_MS)
            if db.execute("PRAGMA journal_mode=DELETE").get != "delete":
                raise apsw.BusyError("another connection is open")
        except (apsw.NotADBError, apsw.CorruptError, apsw.IOError):
            return False
        except apsw.Error as error:
            for name in saved:
                _remove(name)
            if isinstance(error, (apsw.BusyError, apsw.LockedError)):
                raise StoreUnavailable(
                    f"{target} is in use by another process, or another part of this one; close it there, then replace it"
                ) from None
            raise mapped(error, target) from error
        finally:
            db.close()
    for name in saved:
        _remove(name)
    return True


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _holds_something(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
