"""A body that breaks off leaves nothing in memory, however long its error is kept."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from chatsnapshot.ndjson import read_lines
from chatsnapshot.server.bodies import Held, whole
from chatsnapshot.server.settings import Settings

PIECE = b"x" * 60_000


def kept(error: BaseException) -> int:
    """Bytes of buffers that the frames of an error hold on to."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return sum(len(one) for frame in frames for one in frame.f_locals.values() if isinstance(one, bytearray))


def test_an_unfinished_line_goes_with_its_upload() -> None:
    class Broken:
        left = 5

        def read1(self, size: int, /) -> bytes:
            self.left -= 1
            if not self.left:
                raise ClientDisconnect
            return PIECE

    with pytest.raises(ClientDisconnect) as caught:
        list(read_lines(Broken(), 1_000_000))
    assert kept(caught.value) == 0


def test_an_unfinished_document_goes_with_its_request() -> None:
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": PIECE, "more_body": True}] * 4
    messages.append({"type": "http.disconnect"})
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    held = Held(1_000_000)
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    with pytest.raises(ClientDisconnect) as caught:
        asyncio.run(whole(request, Settings(ledgers={"main": "memory:"}), held))
    assert kept(caught.value) == 0
    held.take(1_000_000)  # all of it is there again
