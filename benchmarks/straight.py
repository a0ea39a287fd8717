"""The limit: a straight-line loop that does only the unavoidable work of a durable, committed append.

Same schema, triggers and pragmas (the product's own DDL), the same columns, commitment, header, leaf and tree nodes; no
validation, no duplicate check, no queue, no API.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from hashlib import sha256

import apsw
import msgspec

from chatsnapshot.clock import uuid7, uuid_text
from chatsnapshot.integrity import Tree, commit, header_parts
from chatsnapshot.stores import sqlite_schema
from chatsnapshot.stores.sqlite_read import COLUMNS

SOURCE = '{"origin":"agent","runtime":"none"}'


class StraightLine:
    """Appends batches to a file of its own."""

    def __init__(self, path: str) -> None:
        self.db: apsw.Connection = sqlite_schema.connect(path, write=True)
        sqlite_schema.create(self.db, "main", time.time_ns())
        self.tree = Tree()
        self.sequence = 0
        self.insert = f"INSERT INTO entry ({COLUMNS}) VALUES ({','.join('?' * 16)})"

    def append(self, payloads: list[dict[str, object]]) -> None:
        db = self.db
        count = len(payloads)
        noise = os.urandom(16 * count)
        ids = uuid7(count)
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")[:26] + "Z"
        stamp = now.encode()
        drafts = []
        for index, payload in enumerate(payloads):
            body = msgspec.json.encode(payload)
            salt = noise[16 * index : 16 * index + 16]
            commitment = commit(salt, body)
            head, tail = header_parts(
                uuid_text(ids[index]),
                "execution.message",
                now,
                SOURCE,
                "run-1",
                None,
                None,
                None,
                commitment,
                len(body),
            )
            drafts.append((ids[index], body, salt, commitment, head, tail))
        db.execute("BEGIN IMMEDIATE")
        position = db.execute("SELECT size FROM head").get
        rows, leaves = [], []
        for event_id, body, salt, commitment, head, tail in drafts:
            position += 1
            self.sequence += 1
            leaf = sha256(b"\x00" + head + stamp + tail).digest()
            leaves.append(leaf)
            rows.append(
                (
                    position, self.sequence, now, event_id, "execution.message", now, SOURCE, "run-1", None,
                    body, None, None, leaf, salt, commitment, len(body),
                )
            )  # fmt: skip
        db.executemany(self.insert, rows)
        for tile in self.tree.extend(leaves):
            db.execute("INSERT INTO tile VALUES (?, ?, ?)", tile)
        db.execute("UPDATE head SET size = ?, frontier = ?, recorded_at = ?", (*self.tree.head(), now))
        db.execute("COMMIT")
