"""Worker processes that do jobs for a check: started, told what to do, listened to, interrupted, killed."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from chatsnapshot.testing.expecting import Failed

__all__ = ["Say", "Worker"]

Say = Callable[[Any], None]
"""Tells the parent something at once, and goes on."""

ANSWER_SECONDS_MAX = 50.0


class Worker:
    """A fresh interpreter. A job is a function of a module, called there as ``job(say, *arguments)``.

    ``say(value)`` reaches :meth:`said` while the job goes on; its return value is the :meth:`answer`. After a job
    started with ``last=True`` the interpreter ends as a script does that has come to its last line.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        }
        environment.pop("PYTHONWARNINGS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chatsnapshot.testing.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        self._line = Connection(ours.detach())
        self._said: list[Any] = []
        self._answered: tuple[str, Any] | None = None
        self._busy = False
        self._text = ""

    @property
    def at_rest(self) -> bool:
        """Whether it lives and has no job."""
        return not self._busy and self.process.poll() is None

    def start(self, job: Callable[..., Any], *arguments: Any, last: bool = False) -> None:
        """Begin a job; does not wait."""
        self._answered = None
        self._said.clear()
        self._busy = True
        self._line.send_bytes(pickle.dumps((job, arguments, last)))

    def said(self, timeout: float = ANSWER_SECONDS_MAX) -> Any:
        """The next thing that the job says; raises :class:`Failed` when it ends or says nothing."""
        while not self._said:
            if self._answered is not None:
                raise Failed(f"a worker ended its job early with {self._answered}")
            self._listen(timeout)
        return self._said.pop(0)

    def answer(self, timeout: float = ANSWER_SECONDS_MAX) -> Any:
        """What the job returns; raises :class:`Failed` with its error when it failed."""
        deadline = time.monotonic() + timeout
        while self._answered is None:
            self._listen(deadline - time.monotonic())
        self._busy = False
        kind, value = self._answered
        if kind != "done":
            raise Failed(f"a worker failed: {value}{self._printed()}")
        return value

    def look(self) -> bool:
        """Whether the answer is there; does not wait."""
        while self._answered is None and self._line.poll(0):
            self._take()
        return self._answered is not None

    def run(self, job: Callable[..., Any], *arguments: Any, timeout: float = ANSWER_SECONDS_MAX) -> Any:
        """Start a job and wait for its answer."""
        self.start(job, *arguments)
        return self.answer(timeout)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def kill(self) -> list[Any]:
        """SIGKILL; gives what the job had said until then and :meth:`said` has not given yet."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        try:
            while self._line.poll(0):
                self._take()
        except (EOFError, OSError):
            pass
        self._close()
        said, self._said = self._said, []
        return said

    def ended(self, timeout: float = ANSWER_SECONDS_MAX) -> int:
        """Wait for the process to end by itself; gives its exit code, raises :class:`Failed` when it does not."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"a process did not end within {timeout:g} s{self._printed()}") from None

    def left_behind(self) -> list[Any]:
        """What an ended process had said and :meth:`said` has not given yet."""
        return self.kill()

    def printed(self) -> str:
        """What the process has written to its standard output and error."""
        if not self._errors.closed:
            self._errors.seek(0)
            self._text = self._errors.read().decode(errors="replace")
        return self._text

    def end(self) -> None:
        """Let the process end, or kill it."""
        self._line.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close()

    def _close(self) -> None:
        self._busy = True
        self._line.close()
        self.printed()
        self._errors.close()

    def _listen(self, timeout: float) -> None:
        try:
            if not self._line.poll(max(timeout, 0)):
                self.kill()
                raise Failed(f"a worker said nothing for {timeout:.0f} s: it hangs{self._printed()}")
            self._take()
        except (EOFError, OSError):
            code = self.process.wait(ANSWER_SECONDS_MAX)
            raise Failed(f"a worker ended with exit code {code}{self._printed()}") from None

    def _take(self) -> None:
        kind, value = self._line.recv()
        if kind == "said":
            self._said.append(value)
        else:
            self._answered = (kind, value)

    def _printed(self) -> str:
        text = self.printed().strip()
        return f"\n{text[-2000:]}" if text else ""
