"""The options that several commands share, and where a command's ledger is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import click

__all__ = [
    "LEDGER_DEFAULT",
    "Until",
    "chosen_url",
    "json_option",
    "keys_option",
    "last_option",
    "ledger_option",
    "ledger_url",
    "moment_option",
    "shown_url",
    "until_option",
]

LEDGER_DEFAULT = "./chatsnapshot.db"

_LEDGER = "chatsnapshot.ledger"

Command = TypeVar("Command", bound=Callable[..., Any])

Until = int | str | None
"""An inclusive end: a position, a recorded time (27 characters), or none."""


def _remember(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
    if url is not None:
        ctx.meta[_LEDGER] = url


def ledger_option(command: Command) -> Command:
    """``--ledger URL``, accepted before and after the command's name; the one after it wins."""
    return click.option(
        "--ledger",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        help=f"The ledger: a file or URL. [env: CHATSNAPSHOT_LEDGER; default: {LEDGER_DEFAULT}]",
    )(command)


def chosen_url() -> str | None:
    """What ``--ledger`` names, when it was given."""
    url: str | None = click.get_current_context().meta.get(_LEDGER)
    return url


def ledger_url() -> str:
    """The ledger of this command: ``--ledger``, else ``CHATSNAPSHOT_LEDGER``, else the default."""
    return chosen_url() or os.environ.get("CHATSNAPSHOT_LEDGER") or LEDGER_DEFAULT


def keys_option(command: Command) -> Command:
    """``--keys FILE``, else ``CHATSNAPSHOT_KEYS``, else none: the file that the keys of a service are in."""
    return click.option(
        "--keys",
        envvar="CHATSNAPSHOT_KEYS",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="The file of API keys. [env: CHATSNAPSHOT_KEYS]",
    )(command)


def shown_url(url: str) -> str:
    """The URL as it may be printed: without a password."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
    except ValueError:
        return url.partition("://")[0] + "://…"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:…@{host}"))


def json_option(what: str) -> Callable[[Command], Command]:
    """``--json``: ``what`` is written instead of the form for people."""
    return click.option("--json", "as_json", is_flag=True, help=f"Write {what}, for programs.")


def last_option(what: str) -> Callable[[Command], Command]:
    """``--last N``: only the last N of ``what``."""
    return click.option("--last", type=click.IntRange(min=1), metavar="N", help=f"Only the last N {what}.")


class _UntilType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.5 on
    name = "until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        from chatsnapshot.clock import timestamp_text
        from chatsnapshot.errors import InvalidEvent

        text = str(value).strip()
        if text.isascii() and text.isdigit():
            return int(text)
        try:
            return timestamp_text(text)
        except InvalidEvent:
            self.fail(
                f"{text!r} is neither a position, such as 17, nor a time with a zone, "
                "such as 2026-11-30T02:26:03Z",
                param,
                ctx,
            )


def until_option(command: Command) -> Command:
    """``--until POSITION|TIME``: what the ledger held then, inclusive."""
    return click.option(
        "--until",
        type=_UntilType(),
        metavar="POSITION|TIME",
        help="As the ledger stood at this position or recorded time, inclusive.",
    )(command)


def moment_option(name: str, parameter: str, told: str) -> Callable[[Command], Command]:
    """An option that takes what ``--until`` takes."""
    return click.option(name, parameter, type=_UntilType(), metavar="POSITION|TIME", help=told)
