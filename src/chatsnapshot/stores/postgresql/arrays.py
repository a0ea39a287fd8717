"""Writes arrays as PostgreSQL's binary protocol has them, because the driver does it element by element.

Format: dimensions, whether there are NULLs, type of the elements, length and lower bound; then each element's length
(-1 for NULL) and bytes, all integers big-endian (``array_recv`` of the server).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeVar

from chatsnapshot.stores.postgresql.driver import psycopg

__all__ = ["BytesArray", "IntArray", "LongArray", "TextArray", "UuidArray", "register"]

A = TypeVar("A", bound="_Array")

_HEADER = struct.Struct(">iiIii")
_EMPTY = struct.Struct(">iiI")
_length = struct.Struct(">i").pack
_NULL = _length(-1)


class _Array:
    """Bytes that are an array already."""

    __slots__ = ("data",)
    data: bytes | None
    element: int
    array: int

    def __init__(self, elements: bytes, count: int, nulls: bool) -> None:
        if count:
            self.data = _HEADER.pack(1, nulls, self.element, count, 1) + elements
        else:
            self.data = _EMPTY.pack(0, 0, self.element)

    @classmethod
    def nothing(cls: type[A]) -> A:
        """NULL in the place of an array."""
        made: A = _nothing(cls)  # type: ignore[arg-type]
        return made

    @classmethod
    def shortest(cls: type[A], values: Sequence[Any]) -> A:
        """One value where all are the same, and NULL where that one is NULL."""
        first = values[0]
        if values.count(first) < len(values):
            return cls(values)  # type: ignore[call-arg, arg-type]
        return cls.nothing() if first is None else cls([first])  # type: ignore[call-arg, arg-type]


@cache
def _nothing(kind: Any) -> Any:
    made = kind.__new__(kind)
    made.data = None
    return made


class BytesArray(_Array):
    """``bytea[]``"""

    element, array = 17, 1001

    def __init__(self, values: Sequence[bytes | None]) -> None:
        nulls = None in values
        super().__init__(_with_nulls(values) if nulls else _joined(values), len(values), nulls)  # type: ignore[arg-type]


class TextArray(_Array):
    """``text[]``"""

    element, array = 25, 1009

    def __init__(self, values: Sequence[str | None]) -> None:
        nulls = None in values
        if nulls:
            encoded = _with_nulls([None if value is None else value.encode() for value in values])
        else:
            encoded = _joined(list(map(str.encode, values)))  # type: ignore[arg-type]
        super().__init__(encoded, len(values), nulls)

    @classmethod
    def few(cls, values: Sequence[str]) -> TextArray:
        """As :meth:`shortest`, for texts of which there are few in a ledger: one alone is kept."""
        first = values[0]
        return cls(values) if values.count(first) < len(values) else _alone(first)


@lru_cache(maxsize=1024)
def _alone(text: str) -> TextArray:
    return TextArray([text])


class UuidArray(BytesArray):
    """``uuid[]`` of 16 bytes each"""

    element, array = 2950, 2951


class IntArray(_Array):
    """``integer[]``"""

    element, array = 23, 1007

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values)
        # A length and a value for each, packed in one go.
        pairs = struct.pack(f">{2 * count}i", *chain.from_iterable((4, value) for value in values))
        super().__init__(pairs, count, False)


class LongArray(_Array):
    """``bigint[]``"""

    element, array = 20, 1016

    def __init__(self, values: Sequence[int | None]) -> None:
        packed = [None if value is None else value.to_bytes(8, "big", signed=True) for value in values]
        super().__init__(_with_nulls(packed), len(values), None in values)


def _joined(values: Sequence[bytes]) -> bytes:
    """Lengths and values, one after another."""
    sizes = list(map(len, values))
    if sizes and sizes.count(sizes[0]) == len(sizes):
        length = _length(sizes[0])
        return length + length.join(values)
    return b"".join(chain.from_iterable(zip(map(_length, sizes), values, strict=True)))


def _with_nulls(values: Sequence[bytes | None]) -> bytes:
    if values.count(None) == len(values):
        return _NULL * len(values)
    return b"".join(_NULL if value is None else _length(len(value)) + value for value in values)


def register(connection: psycopg.Connection[Any]) -> None:
    """Let a connection take these arrays as parameters, and give ids as 16 bytes."""
    connection.adapters.register_loader("uuid", psycopg.types.string.ByteaBinaryLoader)
    for dumper in _dumpers:
        connection.adapters.register_dumper(dumper.of, dumper)


class _Dumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    of: type[_Array]

    def dump(self, obj: Any) -> bytes | None:
        data: bytes | None = obj.data
        return data


def _dumper(of: type[_Array]) -> type[_Dumper]:
    return type(f"{of.__name__}Dumper", (_Dumper,), {"of": of, "oid": of.array})


_dumpers = [_dumper(of) for of in (BytesArray, TextArray, UuidArray, IntArray, LongArray)]
