"""Zstandard, where Python or a package that happens to be installed can read it."""

from __future__ import annotations

import os
import zlib
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingesting import open_input
from chatsnapshot.limits import KIB

__all__ = ["decompressor", "open_packed"]

_PIECE = 64 * KIB


def decompressor() -> tuple[Any, type[Exception]] | None:
    """A decompressor, from the standard library or a package, and what it raises."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            module: Any = __import__(name, fromlist=["ZstdDecompressor"])
            return module.ZstdDecompressor(), module.ZstdError
        except ImportError:
            continue
    try:
        module = __import__("zstandard")
        return module.ZstdDecompressor().decompressobj(), module.ZstdError
    except ImportError:
        return None


def open_packed(path: str | os.PathLike[str]) -> Any:
    """A file opened for ``read1``; one whose name ends in ``.gz`` or ``.zst`` is decompressed on the way.

    Raises :class:`InvalidEvent` for Zstandard where nothing here reads it.
    """
    return _Stream(os.fspath(path)) if os.fspath(path).endswith(".zst") else open_input(path)


class _Stream:
    """The text in a file of one or more frames."""

    def __init__(self, path: str) -> None:
        self._found = _needed(path)
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        self._rest = b""
        self._begun = False

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def read1(self, size: int) -> bytes:
        """Some of the text, nothing at its end; raises ``EOFError`` where it is cut off, ``zlib.error`` where damaged."""
        del size  # what one piece of the file holds
        while True:
            stream, error = self._found
            if stream.eof:
                self._rest = stream.unused_data + self._rest
                self._found, self._begun = _needed(self._path), False
                continue
            piece, self._rest = self._rest or self._file.read(_PIECE), b""
            if not piece:
                if self._begun:
                    raise EOFError
                return b""
            self._begun = True
            try:
                data: bytes = stream.decompress(piece)
            except error as found:
                raise zlib.error(str(found)) from None
            if data:
                return data


def _needed(path: str) -> tuple[Any, type[Exception]]:
    found = decompressor()
    if found is None:
        raise InvalidEvent(
            f"{path} is packed with Zstandard, which Python reads from 3.14 on: install backports.zstd or zstandard, "
            "or unpack it (zstd -d)"
        )
    return found
