"""``chatsnapshot projections``: the stored states of views: where they stand, bring them up, rebuild, compare."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import CORRUPT, OK, PARTIAL
from chatsnapshot.cli.opening import open_to_add, open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim, green, red, yellow
from chatsnapshot.cli.wording import count, size

if TYPE_CHECKING:
    from chatsnapshot.projections.engine import Outcome
    from chatsnapshot.projections.refolding import Compared
    from chatsnapshot.projections.standing import Standing
    from chatsnapshot.projections.storing import Parked

__all__ = ["command"]

_ON_ERROR = click.Choice(["stop", "park"])


@click.group(
    "projections", subcommand_metavar="COMMAND …", no_args_is_help=False, invoke_without_command=True
)
@ledger_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, run, rebuild and compare the stored states of views."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


@command.command("list", short_help="List where each projection stands.")
@json_option("one projection a line, as a JSON object")
@ledger_option
def list_command(as_json: bool) -> int:
    """List where each projection stands: position, what is new since, keys, bytes, digest, parked keys."""
    from chatsnapshot.projections.standing import status

    out = Terminal.stdout()
    with open_to_read() as ledger:
        found = status(ledger)
    if as_json:
        for one in found:
            out.json_line(msgspec.json.encode(one))
        return OK
    headings = (
        Column("NAME"),
        Column("VERSION", right=True),
        Column("POSITION", right=True),
        Column("BEHIND", right=True),
        Column("KEYS", right=True),
        Column("STATES", right=True),
        Column("DIGEST", spare=True),
        Column("", gives=1),
    )
    table(out, headings, [_standing(out, one) for one in found])
    for one in found:
        for why in (*one.parked, *filter(None, [one.stopped])):
            word = "stopped" if why is one.stopped else "parked "
            out.line(yellow(word), "  ", out.one_line(f"{one.name} {_where(why)}: {why.reason}"))
    return OK


def _standing(out: Terminal, one: Standing) -> tuple[Any, ...]:
    name = out.one_line(one.name)
    if one.role == "none":
        return (name, str(one.version), "", "", "", "", "", dim("nothing stored"))
    notes = [] if one.role == "current" else [one.role]
    notes += [f"{len(one.parked)} parked"] if one.parked else []
    notes += ["stopped"] if one.stopped else []
    numbers = (f"{one.position:,}", f"{one.behind:,}", f"{one.keys:,}", size(one.state_bytes))
    return (name, str(one.version), *numbers, dim(one.digest[:12]), yellow(", ".join(notes)))


def _where(why: Parked) -> str:
    key = "" if why.key is None else f", key {why.key!r}"
    return f"at position {why.position}{key}"


@command.command("run", short_help="Bring stored states up to the head.")
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option(
    "--on-error",
    type=_ON_ERROR,
    help="In front of an entry that a projection fails at: stop, or park its key. [default: what it says, else stop]",
)
@click.option("--retry", is_flag=True, help="Try parked keys again.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is recorded from now on, until Ctrl-C.")
@json_option("one projection a line, as a JSON object")
@ledger_option
def run_command(
    names: tuple[str, ...], on_error: str | None, retry: bool, follow: bool, as_json: bool
) -> int:
    """Bring stored states up to the head; all projections, or those named.

    Costs what is new. Several may run at once: each entry is taken once. Exit code 10 when one stopped; with
    --follow it is tried again with what comes next.
    """
    out = Terminal.stdout()
    if follow:
        return _follow(out, names, on_error, retry, as_json)
    from chatsnapshot.projections.engine import run

    with open_to_add() as ledger, Progress() as progress:
        found = run(
            ledger,
            names or None,
            on_error=on_error,
            retry=retry,
            progress=partial(progress.show, "running"),
        )
    for one in found:
        out.json_line(msgspec.json.encode(one)) if as_json else _outcome(out, one)
    return PARTIAL if any(one.error for one in found) else OK


def _follow(out: Terminal, names: tuple[str, ...], on_error: str | None, retry: bool, as_json: bool) -> int:
    from chatsnapshot.projections.following import follow

    told: dict[str, str | None] = {}
    with open_to_add() as ledger:
        for found in follow(ledger, names or None, on_error=on_error, retry=retry):
            for one in found:
                # What neither moved nor changed its mind is told once only.
                if one.taken or one.mended or told.get(one.name, "") != one.error:
                    out.json_line(msgspec.json.encode(one)) if as_json else _outcome(out, one)
                told[one.name] = one.error
            out.flush()
    return PARTIAL if any(told.values()) else OK


def _outcome(out: Terminal, one: Outcome) -> None:
    if one.error is not None:
        out.line(red("stopped"), "  ", out.one_line(one.error))
        return
    parked = f", {count(one.parked, 'parked key')}" if one.parked else ""
    mended = f", {count(one.mended, 'key')} going on" if one.mended else ""
    facts = (
        f"version {one.version} at position {one.position:,}, {count(one.taken, 'new entry', 'new entries')}"
    )
    out.line(out.one_line(one.name), "  ", dim(facts + parked + mended))


@command.command("rebuild", short_help="Fold a projection anew, beside the states in use.")
@click.argument("name")
@click.option(
    "--on-error",
    type=_ON_ERROR,
    help="In front of an entry that it fails at: stop, or park its key. [default: what it says, else stop]",
)
@json_option("a JSON object")
@ledger_option
def rebuild_command(name: str, on_error: str | None, as_json: bool) -> int:
    """Fold a projection anew beside the states in use, then switch to the new ones at once.

    The old states serve until then and stay when this is interrupted.
    """
    from chatsnapshot.projections.engine import rebuild

    out = Terminal.stdout()
    with open_to_add() as ledger, Progress() as progress:
        found = rebuild(ledger, name, on_error=on_error, progress=partial(progress.show, "rebuilding"))
    out.json_line(msgspec.json.encode(found)) if as_json else _outcome(out, found)
    return OK


@command.command("verify", short_help="Fold anew and compare with what is stored.")
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--at", type=click.IntRange(min=0), metavar="POSITION", help="The digest as of this position.")
@click.option("--expect", metavar="DIGEST", help="Compare with this digest, such as that of a copy.")
@json_option("one projection a line, as a JSON object")
@ledger_option
def verify_command(names: tuple[str, ...], at: int | None, expect: str | None, as_json: bool) -> int:
    """Fold projections anew and compare their digests with those stored; all that are stored, or those named.

    Exit code 3 when one differs, 10 when there was nothing to compare with.
    """
    from chatsnapshot.projections.refolding import verify
    from chatsnapshot.projections.standing import status

    if expect is not None and len(names) != 1:
        raise click.UsageError("--expect needs the name of one projection")
    out = Terminal.stdout()
    verdicts: list[str] = []
    with open_to_read() as ledger:
        if at is not None and at > ledger.head:
            raise click.UsageError(f"there is no position {at}; the last one is {ledger.head}")
        chosen = names or [one.name for one in status(ledger) if one.role in ("current", "building")]
        for name in chosen:
            with Progress() as progress:
                found = verify(
                    ledger, name, at=at, expected=expect, progress=partial(progress.show, "folding")
                )
            verdicts.append(found.verdict)
            out.json_line(msgspec.json.encode(found)) if as_json else _compared(out, found)
    if not chosen and not as_json:
        out.line(dim("nothing is stored; `chatsnapshot projections run` stores states"))
    return CORRUPT if "different" in verdicts else OK if set(verdicts) <= {"same"} else PARTIAL


def _compared(out: Terminal, one: Compared) -> None:
    said = {
        "same": green("same"),
        "different": red("different"),
        "outdated": yellow("outdated: a payload was erased since; run it"),
        "alone": dim("nothing stored to compare with"),
    }[one.verdict]
    out.line(out.one_line(one.name), "  ", dim(f"at position {one.position:,}"), "  ", one.digest, "  ", said)
    if one.verdict == "different":
        out.line("  ", dim("stored"), "  ", out.one_line(one.stored or "nothing"))
        for key in one.keys:
            out.line("  ", dim("key   "), "  ", out.one_line(key))
