"""The vault: keys in pages, and parts of large payloads; what is in it can be erased, unlike what is in the stream.

A page holds the keys of many events to come, and is durable before the first of them is used: so a commit costs one
write and not two. Erasing writes the page anew without the key and overwrites the old one on the servers' disks.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.answers import ApiError, Unanswered
from chatsnapshot.stores.nats.connection import Connection, Got
from chatsnapshot.stores.nats.sealing import KEY_BYTES, PAGE_BYTES, KeyPlace

__all__ = ["NO_KEY", "Vault"]

NO_KEY = bytes(KEY_BYTES)
"""Stands where a key was erased."""

_PAGE_KEYS_MIN = 16
_PAGE_KEYS_MAX = 4096
_PAGES_KEPT = 256
_BATCH_BYTES = 4 * 1024 * 1024
_LAG_SECONDS = 0.01


class Vault:
    """Keys and parts of one ledger; used on the loop of the store, but for :meth:`known`."""

    def __init__(self, connection: Connection, address: Address) -> None:
        self._connection = connection
        self._stream = address.vault
        self.subjects = f"{address.subjects}.vault"
        self._timeout = address.timeout
        self._pages: OrderedDict[bytes, bytes] = OrderedDict()
        self._page = b""
        self._keys = b""
        self._next = 0
        self._count = 0

    # --- keys ---

    async def take(self, count: int) -> list[tuple[KeyPlace, bytes]]:
        """So many keys that were never used, each durable with its place."""
        taken: list[tuple[KeyPlace, bytes]] = []
        while len(taken) < count:
            if self._next >= self._count:
                await self._new_page(count - len(taken))
            slot = self._next
            self._next += 1
            taken.append((KeyPlace(self._page, slot), self._keys[slot * KEY_BYTES : (slot + 1) * KEY_BYTES]))
        return taken

    async def _new_page(self, wanted: int) -> None:
        room = min(_PAGE_KEYS_MAX, self._connection.max_payload // (2 * KEY_BYTES))
        size = min(max(2 * self._count, 4 * wanted, _PAGE_KEYS_MIN), room)
        page, keys = os.urandom(PAGE_BYTES), os.urandom(size * KEY_BYTES)
        await self._connection.store([(f"{self.subjects}.k.{page.hex()}", keys)])
        self._page, self._keys, self._count, self._next = page, keys, size, 0
        self._keep(page, keys)

    def _keep(self, page: bytes, keys: bytes) -> None:
        self._pages[page] = keys
        while len(self._pages) > _PAGES_KEPT:
            self._pages.popitem(last=False)

    def known(self, place: KeyPlace) -> bytes | None:
        """A key that is in memory; on any thread."""
        keys = self._pages.get(place.page)
        return None if keys is None else keys[place.slot * KEY_BYTES : (place.slot + 1) * KEY_BYTES]

    def forget(self, pages: Iterable[bytes]) -> None:
        """Keys of these pages were erased: what is in memory goes."""
        for page in pages:
            self._pages.pop(page, None)

    async def fetch(self, pages: Iterable[bytes]) -> None:
        """Bring pages into memory; raises :class:`Corrupt` for one that is gone."""
        for page in pages:
            if page not in self._pages:
                found = await self._last(f"k.{page.hex()}")
                if found is None:
                    raise Corrupt(
                        f"page {page.hex()} of keys is gone from the stream {self._stream}, and with it the payloads "
                        "that were sealed with them; restore it from a backup"
                    )
                self._keep(page, found.data)

    async def erase_keys(self, places: Sequence[KeyPlace]) -> None:
        """Remove keys for good: no message, and no message that was overwritten, holds them afterwards."""
        pages: dict[bytes, set[int]] = {}
        for place in places:
            pages.setdefault(place.page, set()).add(place.slot)
        for page, slots in pages.items():
            self.forget([page])
            name = f"k.{page.hex()}"
            while (found := await self._last(name)) is not None:
                keys = bytearray(found.data)
                for slot in slots:
                    keys[slot * KEY_BYTES : (slot + 1) * KEY_BYTES] = NO_KEY
                if bytes(keys) == found.data or await self.replace(name, bytes(keys), found.seq):
                    break
            await self.remove_older(name)

    # --- messages ---

    async def _last(self, name: str) -> Got | None:
        return await self._connection.message(self._stream, {"last_by_subj": f"{self.subjects}.{name}"})

    async def last(self, name: str) -> Got | None:
        """The last message of a subject."""
        return await self._last(name)

    async def replace(self, name: str, data: bytes, before: int) -> bool:
        """Store a message if the last of its subject is still ``before`` (0: none); false when it is not."""
        try:
            await self._connection.store(
                [(f"{self.subjects}.{name}", data)], ("Nats-Expected-Last-Subject-Sequence", str(before))
            )
            return True
        except Unanswered:
            found = await self._last(name)
            if found is not None and found.data == data and found.seq != before:
                return True
            raise
        except ApiError as error:
            if error.stale:
                return False
            raise

    async def remove_older(self, name: str) -> None:
        """Overwrite and remove all messages of a subject but the last."""
        last = await self._last(name)
        while last is not None:
            old = await self._connection.message(
                self._stream, {"seq": 1, "next_by_subj": f"{self.subjects}.{name}"}
            )
            if old is None or old.seq >= last.seq:
                return
            await self.remove(old.seq)

    async def remove(self, seq: int) -> None:
        """Overwrite and remove one message."""
        try:
            await self._connection.api(f"STREAM.MSG.DELETE.{self._stream}", {"seq": seq, "no_erase": False})
        except ApiError as error:
            if error.err_code not in (10037, 10043):
                raise

    async def purge(self, name: str) -> None:
        """Remove sealed parts of which the key is gone."""
        await self._connection.api(f"STREAM.PURGE.{self._stream}", {"filter": f"{self.subjects}.{name}"})

    # --- parts ---

    async def store_parts(self, name: str, parts: Sequence[bytes]) -> None:
        """Store sealed parts, durable when it returns; again and again with the same bytes does no harm."""
        batch: list[tuple[str, bytes]] = []
        size = 0
        for number, part in enumerate(parts, 1):
            batch.append((f"{self.subjects}.p.{name}.{number}", part))
            size += len(part)
            if size >= _BATCH_BYTES or len(batch) >= 500:
                await self._connection.store(batch, count=len(batch), size=size)
                batch, size = [], 0
        if batch:
            await self._connection.store(batch, count=len(batch), size=size)

    async def part(self, name: str, number: int) -> bytes | None:
        """One sealed part, as it was stored last."""
        found = await self._last(f"p.{name}.{number}")
        return None if found is None else found.data

    async def parts(self, name: str, count: int) -> list[bytes]:
        """All sealed parts in order; raises :class:`Corrupt` when one is gone."""
        found = await asyncio.gather(*[self.part(name, number) for number in range(1, count + 1)])
        whole = [part for part in found if part is not None]
        if len(whole) < count:
            raise Corrupt(f"{count - len(whole)} of {count} parts are gone from the stream {self._stream}")
        return whole

    async def names(self, prefix: str) -> list[Got]:
        """The last message of each subject that begins like this."""
        found: list[Got] = []
        after = 0
        while True:
            got = await self._connection.direct(
                self._stream,
                {"seq": after + 1, "batch": 500, "next_by_subj": f"{self.subjects}.{prefix}.>"},
            )
            if not got:
                break
            found += got
            after = got[-1].seq
        return list({one.subject: one for one in found}.values())
