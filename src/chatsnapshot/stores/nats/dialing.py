"""A NATS client, connected within a time or let go of with its socket: nats-py leaves that of a broken handshake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["dialed", "hang_up"]

_HANG_UP_SECONDS = 2.0


async def dialed(seconds: float, enough: Callable[[], bool] = lambda: False, **options: Any) -> Client | None:
    """A client connected with these options; ``None`` after so long, or when ``enough`` says that it has tried enough.

    Raises ``ImportError`` without nats-py, or without nkeys where the options need it, and what connecting raises.
    """
    client = _client()
    connecting = asyncio.ensure_future(client.connect(**options))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    connected = False
    try:
        while not connecting.done() and loop.time() < deadline and not enough():
            await asyncio.wait([connecting], timeout=0.02)
        if connecting.done():
            connecting.result()
            connected = True
            return client
        return None
    finally:
        if not connecting.done():
            connecting.cancel()
            await asyncio.wait([connecting])
        if not connected:
            await hang_up(client)


def _client() -> Client:
    from nats.aio.client import Client

    class Tidy(Client):
        """Closes the socket of a handshake that broke off while it was connecting again, where nats-py forgets it."""

        async def _connect_to_server(self, s: Any) -> None:
            broken: Any = self._transport
            if broken is not None:
                broken.close()
            await super()._connect_to_server(s)

    return Tidy()


async def hang_up(client: Client) -> None:
    """Close a client, and its socket when an error has begun to close it and nobody waited; never raises."""
    try:
        await asyncio.wait_for(client.close(), _HANG_UP_SECONDS)
    except Exception:
        pass
    transport = getattr(client, "_transport", None)
    if transport is not None:
        try:
            transport.close()
            await asyncio.wait_for(transport.wait_closed(), _HANG_UP_SECONDS)
        except Exception:
            pass
