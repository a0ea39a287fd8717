"""An answer that is sent while its request still arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["Streamed"]


class Streamed(Response):
    """Sends pieces as they come. It never reads from the request, whose body belongs to whoever makes the pieces.

    Starlette's own streaming response reads on to notice a client that goes away, and so eats the body.
    """

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        status_code: int,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._pieces = pieces
        super().__init__(status_code=status_code, media_type=media_type, headers=dict(headers or {}))
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(self._pieces, "aclose", None)
            if close is not None:
                await close()
