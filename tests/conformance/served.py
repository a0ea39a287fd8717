"""A small server of ledgers and its client store: what the checks of "a server in between" are tried on themselves.

The server keeps SQLite files and answers pickled calls; it runs as ``python served.py FOLDER PORT``.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import CommitUncertain, LedgerClosed, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Traits
from chatsnapshot.stores.open import Location, locate, open_store

WRITES = ("append", "erase", "import_rows", "save_states", "drop_states")
SECONDS_MAX = 2.0


def send(one: socket.socket, value: object) -> None:
    data = pickle.dumps(value)
    one.sendall(struct.pack(">I", len(data)) + data)


def receive(one: socket.socket) -> Any:
    (size,) = struct.unpack(">I", _exactly(one, 4))
    return pickle.loads(_exactly(one, size))


def _exactly(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = one.recv(size - len(data))
        if not part:
            raise ConnectionError("the other side has ended")
        data += part
    return data


# --- the server ---


class Ledgers:
    """The stores of a folder, each opened once."""

    def __init__(self, folder: str, forgetful: bool) -> None:
        self.folder = folder
        self.forgetful = forgetful
        self.lock = threading.Lock()
        self.stores: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> Any:
        with self.lock:
            store = self._store(request["ledger"], request["create"])
        if request["method"] == "open":
            return store.ledger_id, store.traits
        value = getattr(store, request["method"])(*request["arguments"], **request["options"])
        return (
            list(value) if request["method"] in ("blob", "blobs", "examine") and value is not None else value
        )

    def _store(self, ledger: str, create: bool) -> Any:
        if ledger not in self.stores:
            self.stores[ledger] = open_store(
                locate("memory:" if self.forgetful else os.path.join(self.folder, f"{ledger}.db")),
                create=create,
                read_only=False,
                durability="full",
                clock=time.time_ns,
                entropy=os.urandom,
                limits=Limits(),
            )
        return self.stores[ledger]

    def serve(self, one: socket.socket) -> None:
        with one:
            while True:
                try:
                    request = receive(one)
                except OSError:
                    return
                try:
                    answer = ("value", self.answer(request))
                except LedgerError as error:
                    answer = ("error", error)
                try:
                    send(one, answer)
                except OSError:
                    return


def main(folder: str, port: int, forgetful: bool) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    ledgers = Ledgers(folder, forgetful)
    while True:
        one, _ = listener.accept()
        threading.Thread(target=ledgers.serve, args=(one,), daemon=True).start()


class ServedServer:
    """The server as a process: killed, and started again at the same port."""

    def __init__(self, folder: Path, forgetful: bool = False) -> None:
        self.folder = folder
        self.forgetful = forgetful
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"served://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder), str(self.port), *["forgetful"] * self.forgetful],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


# --- the client ---


class ServedStore:
    """A store whose calls go to the server, one after the other over one connection."""

    def __init__(self, location: Location, *, create: bool, read_only: bool, **_: Any) -> None:
        parts = urlsplit(location.target)
        self.url = location.url
        self.address = (parts.hostname or "", parts.port or 0)
        self.ledger = dict(parse_qsl(parts.query)).get("ledger", "main")
        self.create = create and not read_only
        self.closed = False
        self.line: socket.socket | None = None
        self.mutex = threading.RLock()
        self.ledger_id, self.traits = self._call("open")

    traits: Traits
    ledger_id: str

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: self._call(name, *arguments, **options)

    def watch(self, wake: Callable[[], None]) -> None:
        pass

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        found: list[bytes] | None = self._call("blob", digest)
        return found

    def after_fork(self) -> None:
        self.mutex, self.line = threading.RLock(), None

    def close(self) -> None:
        self.closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None

    def _connect(self) -> socket.socket:
        if self.closed:
            raise LedgerClosed(f"{self.url} was closed")
        if self.line is None:
            try:
                self.line = socket.create_connection(self.address, SECONDS_MAX)
            except OSError as error:
                raise StoreUnavailable(f"{self.url} cannot be reached: {error}") from error
        return self.line

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        request = {
            "ledger": self.ledger,
            "create": self.create,
            "method": method,
            "arguments": arguments,
            "options": options,
        }
        with self.mutex:
            try:
                return self._ask(request)
            except OSError as error:
                self._hang_up()
                if method in WRITES:
                    raise self._lost_write(error) from error
            try:
                return self._ask(request)
            except OSError as error:
                self._hang_up()
                raise StoreUnavailable(f"{self.url} does not answer: {error}") from error

    def _lost_write(self, error: OSError) -> LedgerError:
        return CommitUncertain(f"the answer of {self.url} was lost: {error}; record the events again")

    def _ask(self, request: dict[str, Any]) -> Any:
        line = self._connect()
        send(line, request)
        kind, value = receive(line)
        if kind == "error":
            raise value
        return value


class SaysThatNothingWasStored(ServedStore):
    """Takes a lost answer for a lost request."""

    def _lost_write(self, error: OSError) -> LedgerError:
        return StoreUnavailable(f"{self.url} does not answer: {error}")


class KeepsDeadConnections(ServedStore):
    """Goes on with a connection that was cut."""

    def _hang_up(self) -> None:
        if self.closed:
            super()._hang_up()


class WaitsForEver(ServedStore):
    """Waits for an answer as long as it takes."""

    def _connect(self) -> socket.socket:
        line = super()._connect()
        line.settimeout(None)
        return line


class TakesSilenceForAbsence(ServedStore):
    """Says that there is no ledger when nobody answers."""

    def _connect(self) -> socket.socket:
        try:
            return super()._connect()
        except StoreUnavailable as error:
            raise NotFound(str(error)) from error


class GivesUpForGood(ServedStore):
    """Never tries a server again that was away once."""

    given_up = False

    def _connect(self) -> socket.socket:
        if self.given_up:
            raise StoreUnavailable(f"{self.url} was away")
        try:
            return super()._connect()
        except StoreUnavailable:
            self.given_up = True
            raise


class SkipsAfterACut(ServedStore):
    """Begins one position too late in the first read after it has connected anew."""

    anew: bool | None = None

    def _connect(self) -> socket.socket:
        if self.line is None:
            self.anew = self.anew is not None
        return super()._connect()

    def read(self, query: Any, *, after: int, **options: Any) -> Any:
        page = self._call("read", query, after=after, **options)
        if self.anew and page.rows:
            self.anew = False
            return page._replace(rows=page.rows[1:])
        return page


class TearsImports(ServedStore):
    """Imports row by row."""

    def import_rows(self, rows: Any, blobs: Any) -> None:
        for row in rows:
            self._call("import_rows", [row], blobs)


def open_served(
    location: Location,
    /,
    *,
    create: bool,
    read_only: bool,
    durability: str,
    clock: Clock,
    entropy: Entropy,
    limits: Limits,
) -> Any:
    return STORE[0](location, create=create, read_only=read_only)


STORE: list[Any] = [ServedStore]
"""The class in use: a test puts another in its place."""

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3)
