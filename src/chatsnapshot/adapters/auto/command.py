"""Runs a program as it would run by itself, in an environment that switches recording on, and records the process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.auto.leaving import end_left
from chatsnapshot.adapters.auto.parents import LEDGER, PARENT, parent_in, parent_text
from chatsnapshot.adapters.auto.process import ProcessRun, signal_name
from chatsnapshot.adapters.auto.recording import SWITCH
from chatsnapshot.adapters.auto.runtimes import chosen
from chatsnapshot.adapters.looking import looked
from chatsnapshot.adapters.places import Parent

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["run_program"]

_STARTUP = str(Path(__file__).with_name("startup"))
_HANDED_ON = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
_LOOK_SECONDS_MAX = 10.0
"""How long the end of a program waits for what the ledger says of its runs."""


def run_program(
    ledger: Ledger,
    arguments: Sequence[str],
    *,
    url: str,
    name: str | None = None,
    correlation_id: str | None = None,
    runtimes: Sequence[str] | None = None,
) -> tuple[int, str]:
    """Run a program to its end; gives its exit code (below 0: the signal that ended it) and the id of its run.

    Its input and output are those of this process. ``url`` is where the program's own processes find the ledger.
    Raises ``OSError`` when it cannot be started: then nothing is recorded.
    """
    chosen(runtimes)
    process = ProcessRun(ledger, {}, correlation_id)
    process.recorder.above = parent_in()
    # The start is on record before the program runs; a program that cannot run was never started.
    _check_program(arguments[0])
    parent = process.begin(arguments, None, name)
    environment = _environment(url, runtimes, parent)
    with _signals_handed_on() as hand_on_to:
        try:
            started = subprocess.Popen(list(arguments), env=environment)
        except OSError as error:
            process.ended_with(error)
            raise
        hand_on_to(started)
        code = _end_of(started)
    how = f"exit code {code}" if code >= 0 else signal_name(-code)
    looked(
        _LOOK_SECONDS_MAX,
        lambda: end_left(ledger, parent, f"its process ended: {how}"),
        process.recorder.note,
    )
    process.ended(code)
    return code, str(parent.run_id)


def _environment(url: str, runtimes: Sequence[str] | None, parent: Parent) -> dict[str, str]:
    paths = [_STARTUP, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        LEDGER: url,
        SWITCH: "all" if runtimes is None else ",".join(runtimes),
        PARENT: parent_text(parent),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _check_program(program: str) -> None:
    if shutil.which(program) is not None:
        return
    if os.path.exists(program):
        raise PermissionError(f"{program} cannot be executed")
    raise FileNotFoundError(f"there is no program {program}")


@contextmanager
def _signals_handed_on() -> Iterator[Callable[[subprocess.Popen[Any]], None]]:
    """Give the child what this process is told, also while it is being started; Ctrl-C reaches both at a terminal."""
    child: list[subprocess.Popen[Any]] = []
    early: list[int] = []

    def hand_on(number: int, _: object) -> None:
        if not child:
            early.append(number)
        for process in child:
            if process.poll() is None:
                process.send_signal(number)

    def hand_on_to(process: subprocess.Popen[Any]) -> None:
        child.append(process)
        for number in early:
            hand_on(number, None)

    def interrupt(number: int, frame: object) -> None:
        if not sys.stdin or not sys.stdin.isatty():
            hand_on(number, frame)

    before: dict[int, Any] = {}
    for known in (*_HANDED_ON, "SIGINT"):
        number = getattr(signal, known, None)
        if number is not None:
            before[number] = signal.signal(number, interrupt if known == "SIGINT" else hand_on)
    try:
        yield hand_on_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_of(process: subprocess.Popen[Any]) -> int:
    while True:
        try:
            return process.wait()
        except InterruptedError:
            continue
