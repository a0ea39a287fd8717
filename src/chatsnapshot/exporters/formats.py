"""Which formats there are."""

from __future__ import annotations

import difflib

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.exporters.base import Exporter
from chatsnapshot.exporters.chat import Chat
from chatsnapshot.exporters.cloudevents import CloudEvents
from chatsnapshot.exporters.diagrams import Dot, Mermaid
from chatsnapshot.exporters.entries import ProvenEntries
from chatsnapshot.exporters.graphml import GraphMl
from chatsnapshot.exporters.html.pages import HtmlPages
from chatsnapshot.exporters.jsonl import Envelopes
from chatsnapshot.exporters.ocel import Ocel
from chatsnapshot.exporters.otlp import Otlp
from chatsnapshot.exporters.parquet import Parquet
from chatsnapshot.exporters.prov import Prov
from chatsnapshot.exporters.spreadsheet import Csv

__all__ = ["FORMATS", "exporter_of"]

_EXPORTERS: tuple[Exporter, ...] = (
    Envelopes(),
    Csv(),
    Parquet(),
    Mermaid(),
    Dot(),
    GraphMl(),
    Prov(),
    Ocel(),
    Otlp(),
    CloudEvents(),
    Chat(),
    HtmlPages(),
)

FORMATS: dict[str, str] = {exporter.format: exporter.what for exporter in _EXPORTERS}
"""Format to what it is, in words."""


def exporter_of(format: str, *, entries: bool = False) -> Exporter:
    """The exporter of that format; ``entries`` asks for whole entries with proofs, which ``jsonl`` has.

    Raises :class:`NotFound` with the nearest formats, :class:`InvalidEvent` for entries in another format.
    """
    found = next((one for one in _EXPORTERS if one.format == format), None)
    if found is None:
        near = difflib.get_close_matches(format.lower(), FORMATS, n=2)
        meant = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise NotFound(f"nothing exports {format!r:.80}; the formats are {', '.join(FORMATS)}{meant}")
    if not entries:
        return found
    if found.format != "jsonl":
        raise InvalidEvent(f"whole entries are written as jsonl, not as {format}; leave one of the two out")
    return ProvenEntries()
