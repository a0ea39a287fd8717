"""``chatsnapshot demo``: a small case, worked by agents, killed in the middle, finished and shown."""

from __future__ import annotations

import click

from chatsnapshot.cli.options import ledger_option, ledger_url
from chatsnapshot.cli.terminal import Terminal


@click.command("demo")
@ledger_option
def command() -> int:
    """Record a small multi-agent run, with a crash in it, and show it.

    A workflow around real agents with scripted models, offline, in seconds. Its process is killed between two tasks; a
    second one reads from the ledger what is done and does only the rest. Makes the ledger when there is none.
    """
    from chatsnapshot.demo import main

    out = Terminal.stdout()

    def say(line: str) -> None:
        out.line(line)
        out.flush()  # the commands that the demo shows write to the same output from their own processes

    return main(ledger_url(), say=say)
