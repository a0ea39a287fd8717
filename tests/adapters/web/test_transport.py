"""The httpx transports: each call with its end, the scope sent along, the result as without them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from chatsnapshot import Ledger
from chatsnapshot.adapters.web import AsyncLedgerTransport, LedgerTransport, extract

Told = Callable[..., list[Any]]
URL = "https://user:pass@api.example.com:8443/orders/7?key=sesame&bare-token#top"


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in pieces, that may fail after the first."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        yield b"a"
        if self.error:
            raise self.error
        yield b"b"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


def answering(answer: Any, ledger: Any, seen: list[httpx.Request] | None = None, **options: Any) -> Any:
    """``ask(how)``: one call through either transport, whose inner one answers or raises."""

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    def ask(how: str, url: str = URL) -> httpx.Response:
        if how == "sync":
            with httpx.Client(
                transport=LedgerTransport(ledger, httpx.MockTransport(handle), **options)
            ) as client:
                return client.get(url)

        async def one() -> httpx.Response:
            transport = AsyncLedgerTransport(ledger, httpx.MockTransport(handle), **options)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.get(url)

        return asyncio.run(one())

    return ask


both = pytest.mark.parametrize("how", ["sync", "async"])


@both
def test_a_call_is_recorded_with_its_end_and_no_secret(how: str, ledger: Ledger, told: Told) -> None:
    seen: list[httpx.Request] = []
    ask = answering(lambda _: httpx.Response(201, stream=Pieces()), ledger, seen)
    with ledger.run("r-1", name="x") as run:
        answer = ask(how)
    assert (answer.status_code, answer.text) == (201, "ab")
    (call,) = told(ledger, "integration.call")
    (ended,) = told(ledger, "integration.response")
    assert call.payload == {
        "call_id": call.payload["call_id"],
        "service": "api.example.com:8443",
        "operation": "GET /orders/7",
        "method": "GET",
        "url": "https://api.example.com:8443/orders/7?key=…&…",
    }
    assert run.started is not None
    assert (call.correlation_id, call.causation_id) == ("r-1", run.started.event_id)
    assert (ended.correlation_id, ended.causation_id) == ("r-1", call.event_id)
    assert (ended.payload["status"], ended.payload["call_id"]) == (201, call.payload["call_id"])
    assert ended.payload["duration_ns"] > 0
    received = extract(seen[0].headers)
    assert (received.correlation_id, received.cause, received.run_id) == ("r-1", call.event_id, "r-1")
    assert seen[0].url.userinfo == b"user:pass"
    for secret in ("sesame", "pass", "bare-token", "top"):
        assert secret not in str([entry.payload for entry in told(ledger)])


@both
def test_the_call_is_stored_before_it_is_sent(how: str, ledger: Ledger, told: Told) -> None:
    counts: list[int] = []

    def answer(_: httpx.Request) -> httpx.Response:
        counts.append(len(told(ledger)))
        return httpx.Response(200)

    answering(answer, ledger)(how)
    assert counts == [1]
    assert [one.event_type for one in told(ledger)] == ["integration.call", "integration.response"]


@both
def test_outside_of_a_scope_a_call_has_a_correlation_of_its_own(how: str, ledger: Ledger, told: Told) -> None:
    seen: list[httpx.Request] = []
    ask = answering(lambda _: httpx.Response(200), ledger, seen)
    ask(how)
    ask(how)
    assert len({one.correlation_id for one in told(ledger)}) == 2
    assert extract(seen[0].headers).correlation_id == told(ledger)[0].correlation_id


@both
def test_an_error_of_the_call_goes_on_unchanged(how: str, ledger: Ledger, told: Told) -> None:
    refused = httpx.ConnectError("refused")
    with pytest.raises(httpx.ConnectError) as raised:
        answering(refused, ledger)(how)
    assert raised.value is refused
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "ConnectError"
    assert "status" not in ended.payload


@both
def test_an_error_in_the_body_goes_on_unchanged(how: str, ledger: Ledger, told: Told) -> None:
    lost = httpx.ReadError("lost")
    pieces = Pieces(lost)
    with pytest.raises(httpx.ReadError) as raised:
        answering(lambda _: httpx.Response(200, stream=pieces), ledger)(how)
    assert raised.value is lost
    assert pieces.closed == 1
    (ended,) = told(ledger, "integration.response")
    assert (ended.payload["status"], ended.payload["error"]["message"]) == (200, "lost")


@both
def test_hosts_that_are_not_named_are_sent_nothing(how: str, ledger: Ledger, told: Told) -> None:
    for carry, goes in (
        (False, False),
        (["other.example"], False),
        (["API.example.com"], True),
        ("api.example.com", True),
    ):
        seen: list[httpx.Request] = []
        answering(lambda _: httpx.Response(200), ledger, seen, carry=carry)(how)
        assert bool(extract(seen[0].headers)) is goes
        assert ("baggage" in seen[0].headers) is goes
    assert len(told(ledger, "integration.call")) == 4


@both
def test_a_ledger_that_takes_nothing_harms_no_call(how: str, broken: Any) -> None:
    assert answering(lambda _: httpx.Response(200, stream=Pieces()), broken)(how).text == "ab"
    assert broken.asked > 0


@both
def test_a_closed_ledger_harms_no_call(how: str, ledger: Ledger) -> None:
    ledger.close()
    assert answering(lambda _: httpx.Response(200, stream=Pieces()), ledger)(how).text == "ab"


def test_a_streamed_answer_ends_when_it_was_read_or_closed(ledger: Ledger, told: Told) -> None:
    transport = LedgerTransport(ledger, httpx.MockTransport(lambda _: httpx.Response(200, stream=Pieces())))
    with httpx.Client(transport=transport) as client:
        with client.stream("GET", URL) as answer:
            assert told(ledger, "integration.response") == []
            assert next(answer.iter_raw()) == b"a"
        assert len(told(ledger, "integration.response")) == 1
        with client.stream("GET", URL):
            pass
    assert len(told(ledger, "integration.response")) == 2


def test_an_async_call_that_is_cancelled_has_its_end(ledger: Ledger, told: Told) -> None:
    async def main() -> None:
        async def hangs(request: httpx.Request) -> httpx.Response:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        asked = asyncio.Event()
        async with httpx.AsyncClient(
            transport=AsyncLedgerTransport(ledger, httpx.MockTransport(hangs))
        ) as client:
            task = asyncio.ensure_future(client.get(URL))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client._transport.calls.recorder.flush(10)  # type: ignore[attr-defined]

    asyncio.run(main())
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "CancelledError"


def test_an_odd_address_is_recorded_as_it_can_be(ledger: Ledger, told: Told) -> None:
    long = "https://[::1]:9/" + "p" * 5_000 + "?" + "&".join(f"k{n}=v" for n in range(50))
    answering(lambda _: httpx.Response(200), ledger)("sync", long)
    (call,) = told(ledger, "integration.call")
    assert call.payload["url"].startswith("https://[::1]:9/ppp")
    assert len(call.payload["url"]) < 1_300
    assert "=v" not in call.payload["url"]


def test_closing_reaches_the_transport_that_sends(ledger: Ledger) -> None:
    closed = []

    class Inner(httpx.MockTransport):
        def close(self) -> None:
            closed.append("sync")

        async def aclose(self) -> None:
            closed.append("async")

    LedgerTransport(ledger, Inner(lambda _: httpx.Response(200))).close()
    asyncio.run(AsyncLedgerTransport(ledger, Inner(lambda _: httpx.Response(200))).aclose())
    assert closed == ["sync", "async"]
