"""A server that speaks MongoDB's protocol, for tests: SecantusDB as a process of its own, or one that you name.

There is no package of MongoDB's own server. SecantusDB keeps its data in WiredTiger, MongoDB's engine, and answers as a
replica set of one member does: transactions, change streams, unique and partial indexes, users. What it acknowledges
survives SIGKILL. It is written in Python, so its speed says nothing about MongoDB's, and its roles do not tell
collections apart. ``CHATSNAPSHOT_TEST_MONGODB_URL`` names a real replica set to test against instead.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from types import TracebackType
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.testing.servers.guarded import free_port

__all__ = ["URL_VARIABLE", "MongodbServer"]

URL_VARIABLE = "CHATSNAPSHOT_TEST_MONGODB_URL"

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 5.0
"""Longer it takes when clients are still there; what was acknowledged survives the SIGKILL that follows."""

TRANSACTION_SECONDS_MAX = 5.0
"""A transaction whose client was killed is ended after so long, as with transactionLifetimeLimitSeconds in MongoDB."""

WAITS = "serverSelectionTimeoutMS=3000&connectTimeoutMS=3000"
"""How long clients wait for a server that is away, so that tests of that do not take for ever."""

# The server ends when the pipe from its starter does: whatever ends the starter.
_PROGRAM = """
import os, signal, sys, threading
def end_with_starter():
    sys.stdin.buffer.read()
    os._exit(1)
threading.Thread(target=end_with_starter, daemon=True).start()
from secantus import SecantusDBServer
port, folder, standalone, auth, seconds = sys.argv[1:]
server = SecantusDBServer(
    port=int(port), storage_path=folder, replica_set_name=None if standalone == "True" else "secantus",
    require_auth=auth == "True", enable_test_commands=False, cache_size="256M",
    sync_on_commit=True,  # without it the commit of a transaction with j:true is not synced, and a kill loses it
    transaction_lifetime_seconds=float(seconds))
def end(number, frame):
    server.stop()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
server.start()
server.wait()
"""


class MongodbServer:
    """``with MongodbServer() as server: server.url``.

    ``standalone`` starts one without transactions, as ``mongod`` without ``--replSet`` is; ``auth`` asks for users,
    which were made while it ran without. Data and port stay over :meth:`stop`, :meth:`kill` and :meth:`start`; the end of
    the ``with`` removes the data. Where :data:`URL_VARIABLE` names a server, that one is used and never stopped.
    """

    def __init__(self, *, standalone: bool = False, auth: bool = False) -> None:
        self.standalone = standalone
        self.auth = auth
        given = os.environ.get(URL_VARIABLE, "")
        self.own = not given or standalone or auth
        """Whether it is started and stopped here."""
        self.port = 0
        self._url = "" if self.own else given
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """What has to be installed before a server can be started; empty when nothing is missing."""
        if not os.environ.get(URL_VARIABLE) and find_spec("secantus") is None:
            return f"the package secantusdb (pip install secantusdb), or {URL_VARIABLE} with the URL of a replica set"
        if find_spec("pymongo") is None:
            return "the package pymongo (pip install 'chatsnapshot[mongodb]')"
        return ""

    @property
    def url(self) -> str:
        """The URL of the ledger ``main`` in the database ``chatsnapshot``."""
        return self.database("chatsnapshot")

    def database(self, name: str, user: str = "") -> str:
        """The URL of a database; ``user`` is ``name:password``, known to the database ``admin``."""
        parts = urlsplit(self._url or f"mongodb://127.0.0.1:{self.port}/?{WAITS}")
        options = dict(parse_qsl(parts.query))
        hosts = parts.netloc
        if user:
            hosts = f"{user}@{hosts.rpartition('@')[2]}"
            options["authSource"] = "admin"
        return urlunsplit((parts.scheme, hosts, f"/{name}", urlencode(options), ""))

    def start(self) -> None:
        """Start it and wait until it answers. Raises :class:`LedgerError` naming the package that is missing."""
        if not self.own or self._process is not None:
            return
        lacking = self.missing()
        if lacking:
            raise LedgerError(f"a MongoDB server for tests needs {lacking}")
        self._folder = self._folder or tempfile.mkdtemp(prefix="cs-")
        self.port = self.port or free_port()
        folder = os.path.join(self._folder, "data")
        options = [str(self.port), folder, str(self.standalone), str(self.auth), str(TRANSACTION_SECONDS_MAX)]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
            )
        self._wait()

    def stop(self) -> None:
        """End it in order (SIGTERM); the data stay."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
        self._ended()

    def kill(self) -> None:
        """End it as a crash does (SIGKILL); the data stay."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def __enter__(self) -> MongodbServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # its data go with it, and an end in order takes up to twenty seconds
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _ended(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        log = os.path.join(self._folder, "log")
        with open(log, "rb") as file:
            said = file.read()[-500:].decode(errors="replace").strip()
        self.kill()
        raise StoreUnavailable(f"the MongoDB server for tests did not start ({said}); look at {log}")
