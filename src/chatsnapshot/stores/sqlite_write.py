"""The statements that write a SQLite ledger, each inside a transaction of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import TILE_HASHES, Tree
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Checkpoint, Head
from chatsnapshot.stores.planning import Plan
from chatsnapshot.stores.sqlite_read import COLUMNS
from chatsnapshot.stores.sqlite_schema import Names

__all__ = ["SqliteWriter"]


class SqliteWriter:
    """SQL of one ledger; holds no connection and no state."""

    def __init__(self, names: Names, limits: Limits) -> None:
        self._names = names
        self._part_bytes = limits.blob_part_bytes
        entry, head = names["entry"], names["head"]
        self._insert = f"INSERT INTO {entry} ({COLUMNS}) VALUES ({','.join('?' * 16)})"
        self._read_head = f"SELECT size, frontier, recorded_at FROM {head}"
        self._set_head = f"UPDATE {head} SET size = ?, frontier = ?, recorded_at = ?"
        self._last = f"SELECT sequence FROM {entry} WHERE correlation_id = ? ORDER BY sequence DESC LIMIT 1"

    def head(self, db: apsw.Connection) -> Head:
        """The head as this transaction sees it."""
        found = db.execute(self._read_head).fetchone()
        if found is None:
            raise Corrupt(
                "the head of the ledger is missing; keep a copy of the file and run chatsnapshot verify"
            )
        return Head(*found)

    def last_sequence(self, db: apsw.Connection, correlation_id: str) -> int:
        """The last sequence of a correlation; 0 when it is new."""
        found = db.execute(self._last, (correlation_id,)).get
        return 0 if found is None else int(found)

    def caught_up(self, db: apsw.Connection, tree: Tree, head: Head) -> Tree | None:
        """``tree`` with what others have appended since; ``None`` when it must be read anew."""
        if not 0 < tree.size < head.size or head.size - tree.size > TILE_HASHES:
            return None
        grown = tree.copy()
        grown.extend(self._leaves(db, tree.size, head.size))
        return grown if grown.head() == (head.size, head.frontier) else None

    def _leaves(self, db: apsw.Connection, after: int, until: int) -> list[bytes]:
        sql = (
            f"SELECT leaf FROM {self._names['entry']} WHERE position > ? AND position <= ? ORDER BY position"
        )
        return [bytes(leaf) for (leaf,) in db.execute(sql, (after, until))]

    def tree(self, db: apsw.Connection, head: Head) -> Tree:
        """The tree of a head, from stored leaves and tiles."""
        first = head.size - head.size % TILE_HASHES
        leaves = self._leaves(db, first, head.size)

        def read_tile(level: int, index: int) -> bytes:
            found = self.tile(db, level, index)
            if found is None:
                raise Corrupt(f"tile {index} of level {level} is missing; run chatsnapshot verify")
            return found

        return Tree.restore(head.size, head.frontier, leaves, read_tile)

    def tile(self, db: apsw.Connection, level: int, index: int) -> bytes | None:
        """A full tile."""
        sql = f"SELECT hashes FROM {self._names['tile']} WHERE level = ? AND number = ?"
        found = db.execute(sql, (level, index)).get
        return None if found is None else bytes(found)

    def write(self, db: apsw.Connection, made: Plan) -> None:
        """Rows, blobs, tiles and head of one plan."""
        if len(made.rows) == 1:
            db.execute(self._insert, made.rows[0])
        else:
            db.executemany(self._insert, made.rows)
        for index, draft in enumerate(made.drafts):
            if draft.blobs:
                for blob in draft.blobs:
                    self._put_blob(db, blob.digest, blob.data)
                    self._use_blob(db, blob.digest, made.rows[index][0])
        if made.tiles:
            db.executemany(f"INSERT INTO {self._names['tile']} VALUES (?, ?, ?)", made.tiles)
        db.execute(self._set_head, (*made.tree.head(), made.recorded_at))

    def import_blobs(
        self, db: apsw.Connection, users: Mapping[int, tuple[bytes, ...]], blobs: Mapping[bytes, bytes]
    ) -> None:
        """Blobs of imported rows; each row may name blobs that are there already."""
        for digest, data in blobs.items():
            self._put_blob(db, digest, data)
        for position, digests in users.items():
            for digest in digests:
                self._use_blob(db, digest, position)

    def _put_blob(self, db: apsw.Connection, digest: bytes, data: bytes) -> None:
        names = self._names
        if db.execute(f"SELECT 1 FROM {names['blob']} WHERE digest = ?", (digest,)).get is not None:
            return
        db.execute(f"INSERT INTO {names['blob']} VALUES (?, ?)", (digest, len(data)))
        step = self._part_bytes
        for part in range(0, max(len(data), 1), step):
            db.execute(
                f"INSERT INTO {names['blob_part']} VALUES (?, ?, ?)",
                (digest, part // step, data[part : part + step]),
            )

    def _use_blob(self, db: apsw.Connection, digest: bytes, position: int) -> None:
        db.execute(f"INSERT OR IGNORE INTO {self._names['blob_use']} VALUES (?, ?)", (digest, position))

    def erase(self, db: apsw.Connection, positions: Sequence[int]) -> None:
        """Remove payload and salt of these positions, and blobs that nobody names any more."""
        names = self._names
        for position in positions:
            db.execute(
                f"UPDATE {names['entry']} SET payload = NULL, salt = NULL WHERE position = ? AND payload IS NOT NULL",
                (position,),
            )
            named = db.execute(
                f"SELECT digest FROM {names['blob_use']} WHERE position = ?", (position,)
            ).fetchall()
            db.execute(f"DELETE FROM {names['blob_use']} WHERE position = ?", (position,))
            for (digest,) in named:
                if db.execute(f"SELECT 1 FROM {names['blob_use']} WHERE digest = ?", (digest,)).get is None:
                    db.execute(f"DELETE FROM {names['blob_part']} WHERE digest = ?", (digest,))
                    db.execute(f"DELETE FROM {names['blob']} WHERE digest = ?", (digest,))

    def checkpoint(self, db: apsw.Connection, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        sql = f"SELECT position, leaf, digest FROM {self._names['projection']} WHERE name = ? AND version = ?"
        found = db.execute(sql, (name, version)).fetchone()
        return None if found is None else Checkpoint(*found)

    def load_state(self, db: apsw.Connection, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        sql = (
            f"SELECT state FROM {self._names['projection_state']} WHERE name = ? AND version = ? AND key = ?"
        )
        found = db.execute(sql, (name, version, key)).get
        return None if found is None else bytes(found)

    def save_states(
        self,
        db: apsw.Connection,
        name: str,
        version: int,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> None:
        """States and checkpoint; the store has compared the checkpoint in this transaction."""
        table = self._names["projection_state"]
        for key, state in states.items():
            if state is None:
                db.execute(
                    f"DELETE FROM {table} WHERE name = ? AND version = ? AND key = ?", (name, version, key)
                )
            else:
                db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?)", (name, version, key, state))
        db.execute(
            f"INSERT OR REPLACE INTO {self._names['projection']} VALUES (?, ?, ?, ?, ?)",
            (name, version, *after),
        )

    def drop_states(self, db: apsw.Connection, name: str, version: int) -> None:
        """Forget a projection."""
        for table in ("projection_state", "projection"):
            db.execute(f"DELETE FROM {self._names[table]} WHERE name = ? AND version = ?", (name, version))
