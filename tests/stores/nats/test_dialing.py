"""A handshake that breaks off, is refused or never comes: the client is given up within its time, with its socket."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.nats.dialing import dialed, hang_up

pytest.importorskip("nats", reason="missing here: nats-py")

INFO = {"server_id": "X", "version": "2.12.0", "max_payload": 1_000_000, "headers": True, "proto": 1}


class Answering:
    """A server that answers each connection with the next of these, the last for ever, and closes it or goes silent."""

    def __init__(self, *answers: bytes, close: bool) -> None:
        self._answers, self._close = list(answers), close
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def _run(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            try:
                answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
                taken.sendall(answer)
                if answer.endswith(PONG):
                    while b"PING" not in taken.recv(4096):
                        pass
            except OSError:
                pass
            if self._close:
                taken.close()
            else:
                self._taken.append(taken)

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        for taken in self._taken:
            taken.close()


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    running: list[Answering] = []

    def start(*answers: bytes, close: bool) -> str:
        running.append(Answering(*answers, close=close))
        return running[-1].url

    yield start
    for server in running:
        server.end()


PONG = b"PONG\r\n"
GREETING = f"INFO {json.dumps(INFO)}\r\n".encode()
ANSWERS = {
    "nothing": (b"", False),
    "nothing, and closed": (b"", True),
    "half a greeting": (GREETING[:20], False),
    "half a greeting, and closed": (GREETING[:20], True),
    "a greeting only": (GREETING, False),
    "a greeting, and closed": (GREETING, True),
    "a refusal": (GREETING + b"-ERR 'Authorization Violation'\r\n", False),
    "a refusal, and closed": (GREETING + b"-ERR 'Authorization Violation'\r\n", True),
    "not NATS": (b"HTTP/1.1 400 Bad Request\r\n\r\n", True),
}


@pytest.mark.parametrize("answer", list(ANSWERS))
def test_no_socket_of_a_handshake_that_failed_is_left(answering: Callable[..., str], answer: str) -> None:
    data, close = ANSWERS[answer]
    url = answering(data, close=close)

    async def heard(_: Exception) -> None:
        """What is tried again is not told."""

    async def dial() -> None:
        try:
            assert await dialed(0.3, servers=[url], error_cb=heard, reconnect_time_wait=0.02) is None
        except (OSError, ValueError) as error:
            assert str(error)
        except Exception as error:  # nats-py has a tree of its own
            assert type(error).__module__.startswith("nats")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(dial())
        gc.collect()
    assert [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)] == []


def test_no_socket_of_a_handshake_that_failed_is_left_while_it_connects_again(
    answering: Callable[..., str],
) -> None:
    url = answering(GREETING + PONG, GREETING[:20], close=True)
    failures: list[Exception] = []

    async def heard(error: Exception) -> None:
        failures.append(error)

    async def live() -> None:
        client = await dialed(5, servers=[url], error_cb=heard, reconnect_time_wait=0.01)
        assert client is not None
        while len(failures) < 4:
            await asyncio.sleep(0.01)
        await hang_up(client)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(live())
        gc.collect()
    assert [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)] == []


@pytest.mark.parametrize("answer", list(ANSWERS))
def test_a_ledger_says_that_the_server_cannot_be_used(answering: Callable[..., str], answer: str) -> None:
    import chatsnapshot

    data, close = ANSWERS[answer]
    url = answering(data, close=close)
    with pytest.raises(StoreUnavailable, match=r"cannot be reached|refuses the credentials"):
        chatsnapshot.open(f"{url}?timeout=0.5")
