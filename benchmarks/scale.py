"""What one ledger carries on each store as it grows: bytes an event, indexes, opening, verifying, appending, RAM.

Each store grows to 10^4, 10^5 and 10^6 events of 300 bytes, or as far as its share of the time goes: MINUTES in all.
Times are also given as CPU time of the client, which says more than the clock does on a machine that others use.
The numbers of docs/scale.md come from here.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

import chatsnapshot
from benchmarks.workload import PAYLOAD
from chatsnapshot.testing.servers.nats import NatsServer
from chatsnapshot.testing.servers.postgresql import PostgresqlServer

SIZES = (10**4, 10**5, 10**6)
MINUTES = 5.0
SHARES = {"sqlite": 0.3, "jsonl": 0.2, "postgresql": 0.3, "nats": 0.2}
"""Of the time, for each store."""
BATCH = 1_000
RUN_EVENTS, ACTIVE = 1_000, 50
"""Events of a run, and runs under way at once, with ids spread like random UUIDs."""
GROWING = 0.7
"""Of a store's time, how much is for growing; the rest is for opening and verifying."""

_OPEN = """
import sys, time
import chatsnapshot
begin, cpu = time.perf_counter(), time.process_time()
with chatsnapshot.open(sys.argv[1], create=False) as ledger:
    assert ledger.head
    opened = time.perf_counter() - begin, time.process_time() - cpu
    ledger.record("execution.message", {"n": 1}, correlation_id="opened")
    print(*opened, time.perf_counter() - begin)
"""


class Parts(NamedTuple):
    """Bytes on disk by part, and bytes of RAM of the server (0 where there is none)."""

    disk: dict[str, int]
    ram: int = 0


def run(folder: str, rounds: int) -> None:
    """Measure every store; ``rounds`` is how often opening is repeated."""
    print(
        f"Scale: batches of {BATCH:,} events of 300 bytes, {ACTIVE} runs under way, {MINUTES:g} minutes in all"
    )
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    for name, place in (
        ("sqlite", _sqlite),
        ("jsonl", _jsonl),
        ("postgresql", _postgresql),
        ("nats", _nats),
    ):
        with place(os.path.join(folder, name)) as (url, parts):
            _grow(name, url, parts, SHARES[name] * MINUTES * 60, rounds)


def _grow(name: str, url: str, parts: Callable[[], Parts], seconds: float, rounds: int) -> None:
    begun = time.monotonic()
    until = begun + seconds * GROWING
    number, verified = 0, 0.0
    for size in SIZES:
        rates: list[float] = []
        cpu: list[float] = []
        with chatsnapshot.open(url) as ledger:
            while number < size and time.monotonic() < until:
                given = [
                    {
                        "event_type": "execution.message",
                        "correlation_id": run_of(number + one),
                        "payload": PAYLOAD,
                    }
                    for one in range(BATCH)
                ]
                begin, before = time.perf_counter(), time.process_time()
                ledger.record_many(given)
                rates.append(BATCH / (time.perf_counter() - begin))
                cpu.append((time.process_time() - before) / BATCH)
                number += BATCH
            if not rates:
                print(f"{name}: the time is over at {number:,} events")
                return
            head = ledger.head
        _show(name, head, rates, cpu, parts(), url, rounds)
        if verified and head / verified > max(begun + seconds - time.monotonic(), 0):
            print(f"  verify   not measured: it would take about {head / verified:.0f} s")
        else:
            verified = _verify(url)
        if number < size:
            print(f"{name}: the time is over at {number:,} events")
            return


def _show(
    name: str, head: int, rates: list[float], cpu: list[float], found: Parts, url: str, rounds: int
) -> None:
    print(f"{name} at {head:,}")
    last = rates[-50:]
    print(
        f"  append   {statistics.median(last):>9,.0f} events/s (slowest tenth {sorted(last)[len(last) // 10]:,.0f}), "
        f"CPU of the client {statistics.median(cpu[-50:]) * 1e6:.1f} µs an event"
    )
    total = sum(found.disk.values())
    print(f"  disk     {total:>13,} bytes, {total / head:.0f} an event: {_listed(found.disk, head)}")
    if found.ram:
        print(f"  RAM      {found.ram:>13,} bytes of the server, {found.ram / head:.0f} an event")
    opened = [_opened(url) for _ in range(max(rounds, 1))]
    for index, what in enumerate(("open, wall", "open, CPU", "open and record one, wall")):
        print(f"  {what:<26} {statistics.median(one[index] for one in opened) * 1e3:9.1f} ms")


