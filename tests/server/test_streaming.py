"""An answer that is sent piece by piece ends as an answer ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from chatsnapshot.server.problems import Problem
from chatsnapshot.server.streaming import Streamed


def test_an_answer_whose_key_is_revoked_ends_as_an_answer_ends() -> None:
    async def work() -> None:
        told = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            await told.wait()

        async def send(message: Any) -> None:
            sent.append((message["type"], message.get("more_body")))

        async def receive() -> Any:
            calls.append("receive")
            if len(calls) == 1:
                raise Problem(401, "key", "this key is not known here")
            told.set()  # whoever makes the pieces ends them a little later
            await asyncio.Event().wait()

        answer = Streamed(pieces(), status_code=200, media_type="text/plain", disconnected=receive)
        await asyncio.wait_for(answer({"type": "http"}, receive, send), 20)

    calls: list[str] = []
    sent: list[tuple[str, Any]] = []
    asyncio.run(work())
    assert sent[-1] == ("http.response.body", False)
