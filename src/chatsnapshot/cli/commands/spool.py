"""``chatsnapshot spool``: what waits on this machine for a service: list it, send it, drop what was refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import OK, PARTIAL
from chatsnapshot.cli.options import chosen_url, json_option, ledger_option, ledger_url
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim, green, red, yellow
from chatsnapshot.cli.wording import count, size
from chatsnapshot.errors import LedgerError, NotFound

if TYPE_CHECKING:
    from chatsnapshot.stores.spool.file import SpoolFile

__all__ = ["command"]


@click.group("spool", subcommand_metavar="COMMAND …", no_args_is_help=False, invoke_without_command=True)
@ledger_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, send and drop what waits here for a service."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


@command.command("list", short_help="List what waits and what was refused.")
@click.argument("url", required=False, metavar="[URL]")
@json_option("one spool a line, as a JSON object")
@ledger_option
def list_command(url: str | None, as_json: bool) -> int:
    """List what waits to be sent and what the service refused, of every spool of yours or that of URL."""
    from chatsnapshot.stores.spool.place import spool_paths

    out = Terminal.stdout()
    url = url or chosen_url()
    found = [_told(path) for path in ([_path(url)] if url else spool_paths()) if os.path.exists(path)]
    if as_json:
        for one in found:
            out.json_line(msgspec.json.encode(one))
        return OK
    headings = (
        Column("LEDGER", gives=1),
        Column("WAITING", right=True),
        Column("SIZE", right=True),
        Column("REFUSED", right=True),
    )
    rows = [
        (out.one_line(one["url"]), f"{one['waiting']:,}", size(one["bytes"]), f"{one['refused']:,}")
        for one in found
    ]
    table(out, headings, rows)
    for one in found:
        for refusal in one["refusals"]:
            what = ", ".join(refusal["event_ids"][:3])
            out.line(red("refused"), "  ", dim(what), "  ", out.one_line(refusal["reason"]))
    return OK


def _told(path: str) -> dict[str, Any]:
    with _opened(path) as file:
        counted, facts = file.counted(), file.facts()
        return {
            "url": facts.get("url", ""),
            "ledger_id": facts.get("ledger_id"),
            "path": path,
            "waiting": counted.waiting,
            "bytes": counted.bytes,
            "refused": counted.refused,
            "refusals": list(_refusals(file)),
        }


def _refusals(file: SpoolFile) -> Iterator[dict[str, Any]]:
    from chatsnapshot.clock import uuid_text
    from chatsnapshot.stores.http import wire

    for one in file.refused():
        drafts = wire.decode(one.data, type=wire.WireGroup).drafts
        yield {
            "refused_at": one.refused_at,
            "event_ids": [uuid_text(draft.event_id) for draft in drafts],
            "reason": msgspec.json.decode(one.problem).get("detail", ""),
        }


@command.command("send", short_help="Send what waits, and say what was refused.")
@click.argument("url", required=False, metavar="[URL]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after so long; what was not sent goes on waiting.",
)
@ledger_option
def send_command(url: str | None, timeout: float) -> int:
    """Send what waits for the ledger at URL, or --ledger, now. Exits with 10 when something was refused."""
    import chatsnapshot.opening

    out = Terminal.stdout()
    url = url or ledger_url()
    with _opened(_existing(url)) as file:
        waiting = file.counted().waiting
    with chatsnapshot.opening.open(url) as ledger:
        try:
            report = ledger.flush(timeout)
        except TimeoutError as error:
            raise LedgerError(str(error)) from None
    out.line(green("sent"), f"  {count(waiting, 'event')}")
    for failure in report.failures:
        out.line(red("refused"), "  ", dim(failure.event.event_id), "  ", out.one_line(str(failure.error)))
    return PARTIAL if report.failures else OK


@command.command("drop", short_help="Forget what was refused, or all that waits.")
@click.argument("url", required=False, metavar="[URL]")
@click.option("--waiting", is_flag=True, help="Forget what waits to be sent as well; it is lost then.")
@ledger_option
def drop_command(url: str | None, waiting: bool) -> int:
    """Forget the events that the service of URL, or --ledger, refused."""
    out = Terminal.stdout()
    with _opened(_existing(url or ledger_url())) as file:
        before = file.drop(waiting=waiting)
    dropped = before.refused + (before.waiting if waiting else 0)
    out.line(yellow("dropped"), f"  {count(dropped, 'event')}")
    return OK


def _path(url: str) -> str:
    """The spool of a URL."""
    from chatsnapshot.stores.http.address import read_address
    from chatsnapshot.stores.open import locate
    from chatsnapshot.stores.spool.place import spool_path

    location = locate(url)
    if location.kind != "http":
        raise LedgerError(
            f"{location.url} is no http:// URL; only what is recorded for a service waits in a spool"
        )
    return spool_path(location, read_address(location))


def _existing(url: str) -> str:
    path = _path(url)
    if not os.path.exists(path):
        raise NotFound(f"there is no spool of {url}; nothing was recorded for it by way of one")
    return path


@contextmanager
def _opened(path: str) -> Iterator[SpoolFile]:
    from chatsnapshot.stores.spool.file import SpoolFile

    file = SpoolFile(path, path, 2**50)
    try:
        yield file
    finally:
        file.close()
