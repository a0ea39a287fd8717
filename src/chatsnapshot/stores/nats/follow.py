"""Brings the local index up to the stream: reads on from where it ends, checks each commit, and adds it whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import apsw

from chatsnapshot.errors import Corrupt, StoreUnavailable
from chatsnapshot.integrity import Tree
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores.base import Head, Row
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.connection import LOOK_SECONDS, Connection, Got
from chatsnapshot.stores.nats.index import Index, use_blobs
from chatsnapshot.stores.nats.messages import Read, read_message, root_text
from chatsnapshot.stores.nats.opening import Opener
from chatsnapshot.stores.planning import Plan

__all__ = ["Follower"]

_READ_MESSAGES = 1_000
_READ_BYTES = 8 * 1024 * 1024
_LAG_SECONDS = 0.01
_LOST_SECONDS = 5.0


class Follower:
    """The tree and the last sequences of one handle, in step with the index; used on the loop of the store."""

    def __init__(self, connection: Connection, address: Address, index: Index, opener: Opener) -> None:
        self._connection = connection
        self._address = address
        self.opener = opener
        self._lock = asyncio.Lock()
        self.index = index
        self.tree = Tree()
        self.sequences: dict[str, int] = {}
        self.info: dict[str, Any] = {}

    def reset(self) -> None:
        """The index was opened anew."""
        self.tree = Tree()
        self.sequences.clear()

    def head(self, db: apsw.Connection) -> Head:
        """The head of the index; the tree is brought to it when another process has added to the index."""
        head = self.index.writer.head(db)
        size, frontier = self.tree.head()
        if (size, frontier) != (head.size, head.frontier):
            self.sequences.clear()
            writer = self.index.writer
            try:
                self.tree = writer.caught_up(db, self.tree, head) or writer.tree(db, head)
            except Corrupt as error:
                raise apsw.CorruptError(str(error)) from None  # the stream knows better
        return head

    async def follow(self) -> int:
        """Read on to the head of the stream as it is now; gives its size.

        Raises :class:`Corrupt` when what is there does not follow from what was read before, and what
        :class:`Connection` raises.
        """
        async with self._lock:
            deadline = time.monotonic() + _LOST_SECONDS
            while True:
                last = await self._last()
                with self.index.looking() as db:
                    size = self.head(db).size
                if size <= last:
                    break
                # A server that has just become the leader may still be behind for a moment.
                if time.monotonic() > deadline:
                    raise self._lost(size, last)
                await asyncio.sleep(0.1)
            while size < last:
                await self._read_on(size, last)
                with self.index.looking() as db:
                    size = self.head(db).size
            return size

    async def _last(self) -> int:
        """The last position of the stream, as the server that answers knows it."""
        self.info = await self._connection.api(f"STREAM.INFO.{self._address.stream}", timeout=LOOK_SECONDS)
        return int(self.info["state"]["last_seq"])

    def _lost(self, known: int, found: int) -> Corrupt:
        where = f", or remove {self.index.path} to go on with what is there" if self.index.path else ""
        return Corrupt(
            f"the stream {self._address.stream} at {self._address.url} ends at position {found}, and position {known} "
            f"was acknowledged: the servers have lost entries; restore the stream from a backup{where}",
            position=found + 1,
        )

    async def _read_on(self, size: int, last: int) -> None:
        deadline = time.monotonic() + self._address.timeout
        waiting: list[Read] = []
        at = size
        while at < last or waiting:
            if at >= last:
                # The look fell into a commit that the server was still writing down.
                if time.monotonic() > deadline:
                    raise Corrupt(
                        f"the stream {self._address.stream} ends inside of a commit, at position {at}; run "
                        "chatsnapshot verify",
                        position=at,
                    )
                await asyncio.sleep(_LAG_SECONDS)
                last = await self._last()
                continue
            found = await self._connection.direct(
                self._address.stream, {"seq": at + 1, "batch": _READ_MESSAGES, "max_bytes": _READ_BYTES}
            )
            if not found:
                # A copy of the stream that is not as far as its leader has answered.
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"{self._address.url} has {last} entries and gives none after {at}; nothing was stored, try again"
                    )
                await asyncio.sleep(_LAG_SECONDS)
                continue
            deadline = time.monotonic() + self._address.timeout
            waiting += self._read(found, at)
            at = found[-1].seq
            whole = _whole(waiting)
            if whole:
                await self.add(waiting[:whole])
                del waiting[:whole]

    def _read(self, found: Sequence[Got], at: int) -> list[Read]:
        read: list[Read] = []
        for number, got in enumerate(found, at + 1):
            if got.seq != number:
                raise Corrupt(
                    f"the stream {self._address.stream} has nothing at position {number}: an entry was removed",
                    position=number,
                )
            read.append(read_message(got.data, number))
        return read

    async def add(self, read: Sequence[Read]) -> None:
        """Add whole commits that follow the head of the index; nothing is done for those that it has."""
        naming = await self.opener.opened([one.row for one in read if one.facts.blobs])
        blobs = {row[0]: blob_digests(row[9]) for row in naming if row[9] is not None}
        with self.index.writing() as db:
            head = self.head(db)
            new = [one for one in read if one.row[0] > head.size]
            if not new:
                return
            if new[0].row[0] != head.size + 1:
                return  # the index was made again meanwhile: the next look reads on from there
            self._check(db, new, head)
            tree = self.tree.copy()
            tiles = tree.extend([one.row[12] for one in new])
            root = new[-1].facts.root
            if root is not None and root != root_text(tree.root()):
                raise Corrupt(
                    f"the entries up to position {new[-1].row[0]} do not have the root that was written with them; run "
                    "chatsnapshot verify",
                    position=new[0].row[0],
                )
            self.write(db, [one.row for one in new], Plan([], tiles, tree, new[-1].row[2], [], []))
            for position, digests in blobs.items():
                if position > head.size:
                    use_blobs(db, position, digests)
            for one in new:
                if one.facts.erases:
                    self.index.add_erasing(db, one.facts.erases)
        self.tree = tree

    def write(self, db: apsw.Connection, rows: list[Row], made: Plan) -> None:
        """Rows as the index keeps them, tiles and head."""
        try:
            self.index.writer.write(db, made._replace(rows=rows, drafts=[]))
        except apsw.ConstraintError:
            raise Corrupt(
                f"an event between positions {rows[0][0]} and {rows[-1][0]} is in the stream twice; run "
                "chatsnapshot verify",
                position=rows[0][0],
            ) from None

    def _check(self, db: apsw.Connection, new: Sequence[Read], head: Head) -> None:
        last: dict[str, int] = {}
        recorded_at = head.recorded_at
        for _, row in new:
            before = last.get(row[7])
            if before is None:
                before = self.index.writer.last_sequence(db, row[7])
            if row[1] != before + 1 or row[2] < recorded_at:
                raise Corrupt(
                    f"the entry at position {row[0]} does not follow those in front of it; run chatsnapshot verify",
                    position=row[0],
                )
            last[row[7]] = row[1]
            recorded_at = row[2]
        self.sequences.clear()


def _whole(read: Sequence[Read]) -> int:
    """How many of these are whole commits."""
    for number in range(len(read), 0, -1):
        facts = read[number - 1].facts
        if facts.last == facts.position:
            return number
    return 0
