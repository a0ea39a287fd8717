"""PROV-JSON: what was made from what, by which activity, on whose behalf (W3C PROV-DM)."""

from __future__ import annotations

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import JUDGED_OUT, Choice
from chatsnapshot.exporters.provenance import Provenance
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.shapes import Timeline
from chatsnapshot.projections.views import view

__all__ = ["Prov"]


class Prov:
    """One document for all runs; its records are held in memory, and the entries of one run with its children."""

    format = "prov"
    what = "provenance (W3C PROV-JSON): entities, activities, agents"
    unit = "events"
    runs_only = True
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """Every event is an entity, an activity, or the end of one."""
        made = Provenance(choice.ledger.ledger_id)
        covered: set[str] = set()
        found = dict.fromkeys(run.correlation_id for run in choice.runs())
        if choice.judged_out:
            tally.left_out[JUDGED_OUT] = choice.judged_out
        for root in choice.each(list(found)):
            if root in covered:
                continue
            timeline: Timeline = view(choice, "timeline", root, until=choice.until, children=choice.children)
            entries = newest(choice, choice.replay(root, until=choice.until, children=choice.children))
            for item, entry in zip(timeline.items, entries, strict=True):
                if item.correlation_id not in covered:
                    made.take(item, entry)
                    tally.written += 1
            covered.update(item.correlation_id for item in timeline.items)
        missing = made.settle()
        if missing:
            tally.left_out["causes that stand outside of what is exported"] = missing
        for line in made.records.lines():
            out.write(line)
