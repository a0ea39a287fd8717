"""``chatsnapshot mcp``: a ledger for models to read, over the Model Context Protocol."""

from __future__ import annotations

import click

from chatsnapshot.cli.opening import open_to_add, open_to_read
from chatsnapshot.cli.options import ledger_option, ledger_url, shown_url


@click.command("mcp")
@click.option(
    "--http",
    "where",
    metavar="HOST:PORT",
    help="Serve streamable HTTP here, at /mcp, and not standard input and output; port 0: any that is free.",
)
@click.option(
    "--allow-notes", is_flag=True, help="Offer a tool that records notes; otherwise nothing is written."
)
@ledger_option
def command(where: str | None, allow_notes: bool) -> None:
    """Serve a ledger to models, over MCP.

    Over standard input and output, until the input ends, or over HTTP on an address of this machine. Tools
    to list and search runs and to read transcripts, timelines, contexts and events, each within a token
    budget; resources such as chatsnapshot://run/RUN/transcript. Recorded text is marked as quoted.
    """
    from chatsnapshot.mcp.server import make_server
    from chatsnapshot.mcp.serving import PATH, address, listen, serve_http, serve_stdio

    place = None if where is None else address(where)
    with open_to_add() if allow_notes else open_to_read() as ledger:
        server = make_server(ledger, allow_notes=allow_notes)
        if place is None:
            serve_stdio(server, ledger.close)
            return
        sock = listen(*place)
        host, port = sock.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{port}{PATH}  serves {shown_url(ledger_url())}")
        code = serve_http(server, sock)
    if code:
        raise SystemExit(code)
