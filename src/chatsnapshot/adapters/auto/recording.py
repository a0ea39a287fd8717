"""``autorecord()``: records every runtime that this process uses."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.auto.importing import ImportWatch
from chatsnapshot.adapters.auto.runtimes import Runtime, chosen, switch_on

# Every Python of a recorded program begins with this module: what most of them never need is imported where it is needed.
if TYPE_CHECKING:
    from chatsnapshot.adapters.auto.process import ProcessRun
    from chatsnapshot.adapters.places import Parent
    from chatsnapshot.ledger import Ledger

__all__ = ["AutoRecording", "autorecord", "autorecord_child"]

SWITCH = "CHATSNAPSHOT_AUTORECORD"
"""The environment variable that says which runtimes are recorded: ``all``, or names with commas between."""

_lock = threading.RLock()
_going: AutoRecording | None = None


def autorecord(
    ledger: Ledger | str | os.PathLike[str] | None = None,
    *,
    runtimes: Iterable[str] | None = None,
    redact: Any = "secrets",
    wait_seconds_max: float = 5.0,
) -> AutoRecording:
    """Record this process as a run, and every run of the runtimes that it imports, before or after this call.

    ``ledger`` is a ledger, or what :func:`chatsnapshot.open` takes. ``runtimes`` names the runtimes (all that there is
    an adapter for). Ends with ``close()``, as a ``with`` block, or with the process. In a process that ``chatsnapshot
    run`` started, or in which this was called before, it gives the recording that goes on.

    Nothing else changes for the program; what cannot be recorded is logged once. Raises what ``open`` raises, and
    :class:`~chatsnapshot.errors.InvalidEvent` for a runtime that is not known.
    """
    global _going
    from chatsnapshot.adapters.auto.parents import parent_in

    wanted = chosen(runtimes)
    with _lock:
        if _going is not None:
            return _going
        parent = parent_in()
        made = AutoRecording(ledger, wanted, {"redact": redact, "wait_seconds_max": wait_seconds_max}, parent)
        if parent is None:
            made.begin_process()
        _going = made
    made.begin()
    return made


def autorecord_child() -> None:
    """Switch recording on in a process that ``chatsnapshot run`` started; never raises, and opens no ledger yet."""
    global _going
    names = os.environ.get(SWITCH, "")
    if not names or _going is not None:
        return
    try:
        wanted = chosen(None if names == "all" else [name.strip() for name in names.split(",")])
        _going = AutoRecording(None, wanted, {"redact": "secrets"}, None, dict(os.environ))
        _going.begin()
    except Exception as error:
        sys.stderr.write(f"chatsnapshot: recording was not switched on ({error})\n")


class AutoRecording:
    """A recording of everything that this process's runtimes do; made by :func:`autorecord`."""

    def __init__(
        self,
        ledger: Ledger | str | os.PathLike[str] | None,
        runtimes: tuple[Runtime, ...],
        options: dict[str, Any],
        parent: Parent | None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.recorders: dict[str, Any] = {}
        """What records each runtime that was imported, by its name."""
        self.failures: dict[str, str] = {}
        """Why a runtime that was imported is not recorded, by its name."""
        self._given = ledger
        self._ledger: Ledger | None = None
        self._own = False
        self._options = options
        self._parent = parent
        self._environment = environment
        """Of the start of the process, where the parent is to be found in it."""
        self._process: ProcessRun | None = None
        self._undo: list[Callable[[], None]] = []
        self._runtimes = {runtime.module: runtime for runtime in runtimes}
        packages = {runtime.module: runtime.packages for runtime in runtimes}
        self._watch = ImportWatch(tuple(self._runtimes), self._imported, packages)

    @property
    def ledger(self) -> Ledger:
        """The ledger that is recorded into; opened when it is needed first."""
        if self._ledger is None:
            from chatsnapshot.ledger import Ledger
            from chatsnapshot.opening import open

            if isinstance(self._given, Ledger):
                self._ledger = self._given
            else:
                self._ledger, self._own = open(self._given), True
            if self._environment is not None:
                from chatsnapshot.adapters.auto.parents import parent_in, same_place
                from chatsnapshot.adapters.places import mark_process

                mark_process(same_place(self._environment))
                self._parent, self._environment = parent_in(self._environment), None
            _set_process(self._ledger, self._parent)
        return self._ledger

    def begin_process(self) -> None:
        """Record the start of this process's run."""
        from chatsnapshot.adapters.auto.process import ProcessRun

        self._process = ProcessRun(self.ledger, dict(self._options))
        self._parent = self._process.begin(sys.orig_argv or sys.argv, os.getpid())
        _set_process(self.ledger, self._parent)
        self._process.end_with_interpreter(self._end_open)

    def begin(self) -> None:
        """Switch on what was imported, and from now on what will be."""
        self._watch.begin()

    def close(self) -> None:
        """Switch everything off again, and end the run of this process."""
        global _going
        with _lock:
            if _going is self:
                _going = None
            self._watch.end()
            undo, self._undo = self._undo, []
        for one in reversed(undo):
            one()
        for recorder in self.recorders.values():
            recorder.safe.flush(recorder.safe.wait_seconds_max)
        if self._ledger is not None:
            _set_process(self._ledger, None)
        if self._process is not None:
            self._process.ended_here()
        if self._own and self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> AutoRecording:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None and isinstance(error[1], BaseException):
            self._process.failure = error[1]
        self.close()

    def _end_open(self) -> None:
        """What is going on still when the interpreter ends does so in threads that end with it."""
        for recorder in self.recorders.values():
            end_open = getattr(recorder, "end_open", None)
            if end_open is not None:
                end_open("its process ended")

    def _imported(self, module: str) -> None:
        runtime = self._runtimes[module]
        try:
            recorder, undo = switch_on(runtime, self.ledger, self._options)
            recorder.above = self._parent
        except Exception as error:
            self.failures[runtime.name] = str(error)
            _warn(runtime.name, error)
        else:
            self.recorders[runtime.name] = recorder
            self._undo.append(undo)


def _warn(name: str, error: Exception) -> None:
    import logging

    logging.getLogger("chatsnapshot.adapters").warning("%s is not recorded: %s", name, error)


def _set_process(ledger: Ledger, parent: Parent | None) -> None:
    from chatsnapshot.adapters.places import set_process

    set_process(ledger, parent)
