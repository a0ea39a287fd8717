"""Reads the members of a ZIP archive as far as they are whole, also of one that is cut off."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chatsnapshot.importers.zstandard import decompressor
from chatsnapshot.limits import MIB

__all__ = ["MEMBER_BYTES_MAX", "Member", "has_directory", "members_of"]

MEMBER_BYTES_MAX = 512 * MIB
"""What one member may have when it is unpacked; one that has more is named and left out."""

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_SIGN = b"PK\x03\x04"
_NEXT = (b"PK\x07\x08", _SIGN, b"PK\x01\x02")
"""What may stand behind a member."""

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

    Of several with one name the last counts. An archive without its directory (cut off), or with a wrong one, is read
    member by member.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = {info.filename: info for info in archive.infolist() if wanted(info.filename)}
    except _NO_DIRECTORY:
        yield from _without_directory(data, wanted)
        return
    if any(_start(data, info.header_offset) is None for info in listed.values()):
        yield from _without_directory(data, wanted)  # bytes were lost or put in between
        return
    for name, info in sorted(listed.items(), key=lambda item: item[1].header_offset):
        offset = info.header_offset
        start = _start(data, offset)
        if start is None or info.flag_bits & 1:
            yield Member(name, offset, b"", "is encrypted")
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
        if not known and method == _STORED:
            packed = packed[: min((at for at in map(packed.find, _NEXT) if at >= 0), default=len(packed))]
        body, problem, used = _unpack(method, packed)
        if problem is None and known and len(packed) < size:
            problem = "is cut off"
        if problem is None and known and zlib.crc32(body) != crc:
            body, problem = b"", "does not match its checksum"
        if wanted(name):
            yield Member(name, offset, body, problem)
        # Behind one that is not whole the next header is looked for, wherever it is.
        offset = data.find(_SIGN, start if problem else start + used)


def _start(data: bytes, offset: int) -> int | None:
    """Where the packed bytes of the member begin whose header is at ``offset``."""
    if offset < 0 or data[offset : offset + 4] != _SIGN or offset + _LOCAL.size > len(data):
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
        found = decompressor()
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
