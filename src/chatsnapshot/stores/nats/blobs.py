"""Blobs in the vault: stored once per ledger in sealed parts, and gone with their key when nobody names them any more.

Who removes a blob first marks it as doomed, then reads on to the head: whoever names it before that is seen, and whoever
names it later finds the mark and stores it anew. So no entry ever names a blob that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from chatsnapshot.jsonvalue import Blob
from chatsnapshot.stores.nats.connection import Got
from chatsnapshot.stores.nats.sealing import KEY_BYTES, open_text, seal_text
from chatsnapshot.stores.nats.vault import Vault

__all__ = ["BlobRecord", "Blobs"]


class BlobRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the vault knows of a blob, with the key that opens it."""

    name: str
    """Its parts are under this name."""
    size: int
    parts: int
    key: bytes
    doomed: bool = False


_decode = msgspec.json.Decoder(BlobRecord).decode


class Blobs:
    """The blobs of one ledger; used on the loop of the store."""

    def __init__(self, vault: Vault, part_bytes: int) -> None:
        self._vault = vault
        self._part_bytes = part_bytes

    async def _find(self, digest: bytes) -> tuple[Got, BlobRecord] | None:
        found = await self._vault.last(f"b.{digest.hex()}")
        return None if found is None else (found, _decode(found.data))

    async def record(self, digest: bytes) -> BlobRecord | None:
        """What is known of a blob."""
        found = await self._find(digest)
        return None if found is None else found[1]

    async def ensure(self, blobs: Iterable[Blob]) -> None:
        """Have these blobs stored, durable when it returns."""
        for blob in blobs:
            while True:
                found = await self._find(blob.digest)
                if found is not None and not found[1].doomed:
                    break
                if await self._store(blob, 0 if found is None else found[0].seq):
                    break

    async def _store(self, blob: Blob, before: int) -> bool:
        name, key, step = os.urandom(12).hex(), os.urandom(KEY_BYTES), self._part_bytes
        parts = [
            seal_text(key, number, blob.data[start : start + step], blob.digest)
            for number, start in enumerate(range(0, max(len(blob.data), 1), step), 1)
        ]
        await self._vault.store_parts(name, parts)
        record = BlobRecord(name, len(blob.data), len(parts), key)
        if await self._vault.replace(f"b.{blob.digest.hex()}", msgspec.json.encode(record), before):
            if before:
                await self._vault.remove_older(f"b.{blob.digest.hex()}")
            return True
        await self._vault.purge(f"p.{name}.>")  # another was faster
        return False

    async def part(self, digest: bytes, record: BlobRecord, number: int) -> bytes | None:
        """One part, opened; ``None`` when it is gone."""
        sealed = await self._vault.part(record.name, number)
        return None if sealed is None else open_text(record.key, number, sealed, digest)

    async def remove(self, digest: bytes, used: Callable[[], Awaitable[bool]]) -> None:
        """Remove a blob unless somebody names it; ``used`` reads on to the head and says."""
        subject = f"b.{digest.hex()}"
        while (found := await self._find(digest)) is not None:
            got, record = found
            seq = got.seq
            if not record.doomed:
                doomed = msgspec.structs.replace(record, doomed=True)
                if not await self._vault.replace(subject, msgspec.json.encode(doomed), seq):
                    continue
                await self._vault.remove_older(subject)
                continue
            if await used():
                kept = msgspec.structs.replace(record, doomed=False)
                await self._vault.replace(subject, msgspec.json.encode(kept), seq)
                await self._vault.remove_older(subject)
                return
            await self._vault.remove(seq)
            await self._vault.purge(f"p.{record.name}.>")
            return  # whoever has named it since has stored it anew

    async def all(self) -> list[tuple[bytes, int]]:
        """Every blob: digest and bytes."""
        found = await self._vault.names("b")
        return sorted(
            (bytes.fromhex(one.subject.rpartition(".")[2]), _decode(one.data).size) for one in found
        )
