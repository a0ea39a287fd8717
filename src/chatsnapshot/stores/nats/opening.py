"""Opens sealed rows: fetches the keys and parts they need, and says what was erased."""

from __future__ import annotations

from collections.abc import Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.base import EVENT_ID, PAYLOAD, SALT, Row
from chatsnapshot.stores.nats.sealing import KeyPlace, open_sealed, parts_of
from chatsnapshot.stores.nats.vault import NO_KEY, Vault

__all__ = ["Opener"]


class Opener:
    """Gives rows their payload and salt back."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def at_once(self, rows: Sequence[Row]) -> list[Row] | None:
        """The rows opened with keys that are in memory; ``None`` when something must be fetched. On any thread."""
        opened: list[Row] = []
        for row in rows:
            kept = row[PAYLOAD]
            if kept is None or row[SALT] is None:
                opened.append(row)
                continue
            key = self._vault.known(KeyPlace.unpacked(row[SALT]))
            if key is None or (parts_of(kept) and key != NO_KEY):
                return None
            opened.append(_opened(row, key, []))
        return opened

    async def opened(self, rows: Sequence[Row]) -> list[Row]:
        """The rows opened; a payload whose key is gone is erased. On the loop of the store."""
        opened: list[Row] = []
        for row in rows:
            kept = row[PAYLOAD]
            if kept is None or row[SALT] is None:
                opened.append(row)
                continue
            place = KeyPlace.unpacked(row[SALT])
            count = parts_of(kept)
            try:
                key = await self._key(place)
            except Corrupt as error:
                raise Corrupt(f"the payload at position {row[0]}: {error}", position=row[0]) from None
            try:
                parts = await self._vault.parts(place.text(), count) if count and key != NO_KEY else []
            except Corrupt:
                self._vault.forget([place.page])  # it may have been erased in this moment
                key, parts = await self._key(place), []
                if key != NO_KEY:
                    raise
            opened.append(_opened(row, key, parts))
        return opened

    async def _key(self, place: KeyPlace) -> bytes:
        key = self._vault.known(place)
        if key is None:
            await self._vault.fetch([place.page])
            key = self._vault.known(place)
            assert key is not None
        return key


def _opened(row: Row, key: bytes, parts: list[bytes]) -> Row:
    kept = row[PAYLOAD]
    assert kept is not None
    if key == NO_KEY:
        return (*row[:PAYLOAD], None, *row[PAYLOAD + 1 : SALT], None, *row[SALT + 1 :])  # type: ignore[return-value]
    try:
        salt, payload = open_sealed(key, kept, parts, row[EVENT_ID])
    except Corrupt as error:
        raise Corrupt(f"position {row[0]}: {error}", position=row[0]) from None
    return (*row[:PAYLOAD], payload, *row[PAYLOAD + 1 : SALT], salt, *row[SALT + 1 :])  # type: ignore[return-value]
