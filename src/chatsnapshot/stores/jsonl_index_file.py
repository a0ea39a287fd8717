"""The writer's connection to the index file beside a JSONL ledger: made, recognised, taken away. Under the lock only."""

from __future__ import annotations

import apsw

from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.stores.jsonl_index import JsonlIndex, connect
from chatsnapshot.stores.leaving import leave_open

__all__ = ["IndexFile"]


class IndexFile:
    """The file ``runs.jsonl.index.db`` and at most one connection that writes to it."""

    def __init__(self, path: str, files: FileIO) -> None:
        self._path = path
        self._files = files
        self._db: apsw.Connection | None = None
        self._inode = -1

    def connected(self) -> JsonlIndex:
        """The index, through a connection that is made when there is none. Raises apsw errors."""
        if self._db is None:
            self._db = connect(self._path, write=True)
            stamp = self._files.stamp(self._path)
            self._inode = -1 if stamp is None else stamp.inode
        return JsonlIndex(self._db)

    def known(self) -> JsonlIndex:
        """The index, through the connection that was made."""
        assert self._db is not None
        return JsonlIndex(self._db)

    def same(self) -> bool:
        """Whether the file is still the one of the connection."""
        if self._db is None:
            return False
        stamp = self._files.stamp(self._path)
        return stamp is not None and stamp.inode == self._inode

    def remove(self) -> None:
        """Take the file away."""
        self.let_go()
        for suffix in ("", "-wal", "-shm"):
            try:
                self._files.remove(self._path + suffix)
            except FileNotFoundError:
                pass

    def roll_back(self) -> None:
        """After an error: nothing of it stays in the file."""
        if self._db is not None and self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error:
                self.let_go()

    def let_go(self) -> None:
        """Close the connection, if there is one."""
        db, self._db = self._db, None
        if db is not None:
            try:
                db.close(force=True)
            except apsw.Error:
                leave_open([db])

    def leave(self) -> None:
        """In a forked child: the connection is the parent's."""
        db, self._db = self._db, None
        if db is not None:
            leave_open([db])
