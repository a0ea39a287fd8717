"""A server program of a test: started in a folder of its own, and ended when the process that started it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from chatsnapshot.errors import LedgerError

__all__ = ["Guarded", "accepts", "free_port", "missing"]

START_SECONDS_MAX = 20.0
END_SECONDS_MAX = 20.0

_GUARD = 'cat >/dev/null; kill -9 "$1"; rm -rf "$2"'
"""Ends a server, and removes its folder, when its input ends: the process that started both is gone."""


def free_port() -> int:
    """A port of loopback that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether somebody takes connections on a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def missing(binary: Callable[[], str]) -> str:
    """What has to be installed before a server can be started; empty when ``binary`` finds its program."""
    try:
        binary()
    except LedgerError as error:
        return str(error)
    return ""


class Guarded:
    """The process of one server, and the guard that ends it with its starter. Either may be started again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self, command: Sequence[str], folder: str, log: str) -> None:
        """Start it; what it says goes to the end of the file ``log``. Does not wait until it answers."""
        with open(log, "ab") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,  # Ctrl-C is for the tests, not for the server
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self, answers: Callable[[], bool], what: str, log: str) -> None:
        """Wait until it answers; else it is killed, and :class:`LedgerError` has the end of its log."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if answers():
                return
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.01)
        self.end(signal.SIGKILL)
        with open(log, encoding="utf-8", errors="replace") as file:
            raise LedgerError(f"{what} did not start: {file.read()[-500:]}")

    def signal(self, number: int) -> None:
        """Send it a signal, where it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, how: int) -> None:
        """End it by a signal, and wait until it has ended; SIGKILL where that does not help."""
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.kill()
            guard.wait()
            guard.stdin.close()
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_SECONDS_MAX)

    def freeze(self) -> None:
        """SIGSTOP: it answers nobody, and its connections stay open."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            if hasattr(
                os, "waitid"
            ):  # the signal is on its way: what is asked meanwhile would still be answered
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
