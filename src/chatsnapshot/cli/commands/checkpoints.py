"""``chatsnapshot checkpoints``: what graphs keep of their state in the ledger, listed, pruned and deleted."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from chatsnapshot.cli.failures import OK
from chatsnapshot.cli.opening import open_to_add, open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim
from chatsnapshot.errors import LedgerError, NotFound

__all__ = ["command"]


@click.group(
    "checkpoints", subcommand_metavar="COMMAND …", no_args_is_help=False, invoke_without_command=True
)
@ledger_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, prune and delete what graphs keep of their state.

    These are the checkpoints of ChatSnapshotSaver, for graphs of LangGraph.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


@command.command("list", short_help="List the threads that have checkpoints.")
@json_option("one thread a line, as a JSON object")
@ledger_option
def list_command(as_json: bool) -> int:
    """List the threads that have checkpoints: how many, in how many namespaces, the newest and when it was saved."""
    from chatsnapshot.adapters.langgraph.checkpoints import keeping

    out = Terminal.stdout()
    with open_to_read() as ledger:
        listed = [keeping.state_of(thread) for thread in keeping.every(ledger)]
    listed = [state for state in listed if state.checkpoints]
    if as_json:
        for state in listed:
            out.json_line(msgspec.json.encode(state))
        return OK
    headings = (
        Column("THREAD", gives=2),
        Column("CHECKPOINTS", right=True),
        Column("NAMESPACES", right=True),
        Column("NEWEST", gives=1),
        Column("SAVED"),
    )
    rows: list[tuple[Any, ...]] = [
        (
            out.one_line(state.thread_id),
            str(state.checkpoints),
            str(state.namespaces),
            state.last_checkpoint_id or "",
            dim((state.last_at or "")[:19] + "Z"),
        )
        for state in listed
    ]
    table(out, headings, rows)
    return OK


@command.command("prune", short_help="Keep the newest checkpoints of threads.")
@click.argument("threads", nargs=-1, metavar="[THREAD]…")
@click.option("--all", "every", is_flag=True, help="All threads.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many to keep, the newest, in each namespace of a thread.",
)
@json_option("one thread a line, as a JSON object")
@ledger_option
def prune_command(threads: tuple[str, ...], every: bool, keep: int, as_json: bool) -> int:
    """Keep the newest checkpoints of these threads; of the others the payloads are erased.

    What is kept is recorded anew first, so that a kill at any moment leaves a thread that reads as before or as after.
    The events themselves, their order and every proof stay, as with every erasure.
    """
    from chatsnapshot.adapters.langgraph.checkpoints import keeping

    with open_to_add() as ledger:
        for thread in _threads(ledger, threads, every):
            _tell(
                thread,
                keeping.keep(thread, lambda index: keeping.newest(index, keep), "thread pruned"),
                as_json,
            )
    return OK


@command.command("delete", short_help="Let go of all checkpoints of threads.")
@click.argument("threads", nargs=-1, required=True, metavar="THREAD…")
@json_option("one thread a line, as a JSON object")
@ledger_option
def delete_command(threads: tuple[str, ...], as_json: bool) -> int:
    """Let go of all checkpoints of these threads: their payloads are erased. What was recorded of runs stays."""
    from chatsnapshot.adapters.langgraph.checkpoints import keeping

    with open_to_add() as ledger:
        for thread in _threads(ledger, threads, False):
            _tell(thread, keeping.delete(thread), as_json)
    return OK


def _threads(ledger: Any, named: tuple[str, ...], every: bool) -> list[Any]:
    from chatsnapshot.adapters.langgraph.checkpoints import keeping

    if bool(named) == every:
        raise LedgerError("name the threads to prune, or all of them with --all")
    known = keeping.every(ledger)
    if every:
        return known
    by_id = {thread.thread_id: thread for thread in known}
    for name in named:
        if name not in by_id:
            raise NotFound(
                f"there is no thread {name!r} with checkpoints in {ledger.url}; "
                "list what there is with 'chatsnapshot checkpoints list'"
            )
    return [by_id[name] for name in dict.fromkeys(named)]


def _tell(thread: Any, kept: Any, as_json: bool) -> None:
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode({"thread_id": thread.thread_id, **kept._asdict()}))
    else:
        out.line(
            f"{out.one_line(thread.thread_id)}: {kept.kept} kept, {kept.removed} let go, "
            f"payloads of {kept.erased} events erased"
        )
    out.flush()
