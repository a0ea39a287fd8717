"""``chatsnapshot serve`` for tests and benchmarks: a process of its own on loopback, killed and started at will."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from types import TracebackType

from chatsnapshot.errors import LedgerError, StoreUnavailable

__all__ = ["HttpServer"]

STOP_SECONDS_MAX = 20.0

# The service ends when the pipe from its starter does: whatever ends the starter.
_PROGRAM = """
import os, threading
def end_with_starter():
    while os.read(0, 4096):
        pass
    os._exit(1)
threading.Thread(target=end_with_starter, daemon=True).start()
from chatsnapshot.__main__ import main
main()
"""


class HttpServer:
    """``with HttpServer() as server: server.url``.

    It keeps ledgers of any name in a folder of its own, and takes the time of its clients unless ``client_clock`` is
    off; ``arguments`` are further ones of ``chatsnapshot serve``. Data and port stay over :meth:`stop`, :meth:`kill`
    and :meth:`start`; the end of the ``with`` removes the data.
    """

    def __init__(self, *arguments: str, client_clock: bool = True) -> None:
        self._arguments = [*arguments, *(["--client-clock"] if client_clock else [])]
        self.port = 0
        self._scheme = "https" if "--tls-cert" in arguments else "http"
        self._folder = ""
        self._process: subprocess.Popen[str] | None = None

    @staticmethod
    def missing() -> str:
        """What has to be installed before a service can be started; empty when nothing is missing."""
        lacking = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
        return f"the package {lacking[0]} (pip install 'chatsnapshot[server]')" if lacking else ""

    @property
    def address(self) -> str:
        """``http://127.0.0.1:PORT``, or ``https://`` where it has a certificate."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the ledger ``main``, in direct mode."""
        return f"{self.address}?mode=direct&ledger=main"

    @property
    def folder(self) -> str:
        """Where the ledgers are."""
        return os.path.join(self._folder, "ledgers")

    def start(self) -> None:
        """Start it and wait until it listens. Raises :class:`LedgerError` naming the package that is missing."""
        if self._process is not None:
            return
        lacking = self.missing()
        if lacking:
            raise LedgerError(f"a service for tests needs {lacking}")
        self._folder = self._folder or tempfile.mkdtemp(prefix="cs-")
        os.makedirs(self.folder, exist_ok=True)
        command = ["serve", "--port", str(self.port), "--any-ledger", self.folder, *self._arguments]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said.startswith("http"):
            self.kill()
            with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as log_file:
                raise StoreUnavailable(f"the service did not start: {log_file.read()[-500:]}")
        self.port = int(said.split(" ")[0].rpartition(":")[2])

    def stop(self) -> None:
        """End it in order (SIGTERM); the data stay."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._ended()

    def kill(self) -> None:
        """End it as a crash does (SIGKILL); the data stay."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def _ended(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait(STOP_SECONDS_MAX)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> HttpServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
