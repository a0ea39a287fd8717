"""A cluster of three: nodes are killed, cut off and restarted while four processes write and two read."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.servers.nats import NatsCluster, NatsServer

FAIL_OVER_SECONDS_MAX = 30.0
"""Longest silence of all writers together: an election of JetStream takes 4 to 9 seconds, and may be held twice; twelve
processes share the machine here, and other tests beside them."""

WRITER = """
import sys, time
import chatsnapshot
from chatsnapshot.errors import CommitUncertain, StoreUnavailable
url, name = sys.argv[1:]
ledger = chatsnapshot.open(url, source={"origin": "system", "runtime": "test"})
number = 0
while True:
    given = [dict(event_type="demo.step", correlation_id=name, payload={"n": number + at},
                  idempotency_key=str(number + at)) for at in range(1 + number % 3)]
    while True:
        try:
            made = ledger.record_many(given)
            break
        except (CommitUncertain, StoreUnavailable):
            time.sleep(0.05)
    for entry in made:
        print(entry.payload["n"], entry.position, entry.event_id, flush=True)
    number += len(given)
"""


class Writers:
    """Four processes that record without end and say what was acknowledged."""

    def __init__(self, url: str, folder: Path) -> None:
        self.names = [f"writer-{at}" for at in range(4)]
        self.acknowledged: dict[str, list[tuple[int, int, str]]] = {name: [] for name in self.names}
        self.moments: list[float] = []
        self._over = False
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, url, name],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
            )
            for name in self.names
        ]
        self._threads = [
            threading.Thread(target=self._listen, args=(name, process))
            for name, process in zip(self.names, self._processes, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle
            number, position, event_id = line.split()
            self.acknowledged[name].append((int(number), int(position), event_id))
            self.moments.append(time.monotonic())

    def go_on(self, each: int = 5) -> None:
        """Wait until every writer has recorded so many more."""
        before = {name: len(done) for name, done in self.acknowledged.items()}
        deadline = time.monotonic() + 2 * FAIL_OVER_SECONDS_MAX
        while any(len(done) < before[name] + each for name, done in self.acknowledged.items()):
            for process in self._processes:
                if process.poll() is not None:
                    assert process.stderr is not None
                    pytest.fail(f"a writer ended: {process.stderr.read()[-2000:]}")
            assert time.monotonic() < deadline, {name: len(done) for name, done in self.acknowledged.items()}
            threading.Event().wait(0.02)

    def end(self) -> None:
        """Kill them all."""
        for process in self._processes:
            process.kill()
        for process, thread in zip(self._processes, self._threads, strict=True):
            process.wait(20)
            thread.join(20)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    @property
    def longest_silence(self) -> float:
        """Seconds in which nothing at all was acknowledged."""
        return max(
            (later - earlier for earlier, later in zip(self.moments, self.moments[1:], strict=False)),
            default=0.0,
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster | None]:
    if NatsServer.missing():
        yield None
        return
    with NatsCluster() as cluster:
        yield cluster


def _sound(url: str, writers: Writers, seen: list[list[int]]) -> None:
    """0 lost, 0 twice, 0 holes, also for those who read along."""
    with chatsnapshot.open(url) as ledger:
        entries = list(ledger.read())
        positions = [entry.position for entry in entries]
        assert positions == list(range(1, len(entries) + 1))
        by_id = {entry.event_id: entry for entry in entries}
        assert len(by_id) == len(entries)
        for name, acknowledged in writers.acknowledged.items():
            assert len(acknowledged) > 5
            for number, position, event_id in acknowledged:
                assert (by_id[event_id].position, by_id[event_id].payload["n"]) == (position, number)
            numbers = [entry.payload["n"] for entry in entries if entry.correlation_id == name]
            assert numbers == list(range(len(numbers)))
        report = ledger.verify()
        assert report.ok, report.problems
    for read in seen:
        assert read == positions[: len(read)]
        assert len(read) > 20


def _read_along(url: str, over: threading.Event, seen: list[int], errors: list[Exception]) -> None:
    while not over.is_set():
        try:
            with chatsnapshot.open(f"{url}&index=memory", read_only=True) as ledger:
                for entry in ledger.tail(after=len(seen), timeout=2):
                    seen.append(entry.position)
                    if over.is_set():
                        return
        except LedgerError as error:
            errors.append(error)  # a tail that met a fail-over is taken up again where it was
            over.wait(0.1)


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_nodes_are_killed_cut_off_and_restarted(
    cluster: NatsCluster | None, tmp_path: Path, require: Callable[[object, str], None]
) -> None:
    require(cluster is not None, NatsServer.missing())
    assert cluster is not None
    url = f"{cluster.url}?ledger=faults"
    chatsnapshot.open(url).close()
    stream = "chatsnapshot_faults"
    over, seen, errors = threading.Event(), [[], []], []  # type: ignore[var-annotated]
    writers = Writers(url, tmp_path)
    readers = [threading.Thread(target=_read_along, args=(url, over, one, errors)) for one in seen]
    try:
        for reader in readers:
            reader.start()
        writers.go_on()
        for what in (
            "a follower is killed",
            "the leader is killed",
            "the leader is cut off",
            "all are restarted",
        ):
            leader = cluster.leader(stream)
            number = (leader + 1) % 3 if "follower" in what else leader
            if "all" in what:
                cluster.kill()
                cluster.start()
            elif "cut" in what:
                cluster.cut(number)
                writers.go_on()
                cluster.mend(number)
            else:
                cluster.kill(number)
                writers.go_on()
                cluster.start(number)
            writers.go_on()
    finally:
        writers.end()
        deadline = time.monotonic() + 60
        while any(len(one) <= 20 for one in seen) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        over.set()
        for reader in readers:
            reader.join(30)
    _sound(url, writers, seen)
    print(f"longest silence: {writers.longest_silence:.1f} s")
    assert writers.longest_silence < FAIL_OVER_SECONDS_MAX


def test_three_copies_are_the_rule_on_a_cluster(
    cluster: NatsCluster | None, require: Callable[[object, str], None]
) -> None:
    require(cluster is not None, NatsServer.missing())
    assert cluster is not None
    chatsnapshot.open(f"{cluster.url}?ledger=copies").close()
    chatsnapshot.open(f"{cluster.url}?ledger=single&replicas=1").close()
    found = json.dumps(cluster.nodes[0].ask("/jsz?accounts=true&streams=true&config=true"))
    copies: dict[str, Any] = {}
    for node in cluster.nodes:
        answer = node.ask("/jsz?accounts=true&streams=true&config=true")
        for account in answer["account_details"]:
            for one in account.get("stream_detail") or ():
                copies[one["name"]] = one["config"]["num_replicas"]
    assert {copies[f"chatsnapshot_copies{part}"] for part in ("", "_vault")} == {3}, found
    assert {copies[f"chatsnapshot_single{part}"] for part in ("", "_vault")} == {1}
