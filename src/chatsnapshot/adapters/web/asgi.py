"""Records the requests of an ASGI application, each in a scope of its own that goes on from the caller's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.web.addresses import shown_path
from chatsnapshot.adapters.web.exchange import Exchange
from chatsnapshot.adapters.web.serving import Accept, Serving, aborted
from chatsnapshot.scope import Scope

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["LedgerMiddleware"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class LedgerMiddleware:
    """ASGI 3 middleware: ``app.add_middleware(LedgerMiddleware, ledger=snapshot)``, or around any application.

    A request is an ``integration.api_triggered``, caused by the caller's event where it brought one; all that is recorded
    while it is answered has that event as cause, in the caller's correlation or in a new one. Its end is an
    ``integration.response`` with ``status`` and ``duration_ns`` up to the last byte, and ``error`` when the application
    raised, the client went away, or the answer did not get to its end. Bodies and the values of queries are not recorded.
    Websockets and the lifespan pass through.

    ``service``: the name that is recorded. ``exclude``: paths, as patterns with ``*``. ``accept=False`` takes nobody's
    word for correlation and cause (for applications that strangers reach), a function of the ASGI scope decides.
    ``wait_seconds_max`` bounds how long a recording may hold up a request; a ledger that is not well harms none.
    """

    def __init__(
        self,
        app: App,
        ledger: Ledger,
        *,
        service: str | None = None,
        exclude: Collection[str] = (),
        accept: Accept = True,
        redact: object = "secrets",
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.app = app
        self.serving = Serving(
            ledger,
            service=service,
            exclude=exclude,
            accept=accept,
            redact=redact,
            wait_seconds_max=wait_seconds_max,
            adapter="asgi",
        )

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = self._begin(scope) if scope["type"] == "http" else None
        if begun is None:
            await self.app(scope, receive, send)
            return
        exchange, around = begun
        answer = _Answer(exchange, self.serving, receive, send)
        try:
            await self.serving.recorder.arecord(exchange.started)
            async with around:
                await self.app(scope, answer.receive, answer.send)
        except Exception as error:
            await answer.failed(error)
            raise
        except BaseException as error:
            answer.cancelled(error)
            raise
        await answer.returned()

    def _begin(self, scope: MutableMapping[str, Any]) -> tuple[Exchange, Scope] | None:
        try:
            path = str(scope.get("path", "/"))
            if self.serving.leaves_out(path):
                return None
            shown = shown_path(path, bytes(scope.get("query_string", b"")).decode("latin-1"))
            return self.serving.begin(scope, scope.get("headers"), str(scope.get("method", "?")), path, shown)
        except Exception as error:
            self.serving.recorder.note(error)
            return None


class _Answer:
    """Watches what one application receives and sends; passes all of it on unchanged."""

    def __init__(self, exchange: Exchange, serving: Serving, receive: Receive, send: Send) -> None:
        self._exchange = exchange
        self._recorder = serving.recorder
        self._receive = receive
        self._send = send
        self._status: int | None = None
        self._gone = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._gone = True
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        kind = message["type"]
        if kind == "http.response.start":
            status = message.get("status")
            self._status = status if isinstance(status, int) else None
        elif kind == "http.response.pathsend" or (
            kind in ("http.response.body", "http.response.zerocopysend") and not message.get("more_body")
        ):
            await self._end(None)

    async def returned(self) -> None:
        """The application is through; the answer had its last part, or never gets it."""
        if self._exchange.over:
            return
        if self._gone:
            await self._end(aborted("the client went away before the end of the answer"))
        else:
            await self._end(aborted("the application returned before the end of the answer", "Incomplete"))

    async def failed(self, error: Exception) -> None:
        """The application raised."""
        await self._end(error)

    def cancelled(self, error: BaseException) -> None:
        """The answer was ended from outside: nothing may be awaited any more."""
        event = self._exchange.ended(self._status, error)
        if event is not None:
            self._recorder.hand_over(event)

    async def _end(self, error: Exception | dict[str, str] | None) -> None:
        event = self._exchange.ended(self._status, error)
        if event is not None:
            await self._recorder.arecord(event)
