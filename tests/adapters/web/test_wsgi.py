"""The WSGI middleware: each request with its end, its body in the request's scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from chatsnapshot import Ledger
from chatsnapshot.adapters.web import LedgerWsgiMiddleware

CAUSE = "0199d3a2-7c3e-7a00-8000-000000000001"
Told = Callable[..., list[Any]]


def ask(app: Any, url: str = "http://shop/orders?a=secret", **more: Any) -> httpx.Response:
    with httpx.Client(transport=httpx.WSGITransport(app=app)) as client:
        return client.get(url, **more)


def test_a_request_is_recorded_in_the_callers_scope_with_its_end(ledger: Ledger, told: Told) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("201 Created", [])
        ledger.record("execution.output", {"value": 1})
        yield b"a"
        ledger.record("execution.output", {"value": 2})
        yield b"b"

    answer = ask(
        LedgerWsgiMiddleware(app, ledger, service="shop"),
        headers={"chatsnapshot-context": f"correlation=c; cause={CAUSE}"},
    )
    assert (answer.status_code, answer.text) == (201, "ab")
    begun, one, two, ended = told(ledger)
    assert {entry.correlation_id for entry in told(ledger)} == {"c"}
    assert begun.causation_id == CAUSE
    assert begun.payload["url"] == "/orders?a=…"
    assert one.causation_id == two.causation_id == ended.causation_id == begun.event_id
    assert ended.payload["status"] == 201


def test_an_exception_goes_on_unchanged(ledger: Ledger, told: Told) -> None:
    broken = ValueError("no")

    def app(environ: Any, start_response: Any) -> Any:
        raise broken

    with pytest.raises(ValueError, match="no") as raised:
        ask(LedgerWsgiMiddleware(app, ledger))
    assert raised.value is broken
    assert told(ledger, "integration.response")[0].payload["error"]["message"] == "no"


def test_a_body_that_is_closed_early_is_its_end_and_is_closed(ledger: Ledger, told: Told) -> None:
    closed = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        try:
            yield b"a"
            yield b"b"
        finally:
            closed.append(True)

    body: Any = LedgerWsgiMiddleware(app, ledger)({"PATH_INFO": "/x"}, lambda *_: None)
    assert next(body) == b"a"
    body.close()
    assert closed == [True]
    (ended,) = told(ledger, "integration.response")
    assert ended.payload["error"]["type"] == "ClientDisconnected"


def test_excluded_paths_and_broken_ledgers_change_nothing(ledger: Ledger, broken: Any, told: Told) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"fine"]

    assert ask(LedgerWsgiMiddleware(app, ledger, exclude="/orders")).text == "fine"
    assert told(ledger) == []
    assert ask(LedgerWsgiMiddleware(app, broken)).text == "fine"
