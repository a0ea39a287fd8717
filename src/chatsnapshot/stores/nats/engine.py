"""One handle of a ledger on NATS, on its loop: connection, index, keys, and what is done with them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import apsw

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Draft, Group, Outcome, Row
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.answers import Away, Unanswered, Unsent
from chatsnapshot.stores.nats.blobs import BlobRecord, Blobs
from chatsnapshot.stores.nats.connection import Connection
from chatsnapshot.stores.nats.follow import Follower
from chatsnapshot.stores.nats.index import Index, index_path, users
from chatsnapshot.stores.nats.opening import Opener
from chatsnapshot.stores.nats.sealing import KeyPlace
from chatsnapshot.stores.nats.streams import check_server, find_streams, make_streams
from chatsnapshot.stores.nats.vault import Vault
from chatsnapshot.stores.nats.writing import Writing
from chatsnapshot.stores.sqlite_write import SqliteWriter

__all__ = ["Engine"]

T = TypeVar("T")

_PAUSE_SECONDS = 0.05
_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.IOError)
_INLINE_BYTES = 256 * 1024
_PART_ROOM = 1024


class Engine:
    """Everything behind a store; its methods run on the loop of the store, one writer at a time."""

    def __init__(self, address: Address, clock: Clock, entropy: Entropy, limits: Limits) -> None:
        self.address = address
        self.connection = Connection(address)
        self.vault = Vault(self.connection, address)
        self.opener = Opener(self.vault)
        self.ledger_id = ""
        self._limits = limits
        self._clock = clock
        self._entropy = entropy
        self._lock = asyncio.Lock()
        self._wakes: list[Callable[[], None]] = []
        self._listening = False

    async def open(self, create: bool, identity: str, finish: bool) -> str:
        """Connect, find or make the streams, bring the index up to them; gives the ledger's id.

        ``finish`` also removes what recorded erasures have left.
        """
        await self.connection.open()
        check_server(self.connection, self.address)
        deadline = time.monotonic() + self.address.timeout
        while True:
            try:
                if create:
                    self.ledger_id = await make_streams(
                        self.connection, self.address, time.time_ns(), identity
                    )
                else:
                    self.ledger_id = await find_streams(self.connection, self.address)
                break
            except (Unsent, Unanswered):
                # No leader yet, as while a cluster starts.
                account = await self._jetstream()
                if not account or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS * 4)
        room = self.connection.max_payload
        self.index = self._new_index()
        self.follower = Follower(self.connection, self.address, self.index, self.opener)
        self.blobs = Blobs(self.vault, min(self._limits.blob_part_bytes, room - _PART_ROOM))
        self.writing = Writing(
            self.connection,
            self.address,
            self.follower,
            self.vault,
            self.blobs,
            self._clock,
            self._entropy,
            min(_INLINE_BYTES, room // 2),
            self.mend,
        )
        await self.follow()
        if finish:
            async with self._lock:
                await self.patiently(self._finish_erasing)
        return self.ledger_id

    async def _jetstream(self) -> bool:
        """Whether JetStream is there at all; raises :class:`ApiError` when it is off for this account."""
        try:
            await self.connection.api("INFO")
            return True
        except Unsent:
            # One server alone either has JetStream or not; a cluster may be choosing a leader.
            return bool(self.connection.server().get("cluster"))
        except Unanswered:
            return True

    def _new_index(self) -> Index:
        path = index_path(self.address.options.get("index"), self.ledger_id)
        try:
            return Index(path, self.ledger_id, self._limits)
        except (apsw.Error, OSError):
            return Index(None, self.ledger_id, self._limits)

    # --- with patience ---

    async def patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """``work``, again and again while a fail-over lasts; it must be safe to repeat. A damaged index is made again."""
        deadline = time.monotonic() + self.address.timeout
        mended = 0
        while True:
            try:
                await self.connection.ready(deadline - time.monotonic())
                return await work()
            except (Unsent, Unanswered) as error:
                if isinstance(error, Away) or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            except (apsw.Error, OSError) as error:
                mended += 1
                if mended > 2:
                    raise
                self.mend(error)

    def mend(self, error: Exception) -> None:
        """The index is damaged: make it again, in memory when it cannot be written."""
        gone = (
            isinstance(error, apsw.CantOpenError) and self.index.path and not os.path.exists(self.index.path)
        )
        if not gone and not isinstance(error, _BROKEN):
            self.index.path = None
        try:
            self.index.make_again()
        except (apsw.Error, OSError):
            self.index.path = None
            self.index.make_again()
        self.follower.reset()

    async def follow(self) -> int:
        """Read on to the head; gives its size."""
        return await self.patiently(self.follower.follow)

    async def open_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Sealed rows with payload and salt."""
        return await self.patiently(lambda: self.opener.opened(rows))

    # --- writing ---

    async def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        deadline = time.monotonic() + self.address.timeout
        async with self._lock:
            return await self.mended(lambda: self.writing.store(groups, deadline))

    async def mended(self, work: Callable[[], Awaitable[T]]) -> T:
        """``work``, once more when the index turns out to be damaged."""
        try:
            return await work()
        except (apsw.Error, OSError) as error:
            self.mend(error)
            return await work()

    async def change_index(self, work: Callable[[apsw.Connection, SqliteWriter], T]) -> T:
        """Change what only the index holds, in one transaction."""

        async def change() -> T:
            with self.index.writing() as db:
                return work(db, self.index.writer)

        return await self.mended(change)

    async def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        deadline = time.monotonic() + self.address.timeout
        async with self._lock:
            await self.mended(lambda: self.writing.import_rows(rows, blobs, deadline))
            await self.patiently(self._finish_erasing)

    async def erase(self, record: Draft) -> Row:
        """Store the record, then remove the keys of what it names, until it is done."""
        deadline = time.monotonic() + self.address.timeout
        async with self._lock:
            outcome = (await self.mended(lambda: self.writing.store([Group([record])], deadline)))[0]
            if not isinstance(outcome, list):
                raise outcome
            await self.patiently(self._finish_erasing)
            return outcome[0]

    async def _finish_erasing(self) -> None:
        """Remove blobs and keys of every recorded erasure; it can be repeated, and other processes may do the same."""
        with self.index.looking() as db:
            todo = db.execute("SELECT position, key, parts FROM erasing ORDER BY position").fetchall()
            unused = [bytes(digest) for (digest,) in db.execute("SELECT digest FROM unused_blob")]
        if not todo and not unused:
            return
        for digest in unused:
            # Blobs before keys: without the key of an entry nobody could say which blobs it named.
            await self.blobs.remove(digest, lambda digest=digest: self._is_used(digest))  # type: ignore[misc]
        places = {KeyPlace.unpacked(key): parts for _, key, parts in todo}  # type: ignore[arg-type]
        await self.vault.erase_keys(list(places))
        for place, parts in places.items():
            if parts:
                await self.vault.purge(f"p.{place.text()}.>")
        with self.index.writing() as db:
            db.executemany("DELETE FROM erasing WHERE position = ?", [(one,) for one, _, _ in todo])
            db.executemany("DELETE FROM unused_blob WHERE digest = ?", [(one,) for one in unused])
        with self.index.looking() as db:
            # States of projections may have held what was erased: the log of the index must not.
            if self.index.on_disk:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def _is_used(self, digest: bytes) -> bool:
        await self.follower.follow()
        with self.index.looking() as db:
            return users(db, digest) > 0

    # --- blobs ---

    async def blob_record(self, digest: bytes) -> BlobRecord | None:
        """What is known of a blob."""
        return await self.patiently(lambda: self.blobs.record(digest))

    async def blob_part(self, digest: bytes, record: BlobRecord, number: int) -> bytes:
        """One part of a blob."""

        async def read() -> bytes:
            found = await self.blobs.part(digest, record, number)
            if found is None:
                raise Corrupt(f"part {number} of blob sha256:{digest.hex()} is gone")
            return found

        return await self.patiently(read)

    async def all_blobs(self) -> list[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        await self.follow()
        found = await self.patiently(self.blobs.all)
        with self.index.looking() as db:
            return [(digest, size, users(db, digest)) for digest, size in found]

    # --- hints and end ---

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when somebody says that there is something new."""
        if wake not in self._wakes:
            self._wakes.append(wake)
        if not self._listening:
            self._listening = True
            await self.connection.listen(f"{self.address.subjects}.head", self._wake)

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    async def close(self) -> None:
        """Close connection and index."""
        await self.connection.close()
        if hasattr(self, "index"):
            self.index.end()
