"""Keeps the parts of large blobs on disk until the request that names them: bounded, for each key by itself."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.server.problems import Problem
from chatsnapshot.stores.http.wire import Part

if TYPE_CHECKING:
    from chatsnapshot.server.endpoints import Call

__all__ = ["Staging", "owner_of"]

_IDLE_SECONDS = 600.0
"""What nobody adds to or asks for any more is removed after this time."""
_READ_BYTES = 1024 * 1024

Owner = tuple[str, str]
"""The name of a ledger and the id of a key: what one key sends, no other can add to or use."""


class _File:
    """One blob on its way: a file that grows. ``whole`` once all of it is there and hashes to its name."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.length = 0
        self.whole = False
        self.used = time.monotonic()


class Staging:
    """The blobs of one service that are on their way."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: dict[tuple[Owner, bytes], _File] = {}
        self._made = 0

    def put(self, owner: Owner, part: Part, blob_bytes_max: int) -> int:
        """Add a part where it goes on from what is there; gives how many bytes are there then. For threads.

        A blob of which all is there and that does not hash to its name is dropped: 0. Raises :class:`LimitExceeded`,
        :class:`InvalidEvent`, and :class:`Problem` 503 where no room is left.
        """
        if part.size > blob_bytes_max:
            raise LimitExceeded("blob_bytes_max", blob_bytes_max, part.size, "keep it outside")
        if len(part.digest) != 32 or part.offset < 0 or part.offset + len(part.data) > part.size:
            raise InvalidEvent("a part of a blob has a digest of 32 bytes, and lies within its size")
        file = self._file(owner, part.digest)
        with file.lock:
            file.used = time.monotonic()
            if file.whole or part.offset != file.length:
                return file.length
            if self._bytes() + len(part.data) > self._bytes_max:
                raise Problem(
                    503, "overloaded", "too many large blobs are on their way; try again soon", retry_after=5
                )
            with open(file.path, "r+b") as out:
                out.seek(file.length)
                out.write(part.data)
            file.length += len(part.data)
            if file.length == part.size:
                file.whole = _digest(file.path) == part.digest
                if not file.whole:
                    file.length = 0
                    os.truncate(file.path, 0)
            return file.length

    def _file(self, owner: Owner, digest: bytes) -> _File:
        with self._lock:
            self._drop_idle()
            found = self._files.get((owner, digest))
            if found is None:
                if self._folder is None:
                    self._folder = tempfile.TemporaryDirectory(prefix="cs-parts-")
                self._made += 1
                found = _File(os.path.join(self._folder.name, str(self._made)))
                with open(found.path, "xb"):
                    pass
                self._files[owner, digest] = found
            return found

    def _bytes(self) -> int:
        with self._lock:
            return sum(file.length for file in self._files.values())

    def _drop_idle(self) -> None:
        late = time.monotonic() - _IDLE_SECONDS
        for key, file in list(self._files.items()):
            if file.used < late and not file.lock.locked():
                del self._files[key]
                os.unlink(file.path)

    def _read(self, owner: Owner, digest: bytes) -> bytes | None:
        with self._lock:
            file = self._files.get((owner, digest))
            if file is None or not file.whole:
                return None
            file.used = time.monotonic()
            with open(file.path, "rb") as data:
                return data.read()

    @asynccontextmanager
    async def filling(self, call: Call, digests: Iterable[bytes]) -> AsyncIterator[dict[bytes, bytes]]:
        """The blobs of a request that came in parts before it, for while the block runs: one request after another, so
        that no more than the blobs of one are in memory.

        What the ledger has already is left out. Raises :class:`Problem` 409 for what is nowhere.
        """
        wanted = list(dict.fromkeys(digests))
        if not wanted:
            yield {}
            return
        async with self._turn:
            yield await asyncio.to_thread(self._found, call, wanted)

    def _found(self, call: Call, digests: list[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for digest in digests:
            data = self._read(owner_of(call), digest)
            if data is not None:
                found[digest] = data
            elif call.ledger._store.blob(digest) is None:
                raise Problem(
                    409,
                    "blob-missing",
                    f"no parts of the blob sha256:{digest.hex()} are here; send them first",
                )
        return found

    def end(self) -> None:
        """Remove everything."""
        with self._lock:
            folder, self._folder = self._folder, None
            self._files.clear()
        if folder is not None:
            folder.cleanup()


def owner_of(call: Call) -> Owner:
    """Whose parts these are."""
    return call.name, call.access.key or ""


def _digest(path: str) -> bytes:
    found = sha256()
    with open(path, "rb") as data:
        while piece := data.read(_READ_BYTES):
            found.update(piece)
    return found.digest()
