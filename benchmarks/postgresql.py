"""PostgreSQL 18 on a Unix socket, durability as by default: append, group commit, reads, beside a loop and a peer."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from datetime import datetime, timezone

import msgspec
import psycopg
from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

import chatsnapshot
from benchmarks.cputime import CpuTimes
from benchmarks.measure import Contestant, interleave, row
from benchmarks.workload import PAYLOAD, batch
from chatsnapshot.clock import uuid7, uuid_text
from chatsnapshot.integrity import commit, header_parts
from chatsnapshot.testing.servers.postgresql import PostgresqlServer

EVENTS = {1: 300, 10: 2_000, 100: 5_000, 1000: 10_000}
READ = 30_000
THREADS = 64
EACH = 20
SOURCE = '{"origin":"agent","runtime":"none"}'
TYPE = "execution.message"
CALL = f"SELECT chatsnapshot.append({', '.join(['%b'] * 19)})"


class Loop:
    """The limit: the same function called in a bare psycopg loop, with the unavoidable work in front of it."""

    def __init__(self, url: str, name: str) -> None:
        chatsnapshot.open(f"{url}&ledger={name}").close()
        self.db = psycopg.connect(url, autocommit=True)
        found = self.db.execute("SELECT number FROM chatsnapshot.ledger WHERE name = %s", (name,)).fetchone()
        assert found is not None
        self.number = found[0]

    def append(self, payloads: list[dict[str, object]]) -> None:
        count = len(payloads)
        noise = os.urandom(16 * count)
        ids = uuid7(count)
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")[:26] + "Z"
        bodies, salts, commitments, headers, trailers = [], [], [], [], []
        for index, payload in enumerate(payloads):
            body = msgspec.json.encode(payload)
            salt = noise[16 * index : 16 * index + 16]
            commitment = commit(salt, body)
            head, tail = header_parts(
                uuid_text(ids[index]), TYPE, now, SOURCE, "run-1", None, None, None, commitment, len(body)
            )
            bodies.append(body)
            salts.append(salt)
            commitments.append(commitment)
            headers.append(b"\x00" + head)
            trailers.append(tail)
        self.db.cursor(binary=True).execute(
            CALL,
            (
                self.number, now, False, None, ["run-1"], None, None, [uuid.UUID(bytes=one) for one in ids],
                [TYPE], [now], [SOURCE], None, None, None, bodies, b"".join(salts), b"".join(commitments),
                headers, trailers[:1],
            ),
            prepare=True,
        ).fetchone()  # fmt: skip


class Peer:
    """The recorder of ``eventsourcing`` for PostgreSQL, used as its documentation does."""

    def __init__(self, host: str, table: str) -> None:
        self.datastore = PostgresDatastore("postgres", host, 5432, "postgres", "")
        self.recorder = PostgresApplicationRecorder(self.datastore, events_table_name=table)
        self.recorder.create_table()
        self.originator = uuid.uuid4()
        self.version = 0
        self._lock = threading.Lock()

    def append(self, payloads: list[dict[str, object]]) -> None:
        with self._lock:
            first, self.version = self.version, self.version + len(payloads)
        self.recorder.insert_events(
            [
                StoredEvent(
                    originator_id=self.originator,
                    originator_version=first + number,
                    topic="app:Agent.Message",
                    state=json.dumps(payload, separators=(",", ":")).encode(),
                )
                for number, payload in enumerate(payloads, 1)
            ]
        )

    def read_all(self) -> int:
        count, start = 0, 1
        while True:
            page = self.recorder.select_notifications(start=start, limit=1000)
            if not page:
                return count
            for notification in page:
                json.loads(notification.state)
            count += len(page)
            start = page[-1].id + 1

    def close(self) -> None:
        self.datastore.close()


def run(folder: str, rounds: int) -> None:
    with PostgresqlServer() as server:
        base = server.url.replace("/postgres?", "/postgres?ledger=NAME&")
        _append(server, base, rounds)
        _callers(server, base, rounds)
        _read(server, base, rounds)


def _append(server: PostgresqlServer, base: str, rounds: int) -> None:
    print(
        "Durable append on PostgreSQL (limit: the same function in a bare loop ≥ 0.8, peer: eventsourcing ≥ 2)"
    )
    for size, total in EVENTS.items():
        loop = Loop(server.url, f"loop-{size}")
        peer = Peer(server.folder, f"peer_{size}")
        ledger = chatsnapshot.open(base.replace("NAME", f"us-{size}"))

        def ours(ledger: chatsnapshot.Ledger = ledger, size: int = size, total: int = total) -> int:
            for _ in range(total // size):
                if size == 1:
                    ledger.record(TYPE, PAYLOAD, correlation_id="run-1")
                else:
                    ledger.record_many(batch(size))
            return total

        contestants = {
            "limit": _repeated(loop.append, size, total),
            "us": ours,
            "peer": _repeated(peer.append, size, total),
        }
        cpu = CpuTimes(lambda: server.pid)
        found = interleave(cpu.around(contestants), rounds)
        print(row(f"  batch {size}", found["us"], found["limit"], "limit", 0.8))
        print(row(f"  batch {size}", found["us"], found["peer"], "peer ", 2.0))
        print(cpu.row())
        ledger.close()
        loop.db.close()
        peer.close()


def _repeated(append: object, size: int, total: int) -> Contestant:
    def work() -> int:
        for _ in range(total // size):
            append([PAYLOAD] * size)  # type: ignore[operator]
        return total

    return work


def _callers(server: PostgresqlServer, base: str, rounds: int) -> None:
    print(f"{THREADS} threads, each recording one event and waiting for it (peer ≥ 2)")
    peer = Peer(server.folder, "peer_callers")
    with chatsnapshot.open(base.replace("NAME", "callers")) as ledger:
        found = interleave(
            {
                "us": lambda: _threads(lambda: ledger.record(TYPE, PAYLOAD, correlation_id="run-1")),
                "peer": lambda: _threads(lambda: peer.append([PAYLOAD])),
            },
            rounds,
        )
    print(row("  threads", found["us"], found["peer"], "peer ", 2.0))
    peer.close()


def _threads(call: object) -> int:
    def work() -> None:
        for _ in range(EACH):
            call()  # type: ignore[operator]

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return THREADS * EACH


def _read(server: PostgresqlServer, base: str, rounds: int) -> None:
    print("Full scan, payloads decoded (peer ≥ 3); one run of 50 events; a hint for a tail")
    peer = Peer(server.folder, "peer_read")
    with chatsnapshot.open(base.replace("NAME", "read")) as ledger:
        for number in range(READ // 1000):
            ledger.record_many(
                [{**one, "correlation_id": f"run-{number}-{at // 50}"} for at, one in enumerate(batch(1000))]
            )
            peer.append([PAYLOAD] * 1000)

        def ours() -> int:
            count = 0
            for entry in ledger.read():
                entry.payload  # noqa: B018  # decoding is what is measured
                count += 1
            return count

        cpu = CpuTimes(lambda: server.pid)
        found = interleave(cpu.around({"us": ours, "peer": peer.read_all}), rounds)
        print(row("  entries", found["us"], found["peer"], "peer ", 3.0))
        print(cpu.row())
        begin = time.perf_counter()
        for number in range(100):
            assert len(list(ledger.read(correlation_id=f"run-{number % 30}-{number % 20}"))) == 50
        print(f"  one run of 50 events                         {(time.perf_counter() - begin) * 10:.2f} ms")
        with chatsnapshot.open(base.replace("NAME", "read")) as other, other.tail() as tail:
            lags = []
            entries = iter(tail)
            for _ in range(50):
                threading.Timer(0.02, lambda: ledger.record(TYPE, PAYLOAD, correlation_id="late")).start()
                entry = next(entries)
                lags.append(
                    time.time() - datetime.fromisoformat(entry.recorded_at.replace("Z", "+00:00")).timestamp()
                )
        lags.sort()
        median, late = lags[25] * 1000, lags[48] * 1000
        print(
            f"  from recorded_at to the tail of another handle: median {median:.1f} ms, 49th of 50 {late:.1f}"
        )
    peer.close()
