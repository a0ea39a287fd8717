"""Reads the members of a ZIP archive as far as they are whole, also of one that is cut off."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chatsnapshot.limits import MIB

__all__ = ["MEMBER_BYTES_MAX", "Member", "has_directory", "members_of"]

MEMBER_BYTES_MAX = 512 * MIB
"""What one member may have when it is unpacked; one that has more is named and left out."""

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_SIGN = b"PK\x03\x04"
_SIZES_LATER = 0x08
_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_PIECE = 64 * 1024

_NO_DIRECTORY = (
    *(zipfile.BadZipFile, OSError, ValueError, struct.error),
    *(NotImplementedError, OverflowError, IndexError, EOFError),
)

Wanted = Callable[[str], bool]


class Member(NamedTuple):
    """One member: its name, the byte at which it begins, what is whole of it, and why that is not all."""

    name: str
    offset: int
    data: bytes
    problem: str | None = None


def has_directory(data: bytes) -> bool:
    """Whether the directory at the end of the archive is there, without which it is cut off or damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)):
            return True
    except _NO_DIRECTORY:
        return False


def members_of(data: bytes, wanted: Wanted) -> Iterator[Member]:
    """The members that are wanted, in the order of the archive; never raises.

    Of several with one name the last counts. An archive without its directory (cut off) is read member by member.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = {info.filename: info for info in archive.infolist() if wanted(info.filename)}
    except _NO_DIRECTORY:
        yield from _without_directory(data, wanted)
        return
    for name, info in sorted(listed.items(), key=lambda item: item[1].header_offset):
        offset = info.header_offset
        start = _start(data, offset)
        if start is None or info.flag_bits & 1:
            told = "is encrypted" if start is not None else "is not where the archive's directory says"
            yield Member(name, offset, b"", told)
            continue
        packed = data[start : start + info.compress_size]
        body, problem, _ = _unpack(info.compress_type, packed)
        if problem is None and zlib.crc32(body) != info.CRC:
            body, problem = b"", "does not match its checksum"
        yield Member(name, offset, body, problem)


def _without_directory(data: bytes, wanted: Wanted) -> Iterator[Member]:
    """Members one after the other, each from its own header."""
    offset = data.find(_SIGN)
    while offset >= 0:
        start = _start(data, offset)
        if start is None:
            return
        _, _, flags, method, _, _, crc, size, _, length, _ = _LOCAL.unpack_from(data, offset)
        name = data[offset + _LOCAL.size : offset + _LOCAL.size + length].decode("utf-8", "replace")
        known = not flags & _SIZES_LATER and size != 0xFFFFFFFF
        packed = data[start : start + size] if known else data[start:]
        if wanted(name):
            body, problem, used = _unpack(method, packed)
            if problem is None and known and len(packed) < size:
                problem = "is cut off"
            if problem is None and known and zlib.crc32(body) != crc:
                body, problem = b"", "does not match its checksum"
            yield Member(name, offset, body, problem)
        else:
            used = 0
        offset = data.find(_SIGN, start + (size if known else used))


def _start(data: bytes, offset: int) -> int | None:
    """Where the packed bytes of the member begin whose header is at ``offset``."""
    if data[offset : offset + 4] != _SIGN or offset + _LOCAL.size > len(data):
        return None
    *_, name, extra = _LOCAL.unpack_from(data, offset)
    start = offset + _LOCAL.size + int(name) + int(extra)
    return start if start <= len(data) else None


def _unpack(method: int, packed: bytes) -> tuple[bytes, str | None, int]:
    """What is in a member, what is wrong with it, and how many packed bytes that took."""
    if method == _STORED:
        return packed, None, len(packed)
    if method == _DEFLATED:
        return _inflate(zlib.decompressobj(-zlib.MAX_WBITS), zlib.error, packed)
    if method == _ZSTANDARD:
        found = _zstandard()
        if found is None:
            told = (
                "is packed with Zstandard, which Python reads from 3.14 on: install backports.zstd or zstandard, "
                "or convert the log with 'inspect log convert'"
            )
            return b"", told, 0
        return _inflate(*found, packed)
    return b"", f"is packed by a method that is not read here ({method})", 0


def _inflate(stream: Any, error: type[Exception], packed: bytes) -> tuple[bytes, str | None, int]:
    """Piece by piece, so that of damaged data what comes before the damage is there."""
    parts: list[bytes] = []
    size = 0
    for place in range(0, len(packed), _PIECE):
        try:
            part = stream.decompress(packed[place : place + _PIECE])
        except error:
            return b"".join(parts), "is damaged", place
        size += len(part)
        if size > MEMBER_BYTES_MAX:
            return b"", f"has more than {MEMBER_BYTES_MAX:,} bytes unpacked", place
        parts.append(part)
        if stream.eof:
            unused = len(stream.unused_data) + max(0, len(packed) - place - _PIECE)
            return b"".join(parts), None, len(packed) - unused
    return b"".join(parts), "is cut off", len(packed)


def _zstandard() -> tuple[Any, type[Exception]] | None:
    """A decompressor of Zstandard, from the standard library or a package that happens to be installed."""
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
