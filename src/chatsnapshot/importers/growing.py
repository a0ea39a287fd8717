"""A file that another program appends to: its whole lines from where the last look ended, and what is torn at its end."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.importers.base import Problem
from chatsnapshot.importers.transcripts import is_torn, torn
from chatsnapshot.importers.zstandard import open_packed
from chatsnapshot.limits import KIB, MIB

__all__ = ["HEAD_BYTES", "LINE_BYTES_MAX", "Growing", "head_of"]

LINE_BYTES_MAX = 64 * MIB
"""A longer line is left out; one of a transcript with pictures has a few MiB."""

LOOK_BYTES = 4 * MIB
HEAD_BYTES = 64 * KIB


class Growing:
    """Reads on at each look. ``offset`` is the byte at which the next line begins, ``unread`` whether more is there now,
    ``damage`` what is wrong with its compression.

    Offsets of a file whose name ends in ``.gz`` or ``.zst`` count decompressed bytes; such a file is read once.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0
        self.unread = True
        self.damage: str | None = None
        self.size = 0
        self._place = 0
        self._held = bytearray()
        self._dropped = False
        self._identity: tuple[int, int] | None = None
        self._stream: Any = None

    def changed(self) -> str | None:
        """Since the last look it has ``grown``, or was ``replaced`` by another or a shorter one; ``None``: neither."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        if self._identity is not None and (found.st_dev, found.st_ino) != self._identity:
            return "replaced"
        if found.st_size < self.size:
            return "replaced"
        return "grown" if found.st_size > self.size else None

    def lines(self) -> Iterator[tuple[int, bytes] | Problem]:
        """The lines that are whole by now, up to some MiB of them; raises ``OSError`` where the file cannot be read."""
        data = self._read()
        self._held += data
        start = 0
        while (end := self._held.find(b"\n", start)) >= 0:
            if not self._dropped:
                yield self.offset, bytes(self._held[start:end])
            self._dropped = False
            self.offset += end + 1 - start
            start = end + 1
        del self._held[:start]
        if len(self._held) > LINE_BYTES_MAX:
            if not self._dropped:
                yield Problem(self.offset, f"the line is longer than {LINE_BYTES_MAX:,} bytes")
            self._dropped = True
            self.offset += len(self._held)
            self._held.clear()

    def rest(self) -> tuple[int, bytes] | Problem | None:
        """The last line, where it has no end: itself if it is whole all the same, else where it was cut off."""
        line, offset = bytes(self._held), self.offset
        self._held.clear()
        self.offset += len(line)
        if self.damage is not None:
            return Problem(offset, self.damage)
        if self._dropped or not line.strip():
            return None
        return torn(offset) if is_torn(line) else (offset, line)

    def close(self) -> None:
        """Let go of the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _read(self) -> bytes:
        if self.path.endswith((".gz", ".zst")):
            return self._decompressed()
        with open(self.path, "rb") as stream:
            found = os.fstat(stream.fileno())
            self._identity, self.size = (found.st_dev, found.st_ino), found.st_size
            stream.seek(self._place)
            data = stream.read(min(LOOK_BYTES, max(self.size - self._place, 0)))
        self._place += len(data)
        self.unread = self._place < self.size and bool(data)
        return data

    def _decompressed(self) -> bytes:
        if self._stream is None:
            self._stream = open_packed(self.path)
            self.size = os.stat(self.path).st_size
        try:
            data: bytes = self._stream.read1(LOOK_BYTES)
        except EOFError:
            data, self.damage = b"", "the compressed data is cut off"
        except (gzip.BadGzipFile, zlib.error) as error:
            data, self.damage = b"", f"the compressed data is damaged: {error}"
        self.unread = bool(data)
        return data


def head_of(path: str, bytes_max: int = HEAD_BYTES) -> bytes:
    """The beginning of a file as far as it can be read."""
    found = bytearray()
    try:
        with open_packed(path) as stream:
            while len(found) < bytes_max and (part := stream.read1(bytes_max - len(found))):
                found += part
    except (OSError, EOFError, zlib.error, InvalidEvent):
        pass
    return bytes(found)