def _verify(url: str) -> float:
    """Show what verifying takes; gives the entries a second."""
    begin, before = time.perf_counter(), time.process_time()
    with chatsnapshot.open(url, create=False, read_only=True) as ledger:
        report = ledger.verify()
    assert report.ok, report.problems
    wall, spent = time.perf_counter() - begin, time.process_time() - before
    rate = report.entries / wall
    print(f"  verify   {wall:9.2f} s, {rate:,.0f} entries/s; CPU {spent / report.entries * 1e6:.1f} µs each")
    sys.stdout.flush()
    return rate


def _listed(disk: dict[str, int], head: int) -> str:
    ordered = sorted(disk.items(), key=lambda one: -one[1])
    return ", ".join(f"{name} {size / head:.0f}" for name, size in ordered if size / head >= 1)


def _opened(url: str) -> tuple[float, ...]:
    """Seconds that a new process needs: to open (wall, CPU), and to have recorded one event."""
    done = subprocess.run([sys.executable, "-c", _OPEN, url], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return tuple(map(float, done.stdout.split()))


def run_of(number: int) -> str:
    """The run that an event belongs to: ACTIVE runs take turns until each has its events, then the next ones come."""
    generation, slot = number // (ACTIVE * RUN_EVENTS), number % ACTIVE
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{generation}/{slot}"))


# --- places ---

Place = Iterator[tuple[str, Callable[[], Parts]]]


@contextmanager
def _sqlite(folder: str) -> Place:
    os.mkdir(folder)
    path = os.path.join(folder, "scale.db")

    def parts() -> Parts:
        db = apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)
        try:
            shares = db.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        except apsw.SQLError:  # this SQLite was built without it
            shares = [("file", os.path.getsize(path))]
        finally:
            db.close()
        return Parts({str(name): int(str(size)) for name, size in shares})

    yield path, parts


@contextmanager
def _jsonl(folder: str) -> Place:
    os.mkdir(folder)
    path = os.path.join(folder, "scale.jsonl")

    def parts() -> Parts:
        sizes = {"lines": 0, "index": 0, "log of the index": 0}
        for name in os.listdir(folder):
            part = (
                "lines"
                if ".index.db" not in name
                else "index"
                if name.endswith(".db")
                else "log of the index"
            )
            sizes[part] += _bytes_of(os.path.join(folder, name))
        return Parts(sizes)

    yield path, parts


@contextmanager
def _postgresql(folder: str) -> Place:
    import psycopg

    with PostgresqlServer() as server:

        def parts() -> Parts:
            with psycopg.connect(server.url) as db:
                db.execute("CHECKPOINT")
                found = db.execute(
                    "SELECT c.relname, c.relkind, pg_relation_size(c.oid) + CASE WHEN c.reltoastrelid <> 0 "
                    "THEN pg_total_relation_size(c.reltoastrelid) ELSE 0 END FROM pg_class AS c "
                    "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                    "WHERE n.nspname LIKE 'chatsnapshot%' AND c.relkind IN ('r', 'i')"
                ).fetchall()
            # In use by all of its processes together, as far as it is not shared with others.
            return Parts(
                {f"{'index ' if kind == 'i' else ''}{name}": int(size) for name, kind, size in found},
                _ram_of_tree(server._process.pid) if server._process is not None else 0,
            )

        yield f"{server.url}&ledger=scale", parts


@contextmanager
def _nats(folder: str) -> Place:
    os.mkdir(folder)
    index = os.path.join(folder, "index.db")
    with NatsServer(own=True) as server:

        def parts() -> Parts:
            node = server.node
            assert node is not None
            sizes = {"streams": _bytes_of(node.store), "index of the client": 0, "log of the index": 0}
            for name in os.listdir(folder):
                part = "index of the client" if name.endswith(".db") else "log of the index"
                sizes[part] += _bytes_of(os.path.join(folder, name))
            return Parts(sizes, _ram_of(node.pid))

        yield f"{server.url}?ledger=scale&index={index}", parts


def _bytes_of(path: str) -> int:
    """Bytes of a file, or of all files of a folder; one that goes away meanwhile counts nothing."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    total = 0
    for base, _, names in os.walk(path):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(base, name))
            except FileNotFoundError:
                pass
    return total


def _status(pid: int) -> dict[str, Any]:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return {line.split(":")[0]: line.split()[1] for line in file if line.endswith("kB\n")}


def _ram_of(pid: int) -> int:
    """Proportional RAM of a process, in bytes (Linux); 0 elsewhere, or where it may not be asked."""
    try:
        return int(_status(pid)["Pss"]) * 1024
    except (OSError, KeyError):
        return 0


def _ram_of_tree(pid: int) -> int:
    total = _ram_of(pid)
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == pid:
                total += _ram_of(int(name))
    return total
