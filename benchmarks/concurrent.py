"""Many callers at once: asyncio tasks, threads, and what a caller pays who does not wait."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import chatsnapshot
from benchmarks.measure import interleave, ratio, row
from benchmarks.peers import EventSourcing
from benchmarks.workload import PAYLOAD

TASKS = 1_000
THREADS = 64
EACH = 25
UNWAITED = 5_000


def run(folder: str, rounds: int) -> None:
    ledger = chatsnapshot.open(os.path.join(folder, "us.db"))
    peer = EventSourcing(os.path.join(folder, "peer.db"))
    print("1,000 asyncio tasks, each awaiting its own durable event (one write and sync an event ≥ 10 times)")
    descriptor = os.open(os.path.join(folder, "synced"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = b"x" * 570

    def one_sync_each() -> int:
        for _ in range(300):
            os.write(descriptor, line)
            os.fdatasync(descriptor)
        return 300

    async def tasks() -> None:
        await asyncio.gather(
            *[ledger.arecord("execution.message", PAYLOAD, correlation_id="run-1") for _ in range(TASKS)]
        )

    def ours() -> int:
        asyncio.run(tasks())
        return TASKS

    def one_commit_each() -> int:
        for _ in range(300):
            ledger.record("execution.message", PAYLOAD, correlation_id="run-1")
        return 300

    found = interleave({"limit": one_sync_each, "us": ours, "alone": one_commit_each}, rounds)
    print(row("  tasks (bare write and sync)", found["us"], found["limit"], "1 sync each", 10))
    print(row("  tasks (the same events one by one)", found["us"], found["alone"], "1 commit each", 10))

    print(f"{THREADS} threads, each recording and waiting (peer ≥ 3)")
    found = interleave(
        {
            "us": lambda: _threads(
                lambda: ledger.record("execution.message", PAYLOAD, correlation_id="run-1")
            ),
            "peer": lambda: _threads(_own_peer(peer)),
        },
        rounds,
    )
    print(row("  threads", found["us"], found["peer"], "peer", 3.0))

    print("Caller's cost of record(wait=False) beside a span through a BatchSpanProcessor (≤ 0.25)")
    provider = TracerProvider()
    processor = BatchSpanProcessor(InMemorySpanExporter(), max_queue_size=100_000)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench")
    attributes = {key: value for key, value in PAYLOAD.items() if isinstance(value, (str, bool, int))}

    def spans() -> int:
        for _ in range(UNWAITED):
            with tracer.start_as_current_span("execution.message", attributes=attributes):
                pass
        return UNWAITED

    def unwaited() -> int:
        for _ in range(UNWAITED):
            ledger.record("execution.message", PAYLOAD, correlation_id="run-1", wait=False)
        return UNWAITED

    def settle() -> None:
        """What the turn before has left to do is not this turn's."""
        ledger.flush()
        processor.force_flush()

    for what, clock in (
        ("of wall time, beside the writer thread", time.perf_counter),
        ("of the caller's own CPU", time.thread_time),
    ):
        found = interleave({"us": unwaited, "spans": spans}, rounds, settle, clock)
        cost = ratio(found["spans"], found["us"])
        print(
            f"  record(wait=False) {1e6 / found['us'].median:.1f} µs, span {1e6 / found['spans'].median:.1f} µs "
            f"{what}: {cost:.2f}{'  ok' if cost <= 0.25 else '  ABOVE 0.25'}"
        )
    os.close(descriptor)
    provider.shutdown()
    ledger.close()
    peer.close()


def _threads(work: Callable[[], object]) -> int:
    """Each thread does ``work`` EACH times; all begin together."""
    barrier = threading.Barrier(THREADS)

    def loop() -> None:
        barrier.wait()
        for _ in range(EACH):
            work()

    threads = [threading.Thread(target=loop) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return THREADS * EACH


def _own_peer(peer: EventSourcing) -> Callable[[], object]:
    """Each call writes one event of the next version; versions are handed out under a lock, as its users must."""
    lock = threading.Lock()

    def work() -> None:
        with lock:
            events = peer.events([PAYLOAD])
        peer.recorder.insert_events(events)

    return work
