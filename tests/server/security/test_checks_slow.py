"""Check 22: clients that send slowly, take nothing, or only sit there hold up nobody and are sent away."""

from __future__ import annotations

import os
import re
import resource
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

HEAD = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\n"


def closed_within(connection: Any, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def drip(connection: Any, data: bytes, seconds: float) -> bool:
    """Send a byte at a time, until it was refused; whether it was within the time."""
    end = time.monotonic() + seconds
    connection.setblocking(False)
    while time.monotonic() < end:
        try:
            connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            return True
        try:
            if connection.recv(65_536) == b"":
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_check_22_a_head_that_comes_byte_by_byte_is_given_up(limited: Any, kit: Any) -> None:
    service = limited(head_seconds_max=1.0)
    for begin, data in (
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nX: ", b"a"),
        (b"G", b"E"),
        (b"\r\n", b"\r\n"[:1]),
    ):
        with kit.raw(service.url) as raw:
            raw.send(begin)
            assert drip(raw.socket, data or b"", 30) if data else closed_within(raw.socket, 30), begin
    assert service.client.get("/healthz").status_code == 200


def test_check_22_after_an_answer_the_rest_of_a_body_is_not_waited_for(limited: Any, kit: Any) -> None:
    service = limited(head_seconds_max=1.0)
    with kit.raw(service.url) as raw:
        raw.send(HEAD + b"Content-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 415 " in raw.socket.recv(65_536)
        assert drip(raw.socket, b"x", 30)


def test_check_22_a_body_that_stops_is_answered_with_408_and_its_place_is_free_again(
    limited: Any, kit: Any
) -> None:
    service = limited(body_seconds_max=0.5, uploads_max=1)
    for media in (b"application/json", b"application/x-ndjson"):
        with kit.raw(service.url) as raw:
            raw.send(HEAD + b"Content-Type: " + media + b"\r\nContent-Length: 1000\r\n\r\n{")
            answer = raw.answer()
        assert b" 408 " in answer[:20] and b"slow-body" in answer
    told = service.client.post("/v1/events", content=b"", headers=kit.LINES)
    assert told.status_code == 200


def test_check_22_a_whole_body_has_a_time_for_all_of_it(limited: Any, kit: Any) -> None:
    service = limited(body_seconds_max=0.5)
    with kit.raw(service.url) as raw:
        raw.send(HEAD + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        assert drip(raw.socket, b" ", 30)


def test_check_22_many_slow_uploads_leave_room_for_everything_else(limited: Any, kit: Any) -> None:
    service = limited(uploads_max=12, body_seconds_max=60.0)
    slow = [kit.raw(service.url) for _ in range(12)]
    try:
        for one in slow:
            one.send(HEAD + b"Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{")
        kit.until(
            lambda: service.client.post("/v1/events", content=b"", headers=kit.LINES).status_code == 503
        )
        for path in ("/readyz", "/v1/head", "/v1/events", "/v1/verify"):
            begin = time.monotonic()
            assert service.client.get(path).status_code == 200 and time.monotonic() - begin < 20, path
        assert service.client.post("/v1/events", json=kit.event()).status_code == 200
    finally:
        for one in slow:
            one.socket.close()
    kit.until(lambda: service.client.post("/v1/events", content=b"", headers=kit.LINES).status_code == 200)


def filled(service: Any, kit: Any) -> Any:
    for number in range(10):
        events = [kit.event(payload={"text": f"{number} " + "x" * 200_000})] * 30
        assert service.client.post("/v1/events", json=events).status_code == 200
    return service


def slow_client(service: Any, path: bytes) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", int(service.url.rpartition(":")[2])))
    connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


def sockets(pid: int) -> int:
    """How many sockets a process holds."""
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(one).startswith("socket:")
        except OSError:
            pass
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@pytest.mark.parametrize("path", [b"/v1/events?limit=1000", b"/v1/stream?after=0"])
def test_check_22_a_client_that_takes_nothing_is_given_up(limited: Any, kit: Any, path: bytes) -> None:
    service = filled(limited(stall_seconds_max=1.0), kit)
    ours = sockets(service.process.pid)
    service.client.close()
    kit.until(lambda: sockets(service.process.pid) < ours)
    before = sockets(service.process.pid)
    with slow_client(service, path):
        kit.until(lambda: sockets(service.process.pid) > before)
        kit.until(lambda: sockets(service.process.pid) <= before)
    assert httpx.get(f"{service.url}/v1/head").status_code == 200


def test_check_22_a_client_that_takes_its_answer_slowly_gets_all_of_it(limited: Any, kit: Any) -> None:
    service = filled(limited(stall_seconds_max=3.0, head_seconds_max=3.0), kit)
    with slow_client(service, b"/v1/events?limit=1000") as connection:
        connection.settimeout(20)
        found = b""
        begin = time.monotonic()
        while b"\r\n\r\n" not in found:
            found += connection.recv(65_536)
        head, _, body = found.partition(b"\r\n\r\n")
        wanted = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        taken = len(body)
        while taken < wanted:
            piece = connection.recv(65_536)
            assert piece, f"cut off after {taken:,} of {wanted:,} bytes and {time.monotonic() - begin:.1f} s"
            taken += len(piece)
            time.sleep(4 * len(piece) / wanted)
    assert time.monotonic() - begin > 3 and wanted > 8_000_000


def test_check_22_of_too_many_connections_the_idle_ones_make_room(limited: Any, kit: Any) -> None:
    service = limited(connections_max=50, head_seconds_max=30.0)
    with httpx.stream("GET", f"{service.url}/v1/stream", timeout=30) as stream:
        found = stream.iter_raw()
        next(found)
        idle = [kit.raw(service.url) for _ in range(150)]
        try:
            assert service.client.get("/healthz").status_code == 200
            assert closed_within(idle[0].socket, 15), "the one that was idle for longest"
            assert not closed_within(idle[-1].socket, 0.3)
            service.client.post("/v1/events", json=kit.event())
            assert b"event: entry" in next(found), "who asked for something keeps it"
        finally:
            for one in idle:
                one.socket.close()


def test_check_22_a_thousand_idle_connections_cost_little_and_keep_nobody_out(limited: Any, kit: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4_096), hard), hard))
    try:
        service = limited(head_seconds_max=60.0)
        assert service.client.get("/healthz").status_code == 200
        before = resident(service.process.pid)
        idle = [kit.raw(service.url) for _ in range(1_000)]
        try:
            begin = time.monotonic()
            assert service.client.get("/v1/head").status_code == 200
            assert time.monotonic() - begin < 15, "it waited for one of them to go"
            assert resident(service.process.pid) - before < 64 * 1024 * 1024
        finally:
            for one in idle:
                one.socket.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4_096
    except OSError:
        return 0  # not Linux
