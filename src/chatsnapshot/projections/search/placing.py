"""Where the index of a ledger is: beside it, in the user's cache for one on a server, or else in memory."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.projections.search.index import Index, connect
from chatsnapshot.stores.cachefolder import cache_folder
from chatsnapshot.stores.leaving import leave_open

__all__ = ["forget", "path_of", "with_index"]

Answer = TypeVar("Answer")

_log = logging.getLogger("chatsnapshot.search")

_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
"""Errors that say that a file of ours is no index any more; it is made again."""
_UNWRITABLE = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError, apsw.FullError)


_IN_MEMORY = "the index is in memory, for this process alone: "


def path_of(ledger: Any, *, make: bool = False) -> str | None:
    """The file of the index: ``runs.db.search``; with ``?ledger=NAME`` ``runs.db.NAME.search``; ``None`` in memory.

    Of a ledger on a server ``search.db`` in :func:`~chatsnapshot.stores.cachefolder.cache_folder`, which ``make`` makes.
    """
    place = ledger._opening.location
    if place.kind == "memory":
        return None
    if not place.path:
        folder = cache_folder(ledger.ledger_id, make=make)
        return None if folder is None else os.path.join(folder, "search.db")
    middle = "" if place.ledger in ("", "main") else f".{place.ledger}"
    return f"{os.path.realpath(place.path)}{middle}.search"


def with_index(ledger: Any, keep: bool | None, work: Callable[[Index], Answer]) -> tuple[Answer, str | None]:
    """What ``work`` makes of the index, caught up, and a note when the index is kept nowhere.

    ``keep``: whether a file may be written, by default unless it would stand beside a ledger that was opened read-only;
    a file that is no sound index is made again. Raises :class:`StoreUnavailable` when another process holds it for over
    30 seconds.
    """
    beside = bool(ledger._opening.location.path)
    if keep is None:
        keep = not (beside and ledger.read_only)
    path = path_of(ledger, make=keep)
    if path is None:
        in_cache = not beside and ledger._opening.location.kind != "memory"
        why = "the user's cache cannot be written (XDG_CACHE_HOME names another)" if keep else "keep=False"
        return _in_memory(ledger, None, work), _IN_MEMORY + why if in_cache else None
    for _ in range(2 if keep else 0):
        db = _opened(path)
        if db is None:
            break
        try:
            index = Index(db)
            index.catch_up(ledger)
            return work(index), None
        except _BROKEN:
            _remove(path)
        except _UNWRITABLE:
            break
        except apsw.BusyError:
            raise StoreUnavailable(f"another process holds {path}; try again when it is done") from None
        finally:
            db.close()
    why = f"{path} cannot be written, or is something else"
    if not keep:
        why = "the ledger was opened read-only" if ledger.read_only else "keep=False"
    return _in_memory(ledger, path, work), _IN_MEMORY + why


def forget(ledger: Any, positions: Sequence[int]) -> None:
    """Take what was erased out of the index, where there is one; what cannot be done now is done by the next search."""
    memory = _memories.get(ledger)
    path = path_of(ledger)
    try:
        if memory is not None:
            with memory.lock:
                Index(memory.db).forget(positions)
        if path is not None and os.path.exists(path):
            db = connect(path, write=True)
            try:
                Index(db).forget(positions)
            finally:
                db.close()
    except apsw.Error as error:
        _log.warning("the index of searches holds erased texts until the next search: %s", error)


def _opened(path: str) -> apsw.Connection | None:
    """A connection to the file, made when it is missing; ``None`` when it cannot be, or is something else."""
    for _ in range(2):
        db = None
        try:
            # Made here so that only its owner can read it.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600))
        except FileExistsError:
            pass
        except OSError:
            return None
        try:
            db = connect(path, write=True)
            if Index(db).is_ours():
                return db
            db.close()
            return None
        except _BROKEN:
            if db is not None:
                db.close()
            _remove(path)
        except _UNWRITABLE:
            return None
        except apsw.BusyError:
            raise StoreUnavailable(f"another process holds {path}; try again when it is done") from None
    return None


def _remove(path: str) -> None:
    for name in (path, path + "-journal"):
        try:
            os.unlink(name)
        except OSError:
            pass


class _Memory:
    """An index in memory, for one ledger object in one process."""

    def __init__(self, path: str | None) -> None:
        self.lock = threading.Lock()
        self.db = connect(":memory:", write=True)
        if path is not None and os.path.exists(path):
            self._copy(path)

    def _copy(self, path: str) -> None:
        """Begin with what the file holds, so that little is left to read."""
        try:
            file = connect(path, write=False)
        except apsw.Error:
            return
        try:
            if Index(file).is_ours():
                with self.db.backup("main", file, "main") as copy:
                    copy.step()
        except apsw.Error:
            self.db.close()
            self.db = connect(":memory:", write=True)
        finally:
            file.close()


_memories: weakref.WeakKeyDictionary[Any, _Memory] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def _after_fork_in_child() -> None:
    """A child has indexes and locks of its own; a thread that is not here any more may have held the parent's."""
    global _memories, _making
    leave_open([_memories])
    _memories, _making = weakref.WeakKeyDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _in_memory(ledger: Any, path: str | None, work: Callable[[Index], Answer]) -> Answer:
    with _making:
        memory = _memories.get(ledger)
        if memory is None:
            memory = _memories[ledger] = _Memory(path)
    with memory.lock:
        index = Index(memory.db)
        index.catch_up(ledger)
        return work(index)
