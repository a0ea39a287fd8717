"""The proxy between client and server does what it is told, and nothing else; by a server that echoes."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chatsnapshot.testing.faults import Address, Proxy, address_of, through

PATIENCE_SECONDS = 10.0


class Echo:
    """Answers every piece of bytes with itself, in a thread a connection; remembers what it got."""

    def __init__(self, address: Address) -> None:
        self.listener = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.listener.bind(address)
        self.listener.listen()
        self.address: Address = address if isinstance(address, str) else self.listener.getsockname()
        self.got = bytearray()
        self.arrived = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(one,), daemon=True).start()

    def _echo(self, one: socket.socket) -> None:
        with one:
            try:
                while data := one.recv(65536):
                    with self.arrived:
                        self.got += data
                        self.arrived.notify_all()
                    one.sendall(data)
            except OSError:
                pass

    def wait_for(self, data: bytes) -> bool:
        with self.arrived:
            return self.arrived.wait_for(lambda: data in self.got, PATIENCE_SECONDS)

    def close(self) -> None:
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()


@pytest.fixture(params=["tcp", "unix"])
def echo(request: pytest.FixtureRequest) -> Iterator[Echo]:
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        made = Echo(("127.0.0.1", 0) if request.param == "tcp" else os.path.join(folder, "echo"))
        yield made
        made.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as made:
        yield made


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Callable[[], socket.socket]]:
    made: list[socket.socket] = []

    def call() -> socket.socket:
        one = socket.socket(socket.AF_UNIX if isinstance(proxy.address, str) else socket.AF_INET)
        made.append(one)
        one.settimeout(PATIENCE_SECONDS)
        one.connect(proxy.address)
        return one

    yield call
    for one in made:
        one.close()


def ask(one: socket.socket, data: bytes) -> bytes:
    """Send, and read an answer of that length."""
    one.sendall(data)
    answer = b""
    while len(answer) < len(data):
        part = one.recv(65536)
        if not part:
            raise ConnectionError("the other side has ended")
        answer += part
    return answer


@contextmanager
def lost() -> Iterator[None]:
    """The connection is gone: reset, or at its end."""
    with pytest.raises(ConnectionError):
        yield


def test_bytes_go_through_unchanged_in_both_directions_and_are_counted(
    proxy: Proxy, connect: Callable[[], socket.socket]
) -> None:
    one, two = connect(), connect()
    assert ask(one, b"hello") == b"hello"
    assert ask(two, b"you") == b"you"
    counts = proxy.counts
    assert (counts.connections, counts.bytes_to_server, counts.bytes_to_client) == (2, 8, 8)
    assert (counts.requests, counts.answers, counts.cuts, counts.bytes_dropped) == (2, 2, 0, 0)


def test_a_long_stream_goes_through_whole_though_the_client_reads_late(
    connect: Callable[[], socket.socket], echo: Echo
) -> None:
    one, data = connect(), os.urandom(6_000_000)
    sender = threading.Thread(target=one.sendall, args=(data,))
    sender.start()
    assert echo.wait_for(data[:100_000])
    answer = bytearray()
    while len(answer) < len(data):
        answer += one.recv(65536)
    sender.join()
    assert bytes(answer) == data


def test_a_farewell_of_one_side_reaches_the_other_after_all_bytes(
    connect: Callable[[], socket.socket],
) -> None:
    one = connect()
    one.sendall(b"last words")
    one.shutdown(socket.SHUT_WR)
    answer = b""
    while part := one.recv(100):
        answer += part
    assert answer == b"last words"


def test_a_cut_ends_connections_and_new_ones_work(proxy: Proxy, connect: Callable[[], socket.socket]) -> None:
    one, two = connect(), connect()
    assert ask(one, b"a") + ask(two, b"b") == b"ab"
    proxy.cut()
    for gone in (one, two):
        with lost():
            ask(gone, b"c")
    assert proxy.counts.cuts == 2
    assert ask(connect(), b"d") == b"d"


def test_a_cut_of_tcp_is_a_reset() -> None:
    echo = Echo(("127.0.0.1", 0))
    with Proxy(echo.address) as proxy, socket.create_connection(proxy.address, PATIENCE_SECONDS) as one:
        assert ask(one, b"a") == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    echo.close()


def test_a_lost_request_never_reaches_the_server(
    proxy: Proxy, echo: Echo, connect: Callable[[], socket.socket]
) -> None:
    one = connect()
    proxy.lose_request(after=1)
    assert ask(one, b"first") == b"first"
    with lost():
        ask(one, b"second")
    assert ask(connect(), b"third") == b"third"
    assert bytes(echo.got) == b"firstthird"
    assert (proxy.counts.lost, proxy.counts.bytes_dropped) == (1, 6)


def test_a_lost_answer_is_of_a_request_that_the_server_has_got(
    proxy: Proxy, echo: Echo, connect: Callable[[], socket.socket]
) -> None:
    one = connect()
    proxy.lose_answer(after=1)
    assert ask(one, b"first") == b"first"
    with lost():
        ask(one, b"second")
    assert bytes(echo.got) == b"firstsecond"
    assert (proxy.counts.lost, proxy.counts.bytes_to_client) == (1, 5)
    assert ask(connect(), b"third") == b"third"


def test_a_stalled_connection_gives_nothing_and_does_not_end_until_it_is_healed(
    proxy: Proxy, echo: Echo, connect: Callable[[], socket.socket]
) -> None:
    one = connect()
    assert ask(one, b"a") == b"a"
    proxy.stall()
    one.sendall(b"b")
    late = connect()
    late.sendall(b"c")
    for held in (one, late):
        held.settimeout(0.1)
        with pytest.raises(TimeoutError):
            held.recv(1)
        held.settimeout(PATIENCE_SECONDS)
    assert bytes(echo.got) == b"a"
    proxy.heal()
    assert one.recv(1) + late.recv(1) == b"bc"


def test_refused_connections_are_refused_and_taken_again_at_the_same_address(
    proxy: Proxy, connect: Callable[[], socket.socket]
) -> None:
    one, address = connect(), proxy.address
    assert ask(one, b"a") == b"a"
    proxy.refuse()
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        connect()
    with lost():
        ask(one, b"b")
    proxy.heal()
    assert proxy.address == address
    assert ask(connect(), b"c") == b"c"


def test_a_slow_proxy_holds_each_direction_back(proxy: Proxy, connect: Callable[[], socket.socket]) -> None:
    one = connect()
    proxy.slow(0.05)
    begun = time.monotonic()
    assert ask(one, b"a") == b"a"
    assert time.monotonic() - begun >= 0.1
    proxy.heal()
    assert ask(one, b"b") == b"b"


def test_a_server_that_is_not_there_is_a_connection_that_ends_at_once(
    proxy: Proxy, echo: Echo, connect: Callable[[], socket.socket]
) -> None:
    echo.close()
    if isinstance(echo.address, str):
        os.unlink(echo.address)
    with lost():
        ask(connect(), b"a")
    assert proxy.counts.connections == 1


def test_a_closed_proxy_leaves_no_thread_no_descriptor_and_no_folder(echo: Echo) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        proxy = Proxy(echo.address)
        proxy.close()
        proxy.close()
        assert not proxy._thread.is_alive()
        if isinstance(proxy.address, str):
            assert not os.path.exists(os.path.dirname(proxy.address))
        with pytest.raises(RuntimeError):
            proxy.cut()
    assert len(os.listdir("/dev/fd")) <= before


@pytest.mark.parametrize(
    ("url", "address", "other"),
    [
        (
            "postgresql://ann@db.example/app?ledger=a",
            ("db.example", 5432),
            "postgresql://ann@127.0.0.1:7/app?ledger=a",
        ),
        ("postgresql:///app?host=h&port=9", ("h", 9), "postgresql://127.0.0.1:7/app"),
        (
            "mongodb://h:1/d?w=1",
            ("h", 1),
            "mongodb://127.0.0.1:7/d?w=1&directConnection=true",
        ),
        ("nats://user:p%40ss@h?ledger=a", ("h", 4222), "nats://user:p%40ss@127.0.0.1:7/?ledger=a"),
        ("http://h:8420/l", ("h", 8420), "http://127.0.0.1:7/l"),
    ],
)
def test_a_url_leads_through_a_proxy(url: str, address: Address, other: str) -> None:
    assert address_of(url) == address
    assert through(url, ("127.0.0.1", 7)) == other
    assert address_of(other) == ("127.0.0.1", 7)


@pytest.mark.parametrize(
    "url", ["postgresql:///app?host=/run/pg&port=6000&ledger=a", "postgresql://%2Frun%2Fpg:6000/app?ledger=a"]
)
def test_a_url_of_a_unix_socket_leads_through_a_unix_socket(url: str) -> None:
    assert address_of(url) == "/run/pg/.s.PGSQL.6000"
    other = through(url, "/tmp/cs-x/.s.PGSQL.6000")
    assert address_of(other) == "/tmp/cs-x/.s.PGSQL.6000"
    assert "ledger=a" in other


@pytest.mark.parametrize("url", ["runs.db", "memory:", "nats://a:1,b:2/"])
def test_a_url_without_one_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="proxy"):
        address_of(url)
