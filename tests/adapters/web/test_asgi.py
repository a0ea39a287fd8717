"""The ASGI middleware: each request with its end, in the caller's scope, and no harm whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from chatsnapshot import Ledger
from chatsnapshot.adapters.web import LedgerMiddleware, extract, inject

CAUSE = "0199d3a2-7c3e-7a00-8000-000000000001"
Told = Callable[..., list[Any]]


def ask(app: Any, url: str = "http://shop/orders", method: str = "GET", **more: Any) -> httpx.Response:
    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, url, **more)

    return asyncio.run(one())


def app_of(ledger: Any, answer: Any, **options: Any) -> Any:
    app = Starlette(routes=[Route("/{rest:path}", answer, methods=["GET", "POST"])])
    app.add_middleware(LedgerMiddleware, ledger=ledger, **options)
    return app


async def fine(request: Request) -> Response:
    return PlainTextResponse("fine", 202)


def test_a_request_is_recorded_with_its_end(ledger: Ledger, told: Told) -> None:
    answer = ask(app_of(ledger, fine, service="orders"), "http://shop/orders/7?token=abc&page=2", "POST")
    assert (answer.status_code, answer.text) == (202, "fine")
    begun, ended = told(ledger)
    assert begun.event_type == "integration.api_triggered"
    assert begun.payload == {
        "call_id": begun.payload["call_id"],
        "service": "orders",
        "operation": "POST /orders/7",
        "method": "POST",
        "url": "/orders/7?token=…&page=…",
    }
    assert begun.source.to_dict() == {"origin": "integration", "runtime": "asgi", "name": "orders"}
    assert begun.causation_id is None
    assert ended.event_type == "integration.response"
    assert ended.causation_id == begun.event_id
    assert (ended.payload["status"], ended.payload["call_id"]) == (202, begun.payload["call_id"])
    assert ended.payload["duration_ns"] > 0
    assert "error" not in ended.payload


def test_what_the_application_records_follows_from_the_request(ledger: Ledger, told: Told) -> None:
    async def records(request: Request) -> Response:
        ledger.record("execution.output", {"value": 1})
        return PlainTextResponse(str(extract(inject({})).cause))

    said = ask(app_of(ledger, records)).text
    begun, output, ended = told(ledger)
    assert {begun.correlation_id} == {output.correlation_id, ended.correlation_id}
    assert output.causation_id == begun.event_id == said


def test_the_callers_scope_goes_on(ledger: Ledger, told: Told) -> None:
    async def runs(request: Request) -> Response:
        with ledger.run(name="inner"):
            pass
        return PlainTextResponse("done")

    with ledger.run("caller", name="outer") as run:
        sent = inject({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    ask(app_of(ledger, runs), headers=sent)
    assert run.started is not None
    (begun,) = told(ledger, "integration.api_triggered")
    assert (begun.correlation_id, begun.causation_id) == ("caller", run.started.event_id)
    assert begun.attributes["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    inner = told(ledger, "execution.run_started")[-1]
    assert inner.causation_id == begun.event_id
    assert inner.correlation_id != "caller"
    assert inner.payload["parent_run_id"] == "caller"


def test_nobodys_word_is_taken_where_that_is_asked_for(ledger: Ledger, told: Told) -> None:
    sent = {"chatsnapshot-context": f"correlation=mine; cause={CAUSE}"}
    for accept in (False, lambda scope: False, lambda scope: 1 / 0):
        ask(app_of(ledger, fine, accept=accept), headers=sent)
    ask(app_of(ledger, fine, accept=lambda scope: scope["path"] == "/orders"), headers=sent)
    begun = told(ledger, "integration.api_triggered")
    assert [one.correlation_id == "mine" for one in begun] == [False, False, False, True]
    assert [one.causation_id for one in begun] == [None, None, None, CAUSE]


def test_hostile_headers_are_as_not_there(ledger: Ledger, told: Told) -> None:
    for text in ("correlation=%00", "correlation=ledger", "x" * 60_000):
        assert ask(app_of(ledger, fine), headers={"chatsnapshot-context": text}).status_code == 202
    assert all(one.causation_id is None for one in told(ledger, "integration.api_triggered"))
    assert all(one.correlation_id != "ledger" for one in told(ledger))


def test_excluded_paths_are_not_recorded(ledger: Ledger, told: Told) -> None:
    app = app_of(ledger, fine, exclude=("/health", "/static/*"))
    for path in ("/health", "/static/a/b.css", "/healthy"):
        ask(app, f"http://shop{path}")
    assert [one.payload["url"] for one in told(ledger, "integration.api_triggered")] == ["/healthy"]


def test_an_exception_goes_on_unchanged_and_is_recorded(ledger: Ledger, told: Told) -> None:
    broken = ValueError("no such order")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise broken

    with pytest.raises(ValueError, match="no such order") as raised:
        ask(LedgerMiddleware(app, ledger))
    assert raised.value is broken
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"] == {"type": "ValueError", "module": "builtins", "message": "no such order"}
    assert "status" not in ended.payload


def test_a_failed_status_shows_as_a_failed_call(ledger: Ledger, told: Told) -> None:
    async def unavailable(request: Request) -> Response:
        return PlainTextResponse("later", 503)

    ask(app_of(ledger, unavailable))
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["status"] == 503
    assert ledger.view("runs", ended.correlation_id).runs[0].errors.integration == 1


def test_the_end_of_a_streamed_answer_is_its_last_part(ledger: Ledger, told: Told) -> None:
    seen: list[int] = []

    async def parts() -> Any:
        for _ in range(3):
            seen.append(len(told(ledger)))
            yield b"x" * 1_000

    async def streams(request: Request) -> Response:
        return StreamingResponse(parts())

    assert len(ask(app_of(ledger, streams)).content) == 3_000
    assert seen == [1, 1, 1]
    assert len(told(ledger, "integration.response")) == 1


def test_an_error_in_the_middle_of_a_stream_is_its_end(ledger: Ledger, told: Told) -> None:
    async def parts() -> Any:
        yield b"x"
        raise ValueError("half way")

    async def streams(request: Request) -> Response:
        return StreamingResponse(parts())

    with pytest.raises(ValueError, match="half way"):
        ask(app_of(ledger, streams))
    (ended,) = told(ledger, "integration.response")
    assert (ended.payload["status"], ended.payload["error"]["message"]) == (200, "half way")


def test_what_runs_after_the_answer_is_in_its_scope_and_ends_nothing_twice(
    ledger: Ledger, told: Told
) -> None:
    async def later() -> None:
        ledger.record("execution.output", {"value": 2})

    async def answers(request: Request) -> Response:
        return PlainTextResponse("done", background=BackgroundTask(later))

    ask(app_of(ledger, answers))
    assert [one.event_type.partition(".")[2] for one in told(ledger)] == [
        "api_triggered",
        "response",
        "output",
    ]


def drive(app: Any, messages: list[dict[str, Any]], fail_on: str = "") -> list[dict[str, Any]]:
    """One request through the bare protocol; ``fail_on``: sending this type of message raises."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == fail_on:
            raise OSError("connection lost")
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/p", "query_string": b"", "headers": []}
    asyncio.run(app(scope, receive, send))
    return sent


