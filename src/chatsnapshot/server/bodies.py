"""Reads request bodies: decompressed, counted and timed while they arrive, never more in memory than is allowed."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from chatsnapshot.limits import KIB
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.settings import Settings

__all__ = ["Held", "chunks", "media_type", "whole"]

_CHUNK_BYTES = 64 * KIB
_RATIO_FROM_BYTES = 1024 * KIB
"""What a small body grows to is not looked at."""
_WHOLE_SECONDS_FACTOR = 4
"""A body that is held whole may take so many times the silence that is allowed."""


class Held:
    """Counts the bytes that requests hold at once; beyond the limit the next ones are sent away."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max

    def take(self, count: int) -> None:
        """Count bytes in; raises :class:`Problem` 503 when there is no room for them."""
        if self.bytes + count > self.bytes_max:
            raise Problem(
                503, "overloaded", "too much is on its way into this service; try again soon", retry_after=1
            )
        self.bytes += count

    def give(self, count: int) -> None:
        """Count bytes out."""
        self.bytes -= count


def media_type(request: Request) -> str:
    """The media type of the body, without parameters, in lower case; empty when it is not said."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def chunks(request: Request, settings: Settings) -> AsyncIterator[bytes]:
    """The body in pieces of at most 64 KiB as they arrive, decompressed.

    Raises :class:`Problem`: 415 for an encoding that is not taken, 400 for data that does not decompress, 413 for a
    compressed body that grows beyond the ratio allowed, 408 when nothing new arrives for too long.
    """
    encodings = [one.strip().lower() for one in request.headers.get("content-encoding", "").split(",")]
    encodings = [one for one in encodings if one not in ("", "identity")]
    if encodings not in ([], ["gzip"]):
        raise Problem(
            415,
            "content-encoding",
            "a body is sent as it is or with Content-Encoding: gzip, once",
            headers={"Accept-Encoding": "gzip"},
        )
    raw = _timed(request, settings.body_seconds_max)
    async for piece in _unzipped(raw, settings.gzip_ratio_max) if encodings else raw:
        for start in range(0, len(piece), _CHUNK_BYTES):
            yield piece[start : start + _CHUNK_BYTES]


async def whole(
    request: Request,
    settings: Settings,
    held: Held,
    bytes_max: int | None = None,
    limit: str = "body_bytes_max",
) -> bytes:
    """The body, held in memory; raises :class:`Problem` as :func:`chunks`, 413 when it is too large.

    What is held stays counted in ``held`` until the caller gives it back. ``bytes_max`` is the limit of this name in
    the settings, where it is another one.
    """
    bytes_max = settings.body_bytes_max if bytes_max is None else bytes_max
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and len(stated) < 20 and int(stated) > bytes_max:
        raise _too_large(bytes_max, limit)
    body = bytearray()
    deadline = asyncio.get_running_loop().time() + settings.body_seconds_max * _WHOLE_SECONDS_FACTOR
    try:
        async for piece in chunks(request, settings):
            if len(body) + len(piece) > bytes_max:
                raise _too_large(bytes_max, limit)
            if asyncio.get_running_loop().time() > deadline:
                raise _too_slow()
            held.take(len(piece))
            body += piece
    except BaseException:
        held.give(len(body))
        body.clear()  # or the error keeps it, by way of this frame, for as long as somebody keeps the error
        raise
    return bytes(body)


def _too_large(bytes_max: int, limit: str) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"a body of this kind has at most {bytes_max:,} bytes; send several, or lines (application/x-ndjson)",
        limit=limit,
        allowed=bytes_max,
    )


def _too_slow() -> Problem:
    return Problem(
        408, "slow-body", "the body came too slowly; send it again", headers={"Connection": "close"}
    )


async def _timed(request: Request, seconds: float) -> AsyncIterator[bytes]:
    """What arrives, each piece within the time. Without a task for each wait, as ``asyncio.wait_for`` makes one."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    late = False

    def give_up() -> None:
        nonlocal late
        late = True
        task.cancel()

    stream = request.stream()
    while True:
        timer = loop.call_later(seconds, give_up)
        try:
            piece = await stream.__anext__()
        except StopAsyncIteration:
            return
        except asyncio.CancelledError:
            if not late:
                raise
            if sys.version_info >= (3, 11):
                task.uncancel()
            raise _too_slow() from None
        finally:
            timer.cancel()
        if piece:
            yield piece


async def _unzipped(raw: AsyncIterator[bytes], ratio_max: int) -> AsyncIterator[bytes]:
    unzip = zlib.decompressobj(wbits=31)
    taken = given = 0
    async for piece in raw:
        taken += len(piece)
        while piece:
            if unzip.eof:
                raise Problem(400, "gzip", "there is more after the end of the compressed body")
            try:
                out = unzip.decompress(piece, _CHUNK_BYTES)
            except zlib.error as error:
                raise Problem(400, "gzip", f"the compressed body is damaged: {error}") from None
            given += len(out)
            if given > _RATIO_FROM_BYTES and given > taken * ratio_max:
                raise Problem(
                    413,
                    "gzip-ratio",
                    f"a compressed body grows to at most {ratio_max} times its size; send it as it is",
                    limit="gzip_ratio_max",
                    allowed=ratio_max,
                )
            piece = unzip.unconsumed_tail or unzip.unused_data
            if out:
                yield out
            elif not piece:
                break
    if not unzip.eof:
        raise Problem(400, "gzip", "the compressed body ends early")
