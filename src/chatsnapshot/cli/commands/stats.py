"""``chatsnapshot stats``: where the events and the bytes are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.opening import open_to_view
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url, shown_url
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold, dim
from chatsnapshot.cli.wording import moment, size

if TYPE_CHECKING:
    from chatsnapshot.projections.volume import Amount

TOP_DEFAULT = 10


@click.command("stats")
@click.option(
    "--last",
    "top",
    type=click.IntRange(min=1),
    default=TOP_DEFAULT,
    metavar="N",
    help=f"How many correlations and types to list, the largest first. [default: {TOP_DEFAULT}]",
)
@json_option("one JSON object, with every correlation and type")
@ledger_option
def command(top: int, as_json: bool) -> None:
    """Count events and bytes, by correlation and type.

    Costs what is new: counts are stored beside the history, where the ledger can be written. Bytes are those of
    the payloads as they are stored; the file holds ids, hashes and indexes besides.
    """
    from chatsnapshot.projections.volume import volume_of

    with open_to_view() as ledger:
        found = volume_of(ledger)
    whole = found.whole
    url = ledger_url()
    file_bytes = _file_bytes(url)
    out = Terminal.stdout()
    if as_json:
        document = {
            "ledger": shown_url(url),
            "events": whole.events,
            "head": found.position,
            "payload_bytes": whole.payload_bytes,
            "erased": whole.erased,
            "file_bytes": file_bytes,
            "first_recorded_at": found.first_recorded_at,
            "last_recorded_at": found.last_recorded_at,
            "correlations": _listed(found.correlations, "correlation_id"),
            "types": _listed(found.types, "event_type"),
        }
        out.json_line(msgspec.json.encode(document))
        return
    first, last = found.first_recorded_at, found.last_recorded_at
    out.line(bold(shown_url(url)))
    table(
        out,
        (Column(""), Column("")),
        [
            ("events", f"{whole.events:,}"),
            ("payloads", size(whole.payload_bytes) + (f", {whole.erased:,} erased" if whole.erased else "")),
            ("file", size(file_bytes) if file_bytes is not None else ""),
            ("recorded", f"{moment(first, digits=0)} to {moment(last, digits=0)}" if first and last else ""),
        ],
        indent="  ",
    )
    _largest(out, "CORRELATION", found.correlations, top)
    _largest(out, "TYPE", found.types, top)


def _largest(out: Terminal, heading: str, amounts: Mapping[str, Amount], top: int) -> None:
    if not amounts:
        return
    ranked = list(amounts.items())
    out.line()
    table(
        out,
        (Column(heading, gives=2), Column("EVENTS", right=True), Column("PAYLOADS", right=True)),
        [(out.one_line(key), f"{found.events:,}", size(found.payload_bytes)) for key, found in ranked[:top]],
        indent="  ",
    )
    if len(ranked) > top:
        out.line(dim(f"  and {len(ranked) - top:,} more"))


def _listed(amounts: Mapping[str, Amount], key: str) -> list[dict[str, Any]]:
    return [
        {key: name, "events": found.events, "payload_bytes": found.payload_bytes}
        for name, found in amounts.items()
    ]


def _file_bytes(url: str) -> int | None:
    """Bytes of the ledger's file and of SQLite's write-ahead log beside it; ``None`` for a server."""
    path = url.partition("?")[0]
    if path.startswith("sqlite:"):
        path = path.removeprefix("sqlite:").removeprefix("//")
    total = None
    for name in (path, path + "-wal"):
        try:
            total = (total or 0) + os.stat(name).st_size
        except (OSError, ValueError):
            pass
    return total
