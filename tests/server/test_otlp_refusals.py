"""A store that takes nothing: the exporter is told to send again, and what it sends again is stored once."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import httpx
import pytest

from chatsnapshot.errors import CommitUncertain, StoreFull, StoreUnavailable
from chatsnapshot.server.app import application
from chatsnapshot.server.service import Service
from chatsnapshot.server.settings import Settings

SPANS = {
    "resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "1" * 32, "spanId": "2" * 16, "name": "a"}]}]}]
}


def asked(settings: Settings, tries: Any, **sent: Any) -> list[httpx.Response]:
    """The answers to the same request, with ``tries`` done to the ledger before each."""

    async def run() -> list[httpx.Response]:
        service = Service(settings)
        app = application(service)
        answers = []
        await service.start()
        try:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                for prepare in tries:
                    prepare(service)
                    answers.append(await client.post("/v1/traces", **(sent or {"json": SPANS})))
        finally:
            await service.stop()
        return answers

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StoreUnavailable("the disk is away"), "store-unavailable"),
        (StoreFull("the disk is full"), "store-full"),
        (CommitUncertain("the sync failed", []), "commit-uncertain"),
    ],
)
def test_what_the_store_does_not_take_is_to_be_sent_again(
    monkeypatch: Any, error: Exception, kind: str
) -> None:
    broken: list[Any] = []

    def fails(service: Any) -> None:
        store = service.ledgers["main"]._store

        def append(groups: Any) -> Any:
            raise error

        broken.append((store, store.append))
        store.append = append

    def works(service: Any) -> None:
        store, append = broken[0]
        store.append = append

    first, second, third = asked(Settings(ledgers={"main": "memory:"}), [fails, works, lambda service: None])
    assert (first.status_code, first.json()["type"].rpartition(":")[2]) == (503, kind)
    assert int(first.headers["retry-after"]) >= 1
    assert (second.status_code, second.json()) == (third.status_code, third.json()) == (200, {})


def test_too_much_at_once_is_to_be_sent_again() -> None:
    settings = Settings(ledgers={"main": "memory:"}, bodies_bytes_max=10)
    (answer,) = asked(settings, [lambda service: None])
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_without_the_extra_json_is_taken_and_protobuf_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    settings = Settings(ledgers={"main": "memory:"})
    assert asked(settings, [lambda service: None])[0].status_code == 200
    sent = {"content": b"", "headers": {"content-type": "application/x-protobuf"}}
    (answer,) = asked(settings, [lambda service: None], **sent)
    assert answer.status_code == 415 and "chatsnapshot[otlp]" in answer.json()["detail"]
