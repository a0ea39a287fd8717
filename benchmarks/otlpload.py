"""The load of the OTLP measurements: tool spans of about 1 KB in traces of 20, sent in batches over HTTP connections."""

from __future__ import annotations

import http.client
import os
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BATCH = 100
TRACE = 20
HEADERS = {"Content-Type": "application/x-protobuf"}
WORDS = [
    "the",
    "order",
    "came",
    "with",
    "a",
    "broken",
    "lamp",
    "and",
    "shop",
    "sends",
    "new",
    "one",
    "by",
    "courier",
]


class Sent(NamedTuple):
    """What sending took: seconds by the clock, and CPU seconds of this process."""

    seconds: float
    cpu: float


def prose(number: int, characters: int) -> str:
    """Text that is not the same in each span."""
    words: list[str] = []
    size = 0
    while size < characters:
        word = WORDS[(number * 7 + len(words) * 3 + len(words) // 5) % len(WORDS)]
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:characters]


def bodies(spans: int, batch: int = BATCH) -> list[bytes]:
    """Requests with so many spans in all; ids are new at each call."""
    made: list[bytes] = []
    now = time.time_ns() - 30_000_000_000
    trace = root = b""
    for first in range(0, spans, batch):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = "bench"
        scope = group.scope_spans.add()
        scope.scope.name = "bench"
        for number in range(first, min(first + batch, spans)):
            own = os.urandom(8)
            if number % TRACE == 0:
                trace, root = os.urandom(16), own
            span = scope.spans.add(
                trace_id=trace,
                span_id=own,
                parent_span_id=b"" if own == root else root,
                name=f"bench {number % TRACE}",
                kind=1,
                start_time_unix_nano=now + number * 10_000,
                end_time_unix_nano=now + number * 10_000 + 5_000,
            )
            for key, value in (
                ("openinference.span.kind", "TOOL"),
                ("tool.name", "look_up"),
                ("input.value", prose(number, 440)),
                ("output.value", prose(number + 3, 440)),
            ):
                span.attributes.add(key=key).value.string_value = value
        made.append(request.SerializeToString())
    return made


def send(
    url: str, requests: Sequence[bytes], connections: int = 1, headers: Mapping[str, str] = HEADERS
) -> Sent:
    """Send every request over so many connections at once; raises when one is not answered with 200."""
    place = urllib.parse.urlparse(url)
    failures: list[str] = []

    def work(own: Sequence[bytes]) -> None:
        client = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        for body in own:
            client.request("POST", place.path, body=body, headers=dict(headers))
            answer = client.getresponse()
            said = answer.read()
            if answer.status != 200 or said:
                failures.append(f"{answer.status} {said[:200]!r}")
        client.close()

    threads = [
        threading.Thread(target=work, args=(requests[number::connections],)) for number in range(connections)
    ]
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = Sent(time.perf_counter() - began, time.process_time() - cpu)
    if failures:
        raise RuntimeError(f"{len(failures)} requests failed, the first with {failures[0]}")
    return took


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that live."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and its children, those that have ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_of, children_of(pid)))


def rss_of(pid: int, what: str = "VmRSS") -> int:
    """Bytes of memory that a process holds (``VmHWM``: has held at most), and its children beside shared files."""
    return _rss_of(pid, what) + sum(_rss_of(child, "RssAnon") for child in children_of(pid))


def _rss_of(pid: int, what: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} is gone")
