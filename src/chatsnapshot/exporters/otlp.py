"""OTLP JSON: runs, workflows, tasks, tools, model calls and questions as spans, one trace a line.

Sources: OTLP 1.x JSON encoding (ids in hexadecimal, 64-bit numbers as text), the OTLP file exporter (one
``TracesData`` a line), the OpenTelemetry GenAI semantic conventions for names and attributes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.spans import attributes_of
from chatsnapshot.exporters.traces import Trace
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.shapes import Timeline
from chatsnapshot.projections.views import view

__all__ = ["Otlp"]


class Otlp:
    """A line for each run that is nobody's child, with the spans of its children; one trace is held in memory."""

    format = "otlp"
    what = "traces (OTLP JSON), one run with its children a line"
    unit = "spans"
    runs_only = True
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """Spans and span events without a known time are left out, because the format needs one."""
        covered: set[str] = set()
        for root in choice.each(list(_roots(choice))):
            if root in covered:
                continue
            timeline: Timeline = view(choice, "timeline", root, until=choice.until, children=choice.children)
            covered.update(item.correlation_id for item in timeline.items)
            trace = Trace(timeline.items[0].event_id)
            entries = newest(choice, choice.replay(root, until=choice.until, children=choice.children))
            for item, entry in zip(timeline.items, entries, strict=True):
                trace.take(item, entry)
            spans = trace.spans()
            tally.written += len(spans)
            tally.left_out.update(trace.left_out)
            if spans:
                out.write(msgspec.json.encode(_document(choice, root, spans)) + b"\n")


def _roots(choice: Choice) -> Iterator[str]:
    """The correlations that traces begin with, parents before children."""
    found = dict.fromkeys(run.correlation_id for run in choice.runs())
    yield from (
        found if choice.named is None else (name for name in dict.fromkeys(choice.named) if name in found)
    )


def _document(choice: Choice, root: str, spans: list[dict[str, object]]) -> dict[str, object]:
    resource = {
        "service.name": "chatsnapshot",
        "chatsnapshot.ledger_id": choice.ledger.ledger_id,
        "chatsnapshot.correlation_id": root,
    }
    scope = {"scope": {"name": "chatsnapshot"}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": attributes_of(resource)}, "scopeSpans": [scope]}]}