async def listens_and_stops(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_client_that_goes_away_is_the_end(ledger: Ledger, told: Told) -> None:
    drive(LedgerMiddleware(listens_and_stops, ledger), [{"type": "http.request", "body": b""}])
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "ClientDisconnected"
    assert ended.payload["status"] == 200


def test_a_connection_that_is_lost_in_sending_is_the_end(ledger: Ledger, told: Told) -> None:
    with pytest.raises(OSError, match="connection lost"):
        drive(LedgerMiddleware(listens_and_stops, ledger), [], fail_on="http.response.body")
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "OSError"


def test_an_application_that_returns_without_an_answer_is_told_apart(ledger: Ledger, told: Told) -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        pass

    drive(LedgerMiddleware(nothing, ledger), [])
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "Incomplete"


def test_a_request_that_is_cancelled_has_its_end(ledger: Ledger, told: Told) -> None:
    async def waits(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(
            middleware({"type": "http", "path": "/p", "headers": []}, unused, unused)
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def unused(*_: Any) -> Any:
        raise AssertionError

    started = asyncio.Event()
    middleware = LedgerMiddleware(waits, ledger)
    asyncio.run(main())
    assert middleware.serving.recorder.flush(10)
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "CancelledError"


def test_websockets_and_the_lifespan_pass_through(ledger: Ledger, told: Told) -> None:
    async def echo(websocket: Any) -> None:
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())
        await websocket.close()

    app = Starlette(routes=[WebSocketRoute("/ws", echo)])
    app.add_middleware(LedgerMiddleware, ledger=ledger)
    with TestClient(app) as client, client.websocket_connect("/ws") as socket:
        socket.send_text("hello")
        assert socket.receive_text() == "hello"
    assert told(ledger) == []


def test_requests_at_the_same_time_keep_their_scopes_apart(ledger: Ledger, told: Told) -> None:
    async def records(request: Request) -> Response:
        await asyncio.sleep(0)
        await ledger.arecord("execution.output", {"value": request.url.path})
        return PlainTextResponse("")

    app = app_of(ledger, records)

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
            await asyncio.gather(
                *(
                    client.get(
                        f"http://shop/{number}", headers={"chatsnapshot-context": f"correlation=c{number}"}
                    )
                    for number in range(20)
                )
            )

    asyncio.run(main())
    outputs = told(ledger, "execution.output")
    assert len(outputs) == 20
    assert all(one.correlation_id == "c" + one.payload["value"][1:] for one in outputs)


def test_secrets_in_a_path_are_not_stored(ledger: Ledger, told: Told) -> None:
    ask(app_of(ledger, fine), "http://shop/hooks/sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ" * 3)
    assert "aB3dE5gH7jK9" not in str([one.payload for one in told(ledger)])


def test_a_ledger_that_takes_nothing_harms_no_request(broken: Any) -> None:
    app = app_of(broken, fine)
    assert [ask(app).status_code for _ in range(3)] == [202, 202, 202]
    assert broken.asked > 0


def test_a_closed_ledger_harms_no_request(ledger: Ledger) -> None:
    app = app_of(ledger, fine)
    ledger.close()
    assert ask(app).text == "fine"


def test_what_was_kept_while_the_store_was_away_is_stored_later(
    ledger: Ledger, broken: Any, told: Told
) -> None:
    middleware = LedgerMiddleware(app_of(ledger, fine, exclude="*"), broken)
    middleware.serving.recorder._retry_seconds_min = 0.01
    ask(middleware)
    broken.record_many = ledger.record_many
    assert middleware.serving.recorder.flush(20)
    assert [one.event_type for one in told(ledger)] == ["integration.api_triggered", "integration.response"]


def test_the_timeline_knows_how_long_a_request_took(ledger: Ledger) -> None:
    sent = {"chatsnapshot-context": "correlation=c"}
    ledger.record("integration.call", {"service": "other"}, correlation_id="c")
    ask(app_of(ledger, fine), headers=sent)
    ledger.record("integration.response", {"service": "other", "status": 200}, correlation_id="c")
    items = ledger.view("timeline", "c").items
    assert [(item.partner, item.open, item.unmatched) for item in items] == [
        (4, False, False),
        (3, False, False),
        (2, False, False),
        (1, False, False),
    ]
