"""Exit codes, and the one sentence that an error becomes on standard error."""

from __future__ import annotations

import os
import sys
import traceback

import click

from chatsnapshot.errors import LedgerError

__all__ = [
    "BELOW_REQUIRED",
    "CORRUPT",
    "ERROR",
    "INTERRUPTED",
    "NO_LEDGER",
    "OK",
    "PARTIAL",
    "PAYLOAD_MISSING",
    "SIGNATURE",
    "SPLIT_VIEW",
    "TRUNCATED",
    "NoLedger",
    "exit_code_of",
    "settle_stdout",
    "tell",
]

OK = 0
ERROR = 1
NO_LEDGER = 2
CORRUPT = 3
TRUNCATED = 4
SPLIT_VIEW = 5
SIGNATURE = 6
PAYLOAD_MISSING = 7
BELOW_REQUIRED = 8
PARTIAL = 10
INTERRUPTED = 130


class NoLedger(LedgerError):
    """There is no ledger at the place that was named."""


def exit_code_of(error: BaseException) -> int:
    """The exit code for an error that ended a command.

    A reader that went away (``chatsnapshot replay run-1 | head``) has what it wanted: that is 0.
    """
    if isinstance(error, BrokenPipeError):
        return OK
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, NoLedger):
        return NO_LEDGER
    return ERROR


def tell(error: BaseException) -> None:
    """Write the error to standard error, one sentence; ``CHATSNAPSHOT_DEBUG=1`` puts the traceback before."""
    settle_stdout()
    if isinstance(error, BrokenPipeError):
        return
    from chatsnapshot.cli.terminal import Terminal, red

    try:
        out = Terminal.of(sys.stderr)
        if os.environ.get("CHATSNAPSHOT_DEBUG", "") not in ("", "0"):
            for line in "".join(traceback.format_exception(error)).splitlines():
                out.line(line)
        if isinstance(error, (KeyboardInterrupt, click.Abort)):
            out.line()  # ends the line on which the terminal wrote ^C
        else:
            out.line(red("error:"), " ", sentence(error))
        out.flush()
    except BrokenPipeError:
        pass


def sentence(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, click.UsageError):
        said = error.format_message().strip().rstrip(".")
        if said[1:2].islower():
            said = said[:1].lower() + said[1:]
        where = error.ctx.command_path if error.ctx is not None else "chatsnapshot"
        return f"{said} (see {where} --help)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, LedgerError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror[:1].lower()}{error.strerror[1:]}"
    return f"unexpected {type(error).__name__}: {error} (CHATSNAPSHOT_DEBUG=1 shows where)"


def settle_stdout() -> None:
    """Write what is left for standard output; where that fails, point it nowhere.

    Otherwise the interpreter would try again at its end, and complain.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass
