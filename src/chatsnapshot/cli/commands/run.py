"""``chatsnapshot run -- PROGRAM``: runs a program, and records it and the agent runtimes that it uses."""

from __future__ import annotations

import os
import signal
import sys

import click

from chatsnapshot.cli.opening import open_to_write
from chatsnapshot.cli.options import chosen_url, ledger_option, ledger_url
from chatsnapshot.cli.terminal import Terminal

NOT_EXECUTABLE = 126
NO_PROGRAM = 127


class _After(click.Command):
    """A command whose arguments begin after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args and not ctx.resilient_parsing and not {"-h", "--help"} & set(args):
            meant = next((word for word in args if not word.startswith("-")), None)
            if meant is None:
                raise click.UsageError("name a program after --: chatsnapshot run -- python app.py", ctx=ctx)
            raise click.UsageError(
                f"'run' runs a program, which stands after --: chatsnapshot run -- {meant}; "
                f"to look at a run, chatsnapshot show {meant}",
                ctx=ctx,
            )
        return super().parse_args(ctx, args)


@click.command("run", cls=_After, options_metavar="[OPTIONS] --")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--name", metavar="TEXT", help="What the run is called. [default: the script, module or program]"
)
@click.option("--correlation", metavar="ID", help="The id of the run. [default: a new one]")
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    metavar="NAME",
    help="Record this runtime only, such as langgraph; may be repeated. [default: each that it imports]",
)
@ledger_option
def command(
    program: tuple[str, ...], name: str | None, correlation: str | None, runtimes: tuple[str, ...]
) -> None:
    """Run a program, and record it and the agent runtimes it uses.

    PROGRAM stands after --, with its arguments. The process is a run (arguments without secrets, exit code, signals),
    and the runs of every agent runtime that its Python processes import are its children. Input, output and exit code
    are the program's own.
    """
    from chatsnapshot.adapters.auto.command import run_program
    from chatsnapshot.stores.open import locate

    location = locate(chosen_url() or ledger_url())
    if location.kind == "memory":
        raise click.UsageError("a program is recorded into a ledger that other processes reach, not memory:")
    with open_to_write() as ledger:
        try:
            code, run_id = run_program(
                ledger,
                program,
                url=location.address or location.url,
                name=name,
                correlation_id=correlation,
                runtimes=runtimes or None,
            )
        except (FileNotFoundError, PermissionError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(NO_PROGRAM if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
    if sys.stderr.isatty():
        shown = Terminal.stdout().one_line(run_id)
        click.echo(f"recorded; to look at it: chatsnapshot show {shown}", err=True)
    if code < 0:
        _end_by(-code)
    sys.exit(code)


def _end_by(number: int) -> None:
    """End as the program did, so that whoever waits for this process sees the same."""
    sys.stdout.flush()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
