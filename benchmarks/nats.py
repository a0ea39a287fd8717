"""Durable append on NATS JetStream (one node, ``sync_interval: always``) beside straight nats-py loops."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import uuid
from hashlib import sha256
from typing import Any

import msgspec
import nats as driver
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import chatsnapshot
from benchmarks.cputime import CpuTimes
from benchmarks.measure import interleave, row
from benchmarks.workload import PAYLOAD, batch
from chatsnapshot.testing.servers.nats import NatsServer

EVENTS = {1: 300, 10: 2_000, 100: 5_000, 1000: 10_000}
PAGE_KEYS = 1_024
THREADS = 64
EACH = 10


class StraightLoop:
    """The same work and nothing else: payload as JSON, sealed with a key of its own, keys durable, one atomic batch.

    ``paged`` stores keys as the ledger does, in pages ahead of their use; otherwise one record of keys for each commit.
    There is no look for duplicates, no sequence, no tree, no index, no error handling and no second thread.
    """

    def __init__(self, url: str, name: str, paged: bool) -> None:
        self._name = name
        self._paged = paged
        self._keys: list[bytes] = []
        self.loop = asyncio.new_event_loop()
        self.client: Any = self.loop.run_until_complete(driver.connect(url, pending_size=64 << 20))
        self._last = 0
        self.loop.run_until_complete(self._make())

    async def _make(self) -> None:
        config = {
            "storage": "file",
            "num_replicas": 1,
            "allow_atomic": True,
            "retention": "limits",
            "max_msgs": -1,
            "max_bytes": -1,
        }
        for part, more in (
            (
                "ev",
                {
                    "max_msgs_per_subject": 1,
                    "discard": "new",
                    "discard_new_per_subject": True,
                    "deny_delete": True,
                    "deny_purge": True,
                },
            ),
            ("keys", {"discard": "old"}),
        ):
            body = {**config, **more, "name": f"{self._name}_{part}", "subjects": [f"{self._name}.{part}.>"]}
            answer = await self.client.request(
                f"$JS.API.STREAM.CREATE.{self._name}_{part}", json.dumps(body).encode(), timeout=5
            )
            assert b'"error"' not in answer.data, answer.data

    async def _more_keys(self, count: int) -> list[bytes]:
        if len(self._keys) < count:
            fresh = [os.urandom(32) for _ in range(max(count, PAGE_KEYS) if self._paged else count)]
            subject = f"{self._name}.keys.{uuid.uuid4().hex}"
            await self.client.request(subject, b"".join(fresh), timeout=10)
            self._keys += fresh
        taken, self._keys = self._keys[:count], self._keys[count:]
        return taken

    async def _append(self, payloads: list[dict[str, Any]]) -> None:
        keys = await self._more_keys(len(payloads))
        batch_id, total = uuid.uuid4().hex, len(payloads)
        for number, (payload, key) in enumerate(zip(payloads, keys, strict=True), 1):
            event_id = str(uuid.uuid4())
            text = msgspec.json.encode(payload)
            header = msgspec.json.encode(
                {
                    "event_id": event_id,
                    "event_type": "execution.message",
                    "correlation_id": "run-1",
                    "commit": sha256(text).hexdigest(),
                    "timestamp": "2026-11-30T00:00:00.000000Z",
                }
            )
            data = header + b"\n" + AESGCM(key).encrypt(bytes(12), text, None)
            headers: dict[str, str] = {"Nats-Expected-Last-Sequence": str(self._last)} if number == 1 else {}
            if total > 1:
                headers |= {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
            subject = f"{self._name}.ev.run-1.{event_id}"
            if number < total:
                await self.client.publish(subject, data, headers=headers)
                continue
            if total > 1:
                headers["Nats-Batch-Commit"] = "1"
            answer = json.loads((await self.client.request(subject, data, headers=headers, timeout=30)).data)
            self._last = answer["seq"]

    def append(self, payloads: list[dict[str, Any]]) -> None:
        """One durable commit."""
        self.loop.run_until_complete(self._append(payloads))

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


def run(folder: str, rounds: int) -> None:
    os.environ["XDG_CACHE_HOME"] = folder
    with NatsServer(own=True) as server:
        print("Durable append on NATS JetStream, one node (limit: straight nats-py loop ≥ 0.8)")
        for size, total in EVENTS.items():
            straight = StraightLoop(server.url, f"straight{size}", paged=False)
            paged = StraightLoop(server.url, f"paged{size}", paged=True)
            ledger = chatsnapshot.open(f"{server.url}?ledger=us-{size}")

            def limit(loop: StraightLoop = straight, size: int = size, total: int = total) -> int:
                for _ in range(total // size):
                    loop.append([PAYLOAD] * size)
                return total

            def pages(loop: StraightLoop = paged, size: int = size, total: int = total) -> int:
                return limit(loop, size, total)

            def ours(ledger: chatsnapshot.Ledger = ledger, size: int = size, total: int = total) -> int:
                for _ in range(total // size):
                    if size == 1:
                        ledger.record("execution.message", PAYLOAD, correlation_id="run-1")
                    else:
                        ledger.record_many(batch(size))
                return total

            cpu = CpuTimes(lambda: server.pid)
            found = interleave(cpu.around({"limit": limit, "us": ours, "pages": pages}), rounds)
            print(row(f"  batch {size} (keys with each commit)", found["us"], found["limit"], "limit", 0.8))
            print(row(f"  batch {size} (keys in pages, as here)", found["us"], found["pages"], "limit", 0.8))
            print(cpu.row())
            ledger.close()
            straight.close()
            paged.close()
        _many_callers(server, rounds)


def _many_callers(server: NatsServer, rounds: int) -> None:
    print(f"{THREADS} threads, each recording and waiting: one commit for many (alone ≥ 3)")
    with chatsnapshot.open(f"{server.url}?ledger=callers") as ledger:

        def record() -> None:
            for _ in range(EACH):
                ledger.record("execution.message", PAYLOAD, correlation_id="run-1")

        def together() -> int:
            threads = [threading.Thread(target=record) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return THREADS * EACH

        def alone() -> int:
            for _ in range(20):
                record()
            return 20 * EACH

        found = interleave({"us": together, "alone": alone}, rounds)
        print(row("  threads", found["us"], found["alone"], "alone", 3.0))
