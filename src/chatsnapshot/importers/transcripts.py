"""Lines of the files of one session, put in the order of their times; what waits for another file is held back."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from chatsnapshot.clock import timestamp_text
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.importers.base import Piece, Problem

__all__ = ["Line", "Reader", "Transcripts", "lines_of", "read_alone", "time_of"]

Found = Iterator[Piece | Problem]


class Line(NamedTuple):
    """One line: a JSON object, its time as written in events (``None``: unknown), and where it stands in the order."""

    file: str
    offset: int
    facts: dict[str, Any]
    digest: str
    at: str | None
    order: str


class Reader(Protocol):
    """What a program's lines mean."""

    def time(self, facts: dict[str, Any]) -> object:
        """The time that a line names."""
        ...

    def waits(self, line: Line, heads: Iterable[Line]) -> bool:
        """Whether a line cannot be read before others, of which ``heads`` are the next of each file, have been."""
        ...

    def read(self, line: Line) -> Found:
        """What a line tells."""
        ...

    def end(self) -> Found:
        """What can be told when no line follows."""
        ...


class Transcripts:
    """A :class:`~chatsnapshot.importers.base.Session`; several files are read as one, none out of its own order."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._queues: dict[str, deque[Line]] = {}
        self._orders: dict[str, str] = {}
        self._problems: list[Problem] = []
        self._first: str | None = None

    def take(self, file: str, offset: int, line: bytes) -> None:
        """Put a line into the queue of its file; a blank one is left out."""
        if self._first is None:
            self._first = file
        if offset == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.strip()
        if not line:
            return
        facts = _facts(line)
        if isinstance(facts, str):
            self._problems.append(Problem(offset, f"{self._where(file)}{facts}"))
            return
        at = time_of(self._reader.time(facts))
        order = self._orders[file] = max(self._orders.get(file, ""), at or "")
        found = Line(file, offset, facts, sha256(line).hexdigest()[:32], at, order)
        self._queues.setdefault(file, deque()).append(found)

    def drain(self, unread: frozenset[str] = frozenset(), ended: bool = False) -> Found:
        """What the lines tell, in the order of their times across files."""
        problems, self._problems = self._problems, []
        yield from problems
        queues = self._queues
        while not any(not queues.get(file) for file in unread):
            heads = sorted((queue[0] for queue in queues.values() if queue), key=lambda line: line.order)
            ready = (line for line in heads if not self._reader.waits(line, heads))
            line = next(ready, heads[0] if heads and ended else None)
            if line is None:
                break
            queues[line.file].popleft()
            for found in self._reader.read(line):
                if isinstance(found, Problem):
                    found = found._replace(reason=f"{self._where(line.file)}{found.reason}")
                yield found
        if ended:
            yield from self._reader.end()

    def _where(self, file: str) -> str:
        """The name of a file beside the session's own, for a problem."""
        return "" if file == self._first else f"{file}: "


def _facts(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or why there is none."""
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError:
        return "the line is no UTF-8"
    except json.JSONDecodeError as error:
        return f"the line is no JSON: {error.msg}"
    except (ValueError, RecursionError):
        return "the line is nested too deeply, or has a number that is too long"
    return found if isinstance(found, dict) else "the line is no JSON object"


def time_of(value: object) -> str | None:
    """A time as events have it; ``None`` for one that is missing, no time, or without a zone."""
    if not isinstance(value, str):
        return None
    try:
        return timestamp_text(value)
    except InvalidEvent:
        return None


def lines_of(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """The lines of a text: the byte at which each begins, its bytes, and whether its end is there."""
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        yield place, data[place : len(data) if end < 0 else end], end >= 0
        place = len(data) if end < 0 else end + 1


def read_alone(session: Transcripts, data: bytes, file: str = "") -> Found:
    """The events of one file without those beside it."""
    for offset, line, whole in lines_of(data):
        if not whole and is_torn(line):
            yield torn(offset)
        else:
            session.take(file, offset, line)
    yield from session.drain(ended=True)


def is_torn(line: bytes) -> bool:
    """Whether the last line of a file lacks its end."""
    return bool(line.strip()) and isinstance(_facts(line.strip().removeprefix(b"\xef\xbb\xbf")), str)


def torn(offset: int) -> Problem:
    """What is said of a last line that lacks its end."""
    return Problem(offset, "the file is cut off in the line that begins here")
