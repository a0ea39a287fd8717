"""Records the calls that ``httpx`` makes, and sends the scope of here and now along with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from typing import TYPE_CHECKING

from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event, SafeRecorder
from chatsnapshot.adapters.web.addresses import shown_url
from chatsnapshot.adapters.web.carrying import carried_here, write_into
from chatsnapshot.adapters.web.exchange import Exchange, new_correlation
from chatsnapshot.adapters.web.header import Carried
from chatsnapshot.errors import MissingExtra

try:
    import httpx
except ImportError:
    raise MissingExtra("recording the calls of httpx", "http") from None

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["AsyncLedgerTransport", "LedgerTransport"]


class _Calls:
    """How the calls of one transport are recorded."""

    def __init__(
        self, ledger: Ledger, carry: bool | Collection[str], redact: object, wait_seconds_max: float
    ) -> None:
        self.recorder = SafeRecorder(
            ledger, adapter="httpx", redact=redact, wait_seconds_max=wait_seconds_max
        )
        self._ledger = ledger
        names = (carry,) if isinstance(carry, str) else carry
        self._carry = names if isinstance(names, bool) else frozenset(name.lower() for name in names)

    def begin(self, request: httpx.Request) -> Exchange | None:
        """The call's events; its headers are in the request then. ``None`` when that went wrong."""
        try:
            url = request.url
            here = carried_here(self._ledger)
            host = url.host
            exchange = Exchange(
                "integration.call",
                correlation_id=new_correlation() if here is None else here.correlation_id,
                cause=None if here is None else here.cause,
                service=header_text(host if url.port is None else f"{host}:{url.port}"),
                method=header_text(request.method, 32) or "?",
                path=url.path,
                url=shown_url(url.scheme, host, url.port, url.path, url.query.decode("latin-1")),
                source={"origin": "integration", "runtime": "httpx"},
            )
            if self._carry is True or (self._carry and host.lower() in self._carry):
                run = None if here is None else here.run_id
                write_into(request.headers, Carried(exchange.correlation_id, exchange.event_id, run))
            return exchange
        except Exception as error:
            self.recorder.note(error)
            return None


def _end(exchange: Exchange, response: httpx.Response | None, error: BaseException | None) -> Event | None:
    return exchange.ended(None if response is None else response.status_code, error)


class LedgerTransport(httpx.BaseTransport):
    """Around another transport: ``httpx.Client(transport=LedgerTransport(snapshot))``.

    A call is an ``integration.call`` before it is sent, and an ``integration.response`` with ``status`` and
    ``duration_ns`` when its answer was read, closed or failed. Both belong to the scope of here and now, or to a
    correlation of their own. Recorded are method and address, without user, password and the values of the query; no
    headers and no bodies. Requests, answers and exceptions go through unchanged but for the headers that are added.

    ``transport``: the one that sends (default: ``httpx.HTTPTransport()``). ``carry``: whether the scope is sent along,
    ``True``, ``False``, or the hosts that it is sent to. ``wait_seconds_max`` bounds how long a recording may take.
    """

    def __init__(
        self,
        ledger: Ledger,
        transport: httpx.BaseTransport | None = None,
        *,
        carry: bool | Collection[str] = True,
        redact: object = "secrets",
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.transport = httpx.HTTPTransport() if transport is None else transport
        self.calls = _Calls(ledger, carry, redact, wait_seconds_max)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        exchange = self.calls.begin(request)
        if exchange is None:
            return self.transport.handle_request(request)
        recorder = self.calls.recorder
        recorder.record(exchange.started)
        try:
            response = self.transport.handle_request(request)
        except BaseException as error:
            _record(recorder, _end(exchange, None, error))
            raise
        if isinstance(response.stream, httpx.SyncByteStream) and not response.is_stream_consumed:
            response.stream = _Stream(response.stream, response, exchange, recorder)
        else:
            _record(recorder, _end(exchange, response, None))
        return response

    def close(self) -> None:
        """Close the transport that sends."""
        self.transport.close()


class AsyncLedgerTransport(httpx.AsyncBaseTransport):
    """As :class:`LedgerTransport`, for ``httpx.AsyncClient``; the default sends with ``httpx.AsyncHTTPTransport()``."""

    def __init__(
        self,
        ledger: Ledger,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        carry: bool | Collection[str] = True,
        redact: object = "secrets",
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.transport = httpx.AsyncHTTPTransport() if transport is None else transport
        self.calls = _Calls(ledger, carry, redact, wait_seconds_max)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        exchange = self.calls.begin(request)
        if exchange is None:
            return await self.transport.handle_async_request(request)
        recorder = self.calls.recorder
        try:
            await recorder.arecord(exchange.started)
            response = await self.transport.handle_async_request(request)
        except BaseException as error:
            await _arecord(recorder, _end(exchange, None, error), error)
            raise
        if isinstance(response.stream, httpx.AsyncByteStream) and not response.is_stream_consumed:
            response.stream = _AsyncStream(response.stream, response, exchange, recorder)
        else:
            await _arecord(recorder, _end(exchange, response, None), None)
        return response

    async def aclose(self) -> None:
        """Close the transport that sends."""
        await self.transport.aclose()


class _Stream(httpx.SyncByteStream):
    """The body of an answer, passed on piece by piece; its end is recorded."""

    def __init__(
        self,
        stream: httpx.SyncByteStream,
        response: httpx.Response,
        exchange: Exchange,
        recorder: SafeRecorder,
    ) -> None:
        self._stream = stream
        self._status = response.status_code
        self._exchange = exchange
        self._recorder = recorder

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except GeneratorExit:
            raise  # the reader stops here; closing ends the call
        except BaseException as error:
            _record(self._recorder, self._exchange.ended(self._status, error))
            raise

    def close(self) -> None:
        try:
            self._stream.close()
        except BaseException as error:
            _record(self._recorder, self._exchange.ended(self._status, error))
            raise
        _record(self._recorder, self._exchange.ended(self._status))


class _AsyncStream(httpx.AsyncByteStream):
    """As :class:`_Stream`."""

    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        response: httpx.Response,
        exchange: Exchange,
        recorder: SafeRecorder,
    ) -> None:
        self._stream = stream
        self._status = response.status_code
        self._exchange = exchange
        self._recorder = recorder

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            await _arecord(self._recorder, self._exchange.ended(self._status, error), error)
            raise

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        except BaseException as error:
            await _arecord(self._recorder, self._exchange.ended(self._status, error), error)
            raise
        await _arecord(self._recorder, self._exchange.ended(self._status), None)


def _record(recorder: SafeRecorder, event: Event | None) -> None:
    if event is not None:
        recorder.record(event)


async def _arecord(recorder: SafeRecorder, event: Event | None, error: BaseException | None) -> None:
    """Record an end; when it was ended from outside nothing may be awaited any more."""
    if event is None:
        return
    if error is None or isinstance(error, Exception):
        await recorder.arecord(event)
    else:
        recorder.hand_over(event)
