"""Counts equal contents in bounded memory: which occurrence of its kind is this one?"""

from __future__ import annotations

import apsw

__all__ = ["Ordinals"]


class Ordinals:
    """``next(digest)`` is 1 at the first sight of a digest, then 2, and on.

    What does not fit into the cache of some MiB lies in a file that SQLite makes and removes by itself.
    """

    def __init__(self) -> None:
        self._db = apsw.Connection("")
        self._db.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-16384")
        self._db.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def next(self, digest: bytes) -> int:
        """How often this digest was seen, this time included."""
        sql = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"
        return int(self._db.execute(sql, (digest,)).get)

    def close(self) -> None:
        """Forget everything."""
        self._db.close()
