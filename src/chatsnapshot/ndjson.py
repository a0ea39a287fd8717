"""Reads newline-delimited JSON: numbered lines of bounded length, each held to strict JSON."""

from __future__ import annotations

import json
import re
import select
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import nested_deeper
from chatsnapshot.limits import DEFAULTS

__all__ = ["ByteStream", "Line", "decode_object", "read_lines"]

CHUNK_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"
_LONE = re.compile(rb"\\u[dD][89a-fA-F]")
_KINDS = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "true or false", type(None): "null",
}  # fmt: skip


@runtime_checkable
class ByteStream(Protocol):
    """A binary file, pipe or decompressor: ``read1(n)`` gives what is there, at most ``n`` bytes."""

    def read1(self, size: int, /) -> bytes:
        """At most ``size`` bytes, none at the end."""


class Line(NamedTuple):
    """One line of the input.

    ``number`` counts from 1, blank lines included. ``data`` is the line without blanks at its ends, empty when ``reason``
    says why it cannot be used. ``torn`` says that the input ended before the line did.
    """

    number: int
    data: bytes
    reason: str | None = None
    torn: bool = False


def read_lines(stream: ByteStream, bytes_max: int) -> Iterator[Line | None]:
    """The lines of a stream that are not blank; ``None`` where no more input is there at the moment.

    A line longer than ``bytes_max`` is passed over in pieces and comes with a reason. CR LF ends a line too; a byte order
    mark at the very beginning is left out.
    """
    number = 0
    held = bytearray()
    dropped = False
    try:
        while chunk := stream.read1(CHUNK_BYTES):
            first, *rest = chunk.split(b"\n")
            for piece in (first, *rest[:-1]) if rest else ():
                number += 1
                too_long = dropped or len(held) + len(piece) > bytes_max
                data = b"" if too_long else (bytes(held) + piece if held else piece).strip()
                held.clear()
                dropped = False
                if number == 1 and data.startswith(_BOM):
                    data = data[len(_BOM) :]
                if too_long:
                    yield Line(number, b"", _too_long(bytes_max))
                elif data:
                    yield Line(number, data)
            if not dropped:
                held += rest[-1] if rest else first
            if len(held) > bytes_max:
                held.clear()
                dropped = True
            if not _more_is_there(stream):
                yield None
    except (EOFError, zlib.error) as error:
        yield Line(number + 1, b"", f"the compressed data is damaged or ends early: {error}")
        return
    except OSError as error:
        if error.errno is not None:
            raise
        yield Line(number + 1, b"", f"the compressed data is damaged: {error}")  # gzip.BadGzipFile
        return
    except BaseException:
        held.clear()  # or the error keeps it, by way of this frame, until somebody collects garbage
        raise
    if dropped:
        yield Line(number + 1, b"", _too_long(bytes_max))
    elif last := bytes(held).strip():
        yield Line(number + 1, last.removeprefix(_BOM) if number == 0 else last, None, True)


def _too_long(bytes_max: int) -> str:
    return f"too long: more than {bytes_max:,} bytes"


def _more_is_there(stream: ByteStream) -> bool:
    """Whether reading on would not wait; what cannot be asked is taken to be ready."""
    more: Callable[[], bool] | None = getattr(stream, "more", None)
    if more is not None:
        return more()
    try:
        return bool(select.select([stream.fileno()], [], [], 0)[0])  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return True


def decode_object(data: bytes, depth_max: int = DEFAULTS.json_depth_max) -> dict[str, Any]:
    """The JSON object of a line; raises :class:`InvalidEvent` saying why it is none.

    Strict (RFC 8259, and I-JSON of RFC 7493 where that is stricter): UTF-8, no NaN, no lone surrogates, no key twice.
    """
    try:
        value = msgspec.json.decode(data)
        # What is written again byte for byte cannot have had a key twice; most lines pass here, fast.
        plain = msgspec.json.encode(value) == msgspec.json.format(data, indent=-1)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidEvent(_why_not(data, error)) from None
    if nested_deeper(data, value, depth_max):
        raise InvalidEvent("nested too deeply")
    if type(value) is not dict:
        raise InvalidEvent(f"not a JSON object, but {_KINDS[type(value)]}")
    if not plain:
        try:
            json.loads(data, object_pairs_hook=_once, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            raise InvalidEvent(_why_not(data, error)) from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidEvent(f"the key {twice!r:.80} stands twice in one object")
    return found


def _why_not(data: bytes, error: Exception) -> str:
    """Why a line is not JSON, in words that say where."""
    try:
        text = data.decode()
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 (byte {wrong.start + 1})"
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=str, parse_float=str)
    except RecursionError:
        return "nested too deeply"
    except json.JSONDecodeError as wrong:
        return f"not JSON: {wrong.msg.removesuffix(' starting at')} at column {wrong.colno}"
    except ValueError as wrong:
        return f"not JSON: {wrong}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if _LONE.search(data):
        return "a string has a lone surrogate"
    return f"not JSON: {error}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
