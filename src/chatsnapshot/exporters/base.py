"""What an exporter is: it writes what was chosen to a stream, one piece after the other, and counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from chatsnapshot.exporters.choosing import Choice

__all__ = ["ExportReport", "Exporter", "Sink", "Tally"]


class Sink(Protocol):
    """Where an export goes: takes bytes in order."""

    def write(self, data: bytes, /) -> object:
        """Take the bytes."""
        ...


class Tally:
    """What became of what was read: how much was written, and what was left out, by reason in words."""

    def __init__(self) -> None:
        self.written = 0
        self.left_out: Counter[str] = Counter()


class Exporter(Protocol):
    """Writes one format.

    ``format`` is its name on the command line, ``what`` says in words what it writes, ``unit`` what is counted
    (``events``, ``spans``, ``runs``). ``runs_only``: it writes whole runs, so filters of events do not apply.
    ``one_run``: it writes one run with its children. ``text``: what it writes is UTF-8.
    """

    format: str
    what: str
    unit: str
    runs_only: bool
    one_run: bool
    text: bool

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """Write everything that was chosen; holds no more of it in memory than its page in the docs says.

        Never raises because of what an event holds.
        """
        ...


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported.

    ``written`` pieces of ``unit`` (``events``, ``spans``, ``runs``) in ``bytes`` bytes; ``left_out`` counts by reason.
    ``last_position`` is the last position that was looked at, ``path`` the file (``None``: a stream).
    """

    format: str
    unit: str
    path: str | None
    bytes: int
    written: int
    left_out: dict[str, int]
    last_position: int
