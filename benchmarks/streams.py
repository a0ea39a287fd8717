"""The load of ``benchmarks.http``: live streams that are read while events are posted; prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

_SENT = re.compile(rb'"sent":([0-9.]+)')
_HEAD = b"GET /v1/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_BATCH = 10
_POSTERS = 5


class Stream(asyncio.Protocol):
    """One live stream: counts what comes, and notes how late the oldest event of each piece is."""

    def __init__(self, late: list[float]) -> None:
        self.delivered = 0
        self._late = late

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(_HEAD)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.delivered += data.count(b"\nevent: entry\n")
        found = _SENT.search(data)
        if found:
            self._late.append(time.time() - float(found[1]))


async def _post(port: int, a_second: int, seconds: int, took: list[float]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin, posted = time.perf_counter(), 0
    while posted < a_second * seconds:
        wait = begin + posted / a_second - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        sent = time.time()
        body = json.dumps(
            [
                {
                    "event_type": "execution.message",
                    "correlation_id": f"run-{number % 7}",
                    "payload": {"role": "assistant", "content": "x" * 200, "sent": sent},
                }
                for number in range(_BATCH)
            ]
        ).encode()
        writer.write(_POST % len(body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head, re.I)[1]))  # type: ignore[index]
        posted += _BATCH
        took.append(time.time() - sent)
    writer.close()
    return posted


async def _load(port: int, streams: int, a_second: int, seconds: int) -> dict[str, float]:
    late: list[float] = []
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(lambda: Stream(late), "127.0.0.1", port) for _ in range(streams)]
    await asyncio.sleep(1)
    late.clear()
    begin, cpu = time.perf_counter(), time.process_time()
    # Several, as a commit takes longer than the pause that one of them may make.
    commits: list[float] = []
    posts = [_post(port, a_second // _POSTERS, seconds, commits) for _ in range(_POSTERS)]
    posted = sum(await asyncio.gather(*posts))
    posting = time.perf_counter() - begin
    deadline = time.perf_counter() + 10
    while sum(one.delivered for _, one in opened) < posted * streams and time.perf_counter() < deadline:
        await asyncio.sleep(0.02)
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    for transport, _ in opened:
        transport.abort()
    late.sort()
    commits.sort()
    return {
        "posted": posted,
        "delivered": sum(one.delivered for _, one in opened),
        "posting": posting,
        "seconds": took,
        "cpu": cpu,
        "post_p50": commits[len(commits) // 2],
        "post_p99": commits[len(commits) * 99 // 100],
        "p50": late[len(late) // 2],
        "p99": late[len(late) * 99 // 100],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_load(*map(int, sys.argv[1:])))))
