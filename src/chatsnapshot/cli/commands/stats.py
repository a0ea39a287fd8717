"""``chatsnapshot stats``: where the events and the bytes are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url, shown_url
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold, dim
from chatsnapshot.cli.wording import moment, size

TOP_DEFAULT = 10


class _Sum:
    """Events of one kind and the bytes of their payloads."""

    __slots__ = ("erased", "events", "payload_bytes")

    def __init__(self) -> None:
        self.events = self.payload_bytes = self.erased = 0

    def add(self, payload: bytes | None) -> None:
        self.events += 1
        if payload is None:
            self.erased += 1
        else:
            self.payload_bytes += len(payload)


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

    Bytes are those of the payloads as they are stored; the file holds ids, hashes and indexes besides.
    """
    whole = _Sum()
    correlations: dict[str, _Sum] = {}
    types: dict[str, _Sum] = {}
    first = last = None
    with open_to_read() as ledger:
        head = ledger.head
        for entry in ledger.read(until=head):
            payload = entry.payload_json
            whole.add(payload)
            correlations.setdefault(entry.correlation_id, _Sum()).add(payload)
            types.setdefault(entry.event_type, _Sum()).add(payload)
            last = entry.recorded_at
            first = first or last
    url = ledger_url()
    file_bytes = _file_bytes(url)
    out = Terminal.stdout()
    if as_json:
        document = {
            "ledger": shown_url(url),
            "events": whole.events,
            "head": head,
            "payload_bytes": whole.payload_bytes,
            "erased": whole.erased,
            "file_bytes": file_bytes,
            "first_recorded_at": first,
            "last_recorded_at": last,
            "correlations": _listed(correlations, "correlation_id"),
            "types": _listed(types, "event_type"),
        }
        out.json_line(msgspec.json.encode(document))
        return
    out.line(bold(shown_url(url)))
    table(
        out,
        (Column(""), Column("")),
        [
            ("events", f"{whole.events:,}"),
            ("payloads", size(whole.payload_bytes) + (f", {whole.erased:,} erased" if whole.erased else "")),
            ("file", size(file_bytes) if file_bytes is not None else ""),
            ("recorded", f"{moment(first, digits=0)} to {moment(last, digits=0)}" if first else ""),
        ],
        indent="  ",
    )
    _largest(out, "CORRELATION", correlations, top)
    _largest(out, "TYPE", types, top)


def _largest(out: Terminal, heading: str, sums: Mapping[str, _Sum], top: int) -> None:
    if not sums:
        return
    ranked = sorted(sums.items(), key=lambda item: (-item[1].payload_bytes, item[0]))
    out.line()
    table(
        out,
        (Column(heading, gives=2), Column("EVENTS", right=True), Column("PAYLOADS", right=True)),
        [(out.one_line(key), f"{found.events:,}", size(found.payload_bytes)) for key, found in ranked[:top]],
        indent="  ",
    )
    if len(ranked) > top:
        out.line(dim(f"  and {len(ranked) - top:,} more"))


def _listed(sums: Mapping[str, _Sum], key: str) -> list[dict[str, Any]]:
    ranked = sorted(sums.items(), key=lambda item: (-item[1].payload_bytes, item[0]))
    return [
        {key: name, "events": found.events, "payload_bytes": found.payload_bytes} for name, found in ranked
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
