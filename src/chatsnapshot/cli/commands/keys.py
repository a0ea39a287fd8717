"""``chatsnapshot keys``: the API keys of a service, made, listed and revoked in their file."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import OK
from chatsnapshot.cli.options import json_option, keys_option
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim, green, red, yellow
from chatsnapshot.errors import LedgerError

if TYPE_CHECKING:
    from chatsnapshot.server.keys import Keys

__all__ = ["command"]

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
_COLOURS = {"active": green, "expired": yellow, "revoked": red}


@click.group("keys", subcommand_metavar="COMMAND …", no_args_is_help=False, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Make, list and revoke the API keys of a service."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


@command.command("create", short_help="Make a key and print it, once.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(["ingest", "read", "admin"]),
    metavar="SCOPE",
    help="What it may do: ingest (record), read, admin (erase, import, make ledgers); may be repeated.",
)
@click.option(
    "--for-ledger",
    "ledgers",
    multiple=True,
    metavar="NAME",
    help="Only for the ledger of this name; may be repeated. Without it for all.",
)
@click.option("--name", default="", metavar="TEXT", help="What it is for, to know it by in the list.")
@click.option("--expires", metavar="TIME", help="It ends after so long: 90d, 12h or 30m. Without it never.")
@json_option("the key and what is known of it")
@keys_option
def create_command(
    scopes: tuple[str, ...],
    ledgers: tuple[str, ...],
    name: str,
    expires: str | None,
    as_json: bool,
    keys: str | None,
) -> int:
    """Make a key and print it, once: only a hash of it is kept. The file is made when there is none."""
    out = Terminal.stdout()
    seconds = _seconds(expires)
    found = _open(keys, create=True)
    try:
        key, text = found.create(
            scopes, name=name, ledgers=ledgers or None, expires_seconds=seconds, by=_who()
        )
    finally:
        found.close()
    if as_json:
        out.json_line(msgspec.json.encode({"key": text, **_told(key)}))
        return OK
    out.line(text)
    out.flush()
    click.echo(f"key {key.id} is shown this once; keep it where only its user can read it", err=True)
    return OK


@command.command("list", short_help="List the keys.")
@json_option("one key a line, as a JSON object")
@keys_option
def list_command(as_json: bool, keys: str | None) -> int:
    """List the keys: id, what they may do, since when, until when, when last used. Secrets are not kept."""
    from chatsnapshot.clock import time_text

    out = Terminal.stdout()
    found = _open(keys)
    try:
        listed = found.list()
    finally:
        found.close()
    if as_json:
        for key in listed:
            out.json_line(msgspec.json.encode(_told(key)))
        return OK
    now = time_text(time.time_ns())
    headings = tuple(
        Column(name)
        for name in ("ID", "STATUS", "NAME", "SCOPES", "LEDGERS", "CREATED", "EXPIRES", "LAST USED")
    )
    rows: list[tuple[Any, ...]] = [
        (
            key.id,
            _COLOURS[key.status(now)](key.status(now)),
            key.name,
            ",".join(key.scopes),
            dim("all") if key.ledgers is None else ",".join(key.ledgers),
            key.created_at[:10],
            dim("never") if key.expires_at is None else key.expires_at[:16] + "Z",
            dim("never") if key.last_used_at is None else key.last_used_at[:13] + " h",
        )
        for key in listed
    ]
    table(out, headings, rows)
    return OK


@command.command("revoke", short_help="Let a key be refused from now on.")
@click.argument("key_id", metavar="ID")
@keys_option
def revoke_command(key_id: str, keys: str | None) -> int:
    """Let a key be refused from now on, by every process that uses the file; open streams of it end."""
    out = Terminal.stdout()
    found = _open(keys)
    try:
        key = found.revoke(_id_of(key_id), by=_who())
    finally:
        found.close()
    out.line(f"key {key.id} {key.name}".rstrip(), f" is refused since {key.revoked_at}")
    return OK


def _open(path: str | None, *, create: bool = False) -> Keys:
    from chatsnapshot.server.keys import Keys

    if path is None:
        raise LedgerError("name the file of keys with --keys FILE, or in CHATSNAPSHOT_KEYS")
    return Keys(path, create=create)


def _id_of(text: str) -> str:
    """The id, also of a whole key: it is not to be repeated in an error."""
    return text.split("_")[1] if text.startswith("csk_") and text.count("_") >= 2 else text


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    if match is None or not int(match[1]):
        raise LedgerError(f"--expires takes a time such as 90d, 12h or 30m, not {text!r}")
    return int(match[1]) * _SECONDS[match[2]]


def _who() -> str:
    """The user of this system that does it, for the record."""
    import getpass

    try:
        return f"user {getpass.getuser()}"[:100]
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else ""


def _told(key: Any) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(key).items() if value is not None}
