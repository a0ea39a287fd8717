"""Entries on standard output: a line for people, a JSON object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.terminal import Terminal, Text, cyan, dim, red
from chatsnapshot.cli.width import columns, cut, pad

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry

__all__ = ["Feed", "entry_json"]

POSITION_COLUMNS = 6
TYPE_COLUMNS = 24
CORRELATION_COLUMNS = 20
WHO_COLUMNS = 14


def entry_json(entry: LedgerEntry) -> bytes:
    """The entry as one JSON object: what the ledger added, then the event as it is stored.

    ``{"position": 17, "sequence": 5, "recorded_at": …, "leaf": hex, "event": {…}}``; ``"erased": true``
    stands before the event when its payload was erased.
    """
    erased = b'"erased":true,' if entry.erased else b""
    head = (
        f'{{"position":{entry.position},"sequence":{entry.sequence},'
        f'"recorded_at":"{entry.recorded_at}","leaf":"{entry.leaf.hex()}",'
    )
    return head.encode() + erased + b'"event":' + entry.event.to_json() + b"}"


class Feed:
    """Writes entries as they come, each on one line; a date (UTC) stands above the first of each day."""

    def __init__(self, out: Terminal, *, correlation: bool) -> None:
        self.out = out
        self.correlation = correlation
        self.day = ""

    def write(self, entry: LedgerEntry) -> None:
        """One entry: position, time, correlation where asked, type, who, what."""
        from chatsnapshot.projections.timeline import describe

        out = self.out
        item = describe(entry)
        if entry.timestamp[:10] != self.day:
            self.day = entry.timestamp[:10]
            out.line(dim(f"{' ' * (POSITION_COLUMNS + 2)}{self.day} UTC"))
        pieces: list[Text] = [
            f"{entry.position:>{POSITION_COLUMNS}}",
            "  ",
            dim(entry.timestamp[11:23] + "Z"),
            "  ",
        ]
        if self.correlation:
            pieces += [cyan(self._column(entry.correlation_id, CORRELATION_COLUMNS)), "  "]
        kind = pad(out.one_line(entry.event_type), TYPE_COLUMNS)
        pieces += [red(kind) if item.failed else kind, "  "]
        pieces += [self._column(item.who or "", WHO_COLUMNS), "  "]
        room = out.width - sum(out.measure(piece) for piece in pieces)
        pieces.append(cut(out.one_line(item.what), max(room, 20), out.mark))
        out.line(*pieces)

    def _column(self, text: str, width: int) -> str:
        shown = cut(self.out.one_line(text), width, self.out.mark)
        return shown + " " * (width - columns(shown))
