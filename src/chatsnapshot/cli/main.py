"""The ``chatsnapshot`` command: its options and the table of its commands."""

from __future__ import annotations

import click

from chatsnapshot import __version__
from chatsnapshot.cli.lazy import LazyGroup
from chatsnapshot.cli.options import ledger_option

__all__ = ["cli", "main"]

_HOME = "chatsnapshot.cli.commands."

SECTIONS = {
    "Record": {
        "record": (_HOME + "record", "Record one event."),
        "ingest": (_HOME + "ingest", "Record lines of JSON, each once, from files or standard input."),
        "import": (_HOME + "import_", "Record what the files of another program say, each event once."),
        "run": (_HOME + "run", "Run a program, and record it and the agent runtimes it uses."),
        "evaluate": (_HOME + "evaluate", "Say how well a run or an event did."),
        "end": (_HOME + "end", "Close a run whose process died."),
        "demo": (_HOME + "demo", "Record a small multi-agent run, with a crash in it, and show it."),
    },
    "Look": {
        "runs": (_HOME + "runs", "List the runs, children under their parents."),
        "show": (_HOME + "show", "Show one run, or one event."),
        "timeline": (_HOME + "timeline", "Show what happened in a run, when and for how long."),
        "transcript": (_HOME + "transcript", "Print the conversation of a run."),
        "metrics": (_HOME + "metrics", "Count calls, tokens, cost, durations and failures."),
        "audit": (_HOME + "audit", "Tell who did what on whose authority, and what came of it."),
        "state": (_HOME + "state", "Show the last state of everything in a run, at any position."),
        "diff": (_HOME + "diff", "Show how two runs differ, or one run at two positions."),
        "graph": (_HOME + "graph", "Show what led to what in a run, and which task waits for which."),
        "search": (_HOME + "search", "Find words in everything that was recorded."),
        "context": (_HOME + "context", "Give the past of runs within a token budget, for a model."),
        "replay": (_HOME + "replay", "Play the events of a run again, in their order."),
        "export": (_HOME + "export", "Write runs or events for other programs: CSV, Parquet, traces …"),
        "tail": (_HOME + "tail", "Follow events as they are recorded."),
        "feed": (_HOME + "feed", "Write what a named consumer has not had yet, each entry at least once."),
    },
    "Serve": {
        "serve": (_HOME + "serve", "Serve ledgers over HTTP."),
        "mcp": (_HOME + "mcp", "Serve a ledger to models, over MCP."),
        "keys": (_HOME + "keys", "Make, list and revoke the API keys of a service."),
        "spool": (_HOME + "spool", "List, send and drop what waits here for a service."),
    },
    "Check": {
        "verify": (_HOME + "verify", "Check that nothing was changed, lost or reordered."),
        "schema": (_HOME + "schema", "List, show, export and compare the schemas of payloads."),
        "stats": (_HOME + "stats", "Count events and bytes, by correlation and type."),
        "scan": (_HOME + "scan", "Look for secrets in what is recorded."),
    },
    "Keep": {
        "doctor": (_HOME + "doctor", "Examine settings, file system, permissions, clock, space and files."),
        "projections": (_HOME + "projections", "List, run, rebuild and compare the stored states of views."),
        "checkpoints": (_HOME + "checkpoints", "List, prune and delete what graphs keep of their state."),
        "fsck": (_HOME + "fsck", "Look at the files of the ledger, and repair its end."),
        "backup": (_HOME + "backup", "Copy the ledger, verified, also while it is being written."),
        "copy": (_HOME + "copy", "Copy a ledger to another place or another kind of store."),
        "promote": (_HOME + "promote", "Make a ledger of its own of a copy, to record in."),
        "restore": (_HOME + "restore", "Put a backup in the place of the ledger."),
    },
}


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"chatsnapshot {__version__}")
        ctx.exit()


@click.command(
    "chatsnapshot",
    cls=LazyGroup,
    sections=SECTIONS,
    subcommand_metavar="COMMAND …",
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@ledger_option
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A durable ledger of what agents, tools and the systems around them did.

    Record events, then look at the history: runs, timelines, transcripts, replay. Everything is derived
    from the ledger; nothing in it is ever changed.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


def main() -> None:
    """Run the command line of this process."""
    cli.main()
