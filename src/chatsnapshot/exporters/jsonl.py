"""JSON lines: one envelope a line, byte for byte as recorded."""

from __future__ import annotations

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.stored import envelope_json

__all__ = ["Envelopes"]


class Envelopes:
    """``chatsnapshot ingest`` takes the lines back; those of erased payloads say ``{"$erased":true}``."""

    format = "jsonl"
    what = "envelopes, one a line"
    unit = "events"
    runs_only = False
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """One line for each entry."""
        for entry in choice.entries():
            out.write(envelope_json(entry) + b"\n")
            tally.written += 1
