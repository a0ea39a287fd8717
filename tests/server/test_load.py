"""What was answered is stored, whatever ends the service; what is too much is sent away; memory has a bound."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import chatsnapshot
from chatsnapshot.errors import StoreFull, StoreUnavailable
from chatsnapshot.server.app import application
from chatsnapshot.server.service import Service
from chatsnapshot.server.settings import Settings
from chatsnapshot.server.streaming import Streamed
from chatsnapshot.testing.wrappers import FaultyStore, HangingStore, PassingStore

LINES = {"content-type": "application/x-ndjson"}


def event(key: str, size: int = 20) -> dict[str, Any]:
    return {
        "event_type": "execution.message",
        "correlation_id": f"run-{key[:3]}",
        "idempotency_key": key,
        "payload": {"role": "user", "content": key + "x" * size},
    }


def lines(events: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


class Recording:
    """A client that records until the service is gone; ``acknowledged`` are the keys that were answered with 200."""

    def __init__(self, url: str, name: str, enough: threading.Semaphore) -> None:
        self.acknowledged: list[str] = []
        self.tried: list[str] = []
        self._url, self._name, self._enough = url, name, enough
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as client:
            for number in range(100_000):
                count = {"one": 1, "arr": 5, "nds": 40, "str": 40}[self._name]
                keys = [f"{self._name}-{number}-{index}" for index in range(count)]
                self.tried += keys
                try:
                    self._post(client, [event(key) for key in keys])
                except (httpx.HTTPError, AssertionError, ValueError):
                    return
                self.acknowledged += keys
                self._enough.release()

    def _post(self, client: httpx.Client, events: list[Any]) -> None:
        if self._name == "one":
            answer = client.post("/v1/events", json=events[0])
        elif self._name == "arr":
            answer = client.post("/v1/events", json=events)
        else:
            prefer = {"prefer": "stream-results"} if self._name == "str" else {}
            answer = client.post("/v1/events", content=lines(events), headers={**LINES, **prefer})
            assert prefer or answer.status_code == 200
            told = json.loads(answer.text.splitlines()[-1])
            assert told["stored"] + told["known"] == len(events)
            return
        assert answer.status_code == 200


def test_what_was_acknowledged_survives_a_kill_and_a_retry_stores_nothing_twice(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    served = serve("--ledger", path)
    enough = threading.Semaphore(0)
    clients = [Recording(served.url, name, enough) for name in ("one", "arr", "nds", "str")]
    for client in clients:
        client.thread.start()
    for _ in range(60):
        assert enough.acquire(timeout=60)
    served.kill()
    for client in clients:
        client.thread.join(60)
    acknowledged = [key for client in clients for key in client.acknowledged]
    with chatsnapshot.open(path) as ledger:
        stored = [entry.payload["content"].rstrip("x") for entry in ledger.read()]
        assert ledger.verify().ok
    assert len(set(stored)) == len(stored)
    assert set(acknowledged) <= set(stored)
    again = serve("--ledger", path)
    tried = [key for client in clients for key in client.tried]
    answer = again.client.post(
        "/v1/events", content=lines(map(event, tried)), headers=LINES, timeout=60
    ).json()
    assert (answer["stored"], answer["known"]) == (len(tried) - len(stored), len(stored))


def test_what_was_answered_is_seen_by_every_read_from_then_on(served: Any) -> None:
    def one(name: str) -> None:
        with httpx.Client(base_url=served.url, timeout=60) as client:
            for number in range(15):
                told = client.post("/v1/events", json=event(f"{name}-{number}")).json()
                assert client.get(f"/v1/events/{told['event_id']}").json()["position"] == told["position"]
                page = client.get("/v1/events", params={"after": told["position"] - 1, "limit": 1}).json()
                assert page["entries"][0]["event"]["event_id"] == told["event_id"]
                assert client.get("/v1/head").json()["position"] >= told["position"]
                done.append(name)

    done: list[str] = []
    threads = [threading.Thread(target=one, args=(name,)) for name in ("aaa", "bbb")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 30


# --- a store that is slow, full or gone; in this process ---


def within(
    wrapper: Callable[..., PassingStore],
    work: Callable[[httpx.AsyncClient, Any, Service], Awaitable[None]],
    **settings: Any,
) -> None:
    """Do ``work`` with a client of a service whose store is wrapped."""

    async def whole() -> None:
        service = Service(Settings(ledgers={"main": "memory:"}, **settings))
        await service.start()
        ledger = service.ledgers["main"]
        store = wrapper(ledger._store)
        ledger._store = ledger._recorder._store = store  # type: ignore[assignment]
        transport = httpx.ASGITransport(application(service))
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=60
            ) as client:
                await work(client, store, service)
        finally:
            if isinstance(store, HangingStore):
                store.release()
            await service.stop()

    asyncio.run(whole())


def test_a_store_that_hangs_fills_what_may_wait_and_the_rest_is_sent_away_at_once() -> None:
    async def work(client: httpx.AsyncClient, store: HangingStore, service: Service) -> None:
        store.hold()
        posts = [asyncio.ensure_future(client.post("/v1/events", json=event(f"key-{n}"))) for n in range(3)]
        await asyncio.to_thread(store.waiting.wait, 30)
        while service.recordings.taken < 3:
            await asyncio.sleep(0)
        refused = await client.post("/v1/events", json=event("key-9"))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert refused.json()["type"].endswith(":overloaded")
        for path in ("/healthz", "/readyz", "/metrics", "/v1/head", "/v1/events"):
            assert (await client.get(path)).status_code == 200
        store.release()
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
        assert service.held.bytes == service.recordings.taken == 0

    within(HangingStore, work, recordings_max=3)


def test_a_queue_that_is_full_is_told_before_anything_is_taken() -> None:
    async def work(client: httpx.AsyncClient, store: HangingStore, service: Service) -> None:
        await client.post("/v1/events", json=event("first"))
        store.hold()
        batches = [[event(f"key-{b}-{n}") for n in range(1_000)] for b in range(12)]
        posts = [asyncio.ensure_future(client.post("/v1/events", json=batch)) for batch in batches]
        answers: list[Any] = []
        while service.ledgers["main"]._recorder.queued < 10_000:
            await asyncio.sleep(0.01)
        answers.append(await client.post("/v1/events", json=event("last")))
        store.release()
        answers += await asyncio.gather(*posts)
        statuses = sorted(answer.status_code for answer in answers)
        assert set(statuses) == {200, 503}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 503)
        stored = sum(answer.json()["stored"] for answer in answers if answer.status_code == 200)
        assert service.ledgers["main"].head == stored + 1 and stored % 1_000 == 0

    within(HangingStore, work)


def test_a_commit_that_takes_too_long_is_uncertain_and_the_retry_with_its_ids_is_known() -> None:
    async def work(client: httpx.AsyncClient, store: HangingStore, service: Service) -> None:
        given = event("key-1")
        del given["idempotency_key"]
        store.hold()
        answer = await client.post("/v1/events", json=given)
        assert (answer.status_code, answer.json()["type"][-16:]) == (503, "commit-uncertain")
        assert answer.headers["retry-after"] == "1"
        store.release()
        again = await client.post("/v1/events", json={**given, "event_id": answer.json()["event_ids"][0]})
        assert again.json()["known"] and service.ledgers["main"].head == 1

    within(HangingStore, work, commit_seconds_max=0.2)


@pytest.mark.parametrize("kind", ["json", "array", "lines", "streamed"])
def test_errors_of_the_store_are_told_with_what_is_known(kind: str) -> None:
    async def post(client: httpx.AsyncClient, key: str) -> tuple[int, Any, httpx.Response]:
        if kind in ("json", "array"):
            answer = await client.post("/v1/events", json=event(key) if kind == "json" else [event(key)])
            return answer.status_code, answer.json(), answer
        prefer = {"prefer": "stream-results"} if kind == "streamed" else {}
        answer = await client.post("/v1/events", content=lines([event(key)]), headers={**LINES, **prefer})
        told = json.loads(answer.text.splitlines()[-1])
        told = told.get("problem", told)
        return told.get("status", 200), told, answer

    async def work(client: httpx.AsyncClient, store: FaultyStore, service: Service) -> None:
        for number, (error, word) in enumerate(
            ((StoreFull("no room"), "store-full"), (StoreUnavailable("gone"), "store-unavailable"))
        ):
            store.fail(error)
            status, told, answer = await post(client, f"key-{number}")
            assert (status, told["type"].rpartition(":")[2]) == (503, word)
            assert kind == "streamed" or int(answer.headers["retry-after"]) >= 1
            assert (await post(client, f"key-{number}"))[0] == 200
        assert service.ledgers["main"].head == 2

    within(FaultyStore, work)


def test_more_requests_than_may_be_under_way_are_sent_away() -> None:
    async def work(client: httpx.AsyncClient, store: HangingStore, service: Service) -> None:
        store.hold()
        posts = [asyncio.ensure_future(client.post("/v1/events", json=event(f"key-{n}"))) for n in range(2)]
        await asyncio.to_thread(store.waiting.wait, 30)
        while service.counts.open < 2:
            await asyncio.sleep(0)
        refused = await client.get("/healthz")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.headers["content-type"] == "application/problem+json"
        store.release()
        await asyncio.gather(*posts)
        assert (await client.get("/healthz")).status_code == 200

    within(HangingStore, work, requests_max=2)


# --- memory ---


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.faults  # more than 350 MB go through, or it would show nothing
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded_whatever_arrives(served: Any) -> None:
    served.client.post("/v1/events", json=event("warm"))
    before = resident_mib(served.process.pid)
    peaks: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            peaks.append(resident_mib(served.process.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        line = b'{"event_type": "a.b", "correlation_id": "c", "payload": {"n": [' + b"1," * 500_000 + b"}}\n"

        def long() -> Iterator[
            bytes
        ]:  # 200 MB: lines that are refused, lines without end, a few that are taken
            for number in range(140):
                yield line
                yield lines([event(f"key-{number}", 5_000)])
            yield b'{"event_type": "' + b"a" * 1_000
            for _ in range(60):
                yield b"a" * 1_000_000
            yield b"\n"

        answer = served.client.post("/v1/events", content=long(), headers=LINES, timeout=100)
        told = answer.json()
        assert (told["stored"], told["failed"]) == (140, 141)

        def slow(number: int) -> None:
            gate = gates[number]

            def body() -> Iterator[bytes]:
                for index in range(8):
                    yield lines([event(f"{number:03}-{index}", 100_000)]) * 3
                    started.release()
                    gate.wait(30)

            with httpx.Client(base_url=served.url, timeout=60) as client:
                try:
                    statuses.append(client.post("/v1/events", content=body(), headers=LINES).status_code)
                except httpx.HTTPError:
                    statuses.append(0)

        statuses: list[int] = []
        started = threading.Semaphore(0)
        gates = [threading.Event() for _ in range(64)]
        threads = [threading.Thread(target=slow, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        for _ in threads:
            started.acquire(timeout=30)
        assert served.client.get("/healthz").status_code == 200
        for gate in gates:
            gate.set()
        for thread in threads:
            thread.join(60)
    finally:
        over.set()
        watching.join()
    assert len(statuses) == 64 and statuses.count(200) >= 32 and set(statuses) <= {200, 503, 0}
    assert max(peaks) - before < 300, f"{before:.0f} MiB became {max(peaks):.0f} MiB"


# --- its end ---


def test_an_upload_that_goes_on_while_the_service_ends_is_told_how_far_it_was_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chatsnapshot.server.lines._ENDING_SECONDS", 0.0)

    async def work(client: httpx.AsyncClient, store: PassingStore, service: Service) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield lines([event("key-1"), event("key-2")])
            while service.ledgers["main"].head < 2:
                await asyncio.sleep(0.01)
            service.end()
            for number in range(1_000):
                yield lines([event(f"late-{number}")])
                await asyncio.sleep(0)

        answer = await client.post("/v1/events", content=body(), headers=LINES)
        told = answer.json()
        assert (answer.status_code, told["type"].rpartition(":")[2]) == (503, "ending")
        assert told["committed_through_line"] == told["stored"] == service.ledgers["main"].head >= 2
        assert service.uploads.taken == 0
        assert (await client.get("/readyz")).status_code == 503

    within(PassingStore, work)


def test_a_client_that_takes_nothing_is_given_up_and_its_place_is_free() -> None:
    async def work() -> list[str]:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"x" * 600_000
            finally:
                done.append("closed")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                sizes.append(len(message["body"]))
                if len(sizes) == 2:
                    await asyncio.Event().wait()  # for ever

        async def receive() -> Any:
            await asyncio.Event().wait()

        answer = Streamed(
            pieces(),
            status_code=200,
            media_type="text/plain",
            disconnected=receive,
            stall_seconds=0.05,
            after=lambda: done.append("given"),
        )
        await asyncio.wait_for(answer({"type": "http"}, receive, send), 20)
        return done

    done: list[str] = []
    sizes: list[int] = []
    assert asyncio.run(work()) == ["closed", "given"]
    assert max(sizes) <= 256 * 1024
