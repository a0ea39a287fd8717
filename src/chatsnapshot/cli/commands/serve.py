"""``chatsnapshot serve``: the HTTP service over one ledger or many."""

from __future__ import annotations

import ipaddress
import re

import click

from chatsnapshot.cli.options import keys_option, ledger_option, ledger_url, shown_url
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
@keys_option
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Answer to this name too, beside loopback and the address itself; may be repeated.",
)
@click.option(
    "--tls-cert", type=click.Path(), metavar="FILE", help="Serve https, with this certificate chain (PEM)."
)
@click.option(
    "--tls-key", type=click.Path(), metavar="FILE", help="The private key of --tls-cert (PEM, no password)."
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe this address, a reverse proxy, for whom it forwards; may be repeated.",
)
@click.option("--audit-reads", is_flag=True, help="Record which key read what, once a minute for each path.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    metavar="FORM",
    help="How lines of the log are written, to standard error: text or json.",
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
    keys: str | None,
    host_names: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    proxies: tuple[str, ...],
    audit_reads: bool,
    log_format: str,
) -> None:
    """Serve ledgers over HTTP.

    Until SIGTERM (exit code 0) or Ctrl-C (130); a second Ctrl-C ends it at once. The ledger is made when there is
    none. With --ledger-named several ledgers are served, each under its name. An address that other machines
    reach is served with --keys only.
    """
    try:
        from chatsnapshot.server.access import KeyGate
        from chatsnapshot.server.guard import host_of
        from chatsnapshot.server.service import Service
        from chatsnapshot.server.serving import listen, serve
        from chatsnapshot.server.tls import Tls, check_tls, is_loopback
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra("the HTTP service", "server") from None
    from chatsnapshot.server.keys import Keys
    from chatsnapshot.server.settings import Settings

    if (tls_cert is None) != (tls_key is None):
        raise LedgerError("--tls-cert and --tls-key go together: a certificate and its private key")
    tls = None if tls_cert is None or tls_key is None else Tls(tls_cert, tls_key)
    if tls is not None:
        check_tls(tls)
    for name in host_names:
        if host_of(name) is None or host_of(name) != name.lower().strip("[]").removesuffix("."):
            raise LedgerError(f"--host-name takes a name or address without a port, not {name!r}")
    for address in proxies:
        if not _is_address(address):
            raise LedgerError(f"--proxy takes an address, or a network such as 10.0.0.0/8, not {address!r}")
    gate = None if keys is None else KeyGate(Keys(keys))
    if audit_reads and gate is None:
        raise LedgerError("--audit-reads names the key that read, so it needs --keys")
    ledgers = _named(named)
    if not ledgers and any_ledger is None:
        ledgers = {"main": ledger_url()}
    service = Service(
        Settings(
            ledgers=ledgers,
            any_ledger=any_ledger,
            client_clock=client_clock,
            redact=None if redact == "none" else redact,
            heartbeat_seconds=heartbeat,
            hosts=host_names,
            audit_reads=audit_reads,
        ),
        gate,
    )
    sock = listen(host, port, keyed=gate is not None)
    if tls is None and not proxies and not is_loopback(sock):
        click.echo(
            "keys and events travel in clear text: use --tls-cert, or a proxy that does (--proxy)", err=True
        )
    shown = f"[{host}]" if ":" in host else host
    where = f"{'http' if tls is None else 'https'}://{shown}:{sock.getsockname()[1]}  serves " + ", ".join(
        [
            *(f"{name} ({shown_url(url)})" for name, url in ledgers.items()),
            *([f"any ledger of {any_ledger}"] if any_ledger else []),
        ]
    )
    code = serve(
        service,
        sock,
        tls=tls,
        proxies=proxies,
        log_form=log_format,
        ready=lambda: click.echo(where),
    )
    if code:
        raise SystemExit(code)


def _named(given: tuple[str, ...]) -> dict[str, str]:
    ledgers: dict[str, str] = {}
    for text in given:
        name, equals, url = text.partition("=")
        if not equals or not name or not url:
            raise LedgerError(f"--ledger-named takes NAME=URL, not {text!r}")
        if not re.fullmatch("[a-z0-9-]{1,63}", name, re.ASCII):
            raise LedgerError(f"a ledger's name is 1 to 63 of a-z, 0-9 and -, not {name!r:.80}")
        if name in ledgers:
            raise LedgerError(f"--ledger-named gives two ledgers the name {name!r}; give each one of its own")
        ledgers[name] = url
    return ledgers


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
