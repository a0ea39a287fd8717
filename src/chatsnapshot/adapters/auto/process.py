"""A process as a run: its arguments, and how it ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from chatsnapshot import exiting
from chatsnapshot.adapters.auto.ending import Ending, exit_code
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import Parent
from chatsnapshot.adapters.policy import Event

__all__ = ["ProcessRun", "program_name", "signal_name"]

_STOPPED_BY = frozenset({"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"})
"""Signals with which somebody ends a program; any other one is a failure of it."""


def program_name(arguments: Sequence[str]) -> str:
    """What the process is called: its script or module, else its program."""
    words = [os.path.basename(word) for word in arguments[:1]]
    if words and words[0].startswith("python"):
        rest = list(arguments[1:])
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
            del rest[: 2 if rest[0] in ("-W", "-X") else 1]
        if rest[:1] == ["-c"]:
            return "python -c"
        if rest[:1] == ["-m"] and len(rest) > 1:
            return f"python -m {rest[1]}"
        if rest:
            return os.path.basename(rest[0])
    return words[0] if words and words[0] else "process"


class ProcessRun:
    """The run of one process, seen from outside (a wrapper) or from inside."""

    def __init__(self, ledger: Any, options: dict[str, Any], correlation_id: str | None = None) -> None:
        self.recorder = RuntimeRecorder(
            ledger, runtime="process", correlation_id=correlation_id, **{"redact": "secrets", **options}
        )
        self.run: ObservedRun | None = None
        self.failure: BaseException | None = None
        """The exception that ends the process."""
        self._ended = False
        self._pid = os.getpid()
        self._ending: Ending | None = None

    def begin(self, arguments: Sequence[str], pid: int | None, name: str | None = None) -> Parent:
        """Record the start; gives what the runs inside are children of."""
        self.run = self.recorder.begin(name or program_name(arguments), key=f"process {pid or id(self)}")
        assert self.run is not None  # a process has one
        given: dict[str, Any] = {"argv": list(arguments)}
        if pid is not None:
            given["pid"] = pid
        self.recorder.record(_by_system(self.run.started(given)))
        return Parent(self.run.run_id, self.run.started_event, None, self.run.correlation_id)

    def ended(self, code: int) -> None:
        """Record the end: an exit code, or below 0 the signal that ended it."""
        if self.run is None or self._ended:
            return
        self._ended = True
        run = self.run
        if code == 0:
            made = run.completed({"exit_code": 0})
        elif code > 0:
            made = run.failed({"type": "SystemExit", "message": f"exit code {code}", "code": str(code)})
        else:
            name = signal_name(-code)
            if name in _STOPPED_BY:
                made = run.cancelled(f"ended by {name}")
            else:
                made = run.failed({"type": name, "message": f"killed by {name}", "code": name})
        self._record(made)

    def ended_with(self, error: BaseException) -> None:
        """Record that the process could not be run."""
        if self.run is not None and not self._ended:
            self._ended = True
            self._record(self.run.failed(error))

    def ended_here(self) -> None:
        """Record the end of this process, or of its recording: with :attr:`failure`, where there is one."""
        if self.run is None or self._ended or os.getpid() != self._pid:
            return  # a forked child ends neither the run of its parent nor one of its own
        if self._ending is not None:
            self._ending.forget()
        failure = self.failure
        if failure is None:
            self._ended = True
            self._record(self.run.completed())
        elif isinstance(failure, KeyboardInterrupt):
            self._ended = True
            self._record(self.run.cancelled("interrupted"))
        elif isinstance(failure, SystemExit):
            self.ended(exit_code(failure.code))
        else:
            self.ended_with(failure)

    def _record(self, made: Event | None) -> None:
        if made is not None and self.run is not None:
            self.recorder.record(_by_system(made))
            self.recorder.end(self.run)
        self.recorder.flush(self.recorder.safe.wait_seconds_max)

    def end_with_interpreter(self, before: Callable[[], None]) -> None:
        """Record the end when the interpreter ends, with how it does; ``before`` is called right before that."""
        self._ending = ending = Ending()

        def wait() -> None:
            exiting.wait_for_others()
            if self._ended or os.getpid() != self._pid:
                return
            before()
            self.failure = ending.failure()
            code = None if self.failure is not None else ending.code()
            if code is None:
                self.ended_here()
            else:
                self.ended(code)

        waiting = threading.Thread(target=wait, name="chatsnapshot-process", daemon=False)
        exiting.waits(waiting)
        # The interpreter waits for it, and so does the end of every ledger: the end of the run is still taken.
        waiting.start()


def _by_system(event: Event) -> Event:
    event["source"] = {**event["source"], "origin": "system"}
    return event


def signal_name(number: int) -> str:
    """What a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
