"""Writes arrays as PostgreSQL's binary protocol has them, because the driver does it element by element.

Format: dimensions, whether there are NULLs, type of the elements, length and lower bound; then each element's length
(-1 for NULL) and bytes, all integers big-endian (``array_recv`` of the server).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from chatsnapshot.stores.postgresql.driver import psycopg

__all__ = ["BytesArray", "IntArray", "LongArray", "TextArray", "UuidArray", "register"]

_HEADER = struct.Struct(">iiIii")
_EMPTY = struct.Struct(">iiI")
_length = struct.Struct(">i").pack
_NULL = _length(-1)
_UUID_LENGTH = _length(16)


class _Array:
    """Bytes that are an array already."""

    __slots__ = ("data",)
    element: int
    array: int

    def __init__(self, parts: Iterable[bytes], count: int, nulls: bool) -> None:
        if count:
            self.data = b"".join((_HEADER.pack(1, nulls, self.element, count, 1), *parts))
        else:
            self.data = _EMPTY.pack(0, 0, self.element)


class BytesArray(_Array):
    """``bytea[]``"""

    element, array = 17, 1001

    def __init__(self, values: Sequence[bytes | None]) -> None:
        super().__init__(_parts(values), len(values), None in values)


class TextArray(_Array):
    """``text[]``"""

    element, array = 25, 1009

    def __init__(self, values: Sequence[str | None]) -> None:
        encoded = [None if value is None else value.encode() for value in values]
        super().__init__(_parts(encoded), len(values), None in values)


class UuidArray(_Array):
    """``uuid[]`` of 16 bytes each"""

    element, array = 2950, 2951

    def __init__(self, values: Sequence[bytes | None]) -> None:
        super().__init__(_parts(values), len(values), None in values)


class IntArray(_Array):
    """``integer[]``"""

    element, array = 23, 1007

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values)
        # A length and a value for each, packed in one go.
        pairs = struct.pack(f">{2 * count}i", *chain.from_iterable((4, value) for value in values))
        super().__init__((pairs,), count, False)


class LongArray(_Array):
    """``bigint[]``"""

    element, array = 20, 1016

    def __init__(self, values: Sequence[int | None]) -> None:
        packed = [None if value is None else value.to_bytes(8, "big", signed=True) for value in values]
        super().__init__(_parts(packed), len(values), None in values)


def _parts(values: Sequence[bytes | None]) -> list[bytes]:
    parts: list[bytes] = []
    add = parts.append
    for value in values:
        if value is None:
            add(_NULL)
        else:
            add(_length(len(value)))
            add(value)
    return parts


def register(connection: psycopg.Connection[Any]) -> None:
    """Let a connection take these arrays as parameters."""
    for dumper in _dumpers:
        connection.adapters.register_dumper(dumper.of, dumper)


class _Dumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    of: type[_Array]

    def dump(self, obj: Any) -> bytes:
        data: bytes = obj.data
        return data


def _dumper(of: type[_Array]) -> type[_Dumper]:
    return type(f"{of.__name__}Dumper", (_Dumper,), {"of": of, "oid": of.array})


_dumpers = [_dumper(of) for of in (BytesArray, TextArray, UuidArray, IntArray, LongArray)]
