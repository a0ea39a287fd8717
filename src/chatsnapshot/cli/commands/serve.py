"""``chatsnapshot serve``: the HTTP service over one ledger or many."""

from __future__ import annotations

import click

from chatsnapshot.cli.options import ledger_option, ledger_url, shown_url
from chatsnapshot.errors import LedgerError, MissingExtra


@click.command("serve")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to listen on."
)
@click.option(
    "--port",
    default=8420,
    show_default=True,
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="The port; 0: any that is free.",
)
@click.option(
    "--ledger-named",
    "named",
    multiple=True,
    metavar="NAME=URL",
    help="Serve this ledger as /v1/ledgers/NAME; may be repeated.",
)
@click.option(
    "--redact",
    type=click.Choice(["secrets", "none"]),
    default="secrets",
    show_default=True,
    metavar="HOW",
    help="What events pass before they are stored: secrets (taken out), or none.",
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(0.1, 3600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="A live stream that is quiet for so long says how far it looked.",
)
@click.option(
    "--any-ledger",
    type=click.Path(file_okay=False, exists=True),
    metavar="FOLDER",
    help="Serve ledgers of any name as files of this folder, made as they are asked for.",
)
@click.option(
    "--client-clock",
    is_flag=True,
    help="Let clients of the store wire say what time it is; for tests that repeat a recording.",
)
@ledger_option
def command(
    host: str,
    port: int,
    named: tuple[str, ...],
    redact: str,
    heartbeat: float,
    any_ledger: str | None,
    client_clock: bool,
) -> None:
    """Serve the ledger over HTTP, until it is interrupted.

    The ledger is made when there is none. With --ledger-named several ledgers are served, each under its name.
    """
    try:
        from chatsnapshot.server.service import Service
        from chatsnapshot.server.serving import listen, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra("the HTTP service", "server") from None
    from chatsnapshot.server.settings import Settings

    ledgers = dict(_named(one) for one in named)
    if not ledgers and any_ledger is None:
        ledgers = {"main": ledger_url()}
    service = Service(
        Settings(
            ledgers=ledgers,
            any_ledger=any_ledger,
            client_clock=client_clock,
            redact=None if redact == "none" else redact,
            heartbeat_seconds=heartbeat,
        )
    )
    sock = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    click.echo(
        f"http://{shown}:{sock.getsockname()[1]}  serves "
        + ", ".join(
            [
                *(f"{name} ({shown_url(url)})" for name, url in ledgers.items()),
                *([f"any ledger of {any_ledger}"] if any_ledger else []),
            ]
        )
    )
    serve(service, sock)


def _named(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not equals or not name or not url:
        raise LedgerError(f"--ledger-named takes NAME=URL, not {text!r}")
    return name, url
