"""Takes a file into a ledger: finds its kind, reads it, records its events in batches and tells what became of it."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.importers.base import Importer, ImportReport, Piece, Problem
from chatsnapshot.importers.kinds import KINDS, importer_of, known_by_sight, likeliest
from chatsnapshot.ingesting import BadLine, Ingest, open_input
from chatsnapshot.limits import KIB, MIB

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["FILE_BYTES_MAX", "PROBLEMS_KEPT", "guess", "import_file"]

FILE_BYTES_MAX = 512 * MIB
"""A file is read whole."""

HEAD_BYTES = 64 * KIB
PROBLEMS_KEPT = 100

Progress = Callable[[int, int], None]
"""Is told how many bytes of how many are settled."""


def guess(path: str | os.PathLike[str], kind: str = "auto") -> Importer:
    """The importer of a file; with a ``kind`` that one, if the file could be one of its own and looks like nothing else.

    Raises :class:`InvalidEvent`, which says what the file looks like, :class:`~chatsnapshot.errors.NotFound` for a
    kind that there is not, ``OSError`` for a file that cannot be read.
    """
    wanted = None if kind == "auto" else importer_of(kind)
    head, _ = _bytes(path, HEAD_BYTES)
    found = likeliest(head)
    if found is not None and wanted in (None, found):
        return found
    name = os.fspath(path)
    if wanted is None:
        seen = known_by_sight(head)
        looks = f"looks like {seen}" if seen else "looks like none of them"
        raise InvalidEvent(f"{name} {looks}; what can be imported is {', '.join(KINDS)}")
    seen = f"{found.what}: give {found.kind}" if found is not None else known_by_sight(head)
    if seen is None and wanted.looks_like(head) > 0:
        return wanted
    looks = f"it looks like {seen}" if seen else "nothing in its beginning says what it is"
    raise InvalidEvent(f"{name} is no {wanted.kind} file ({wanted.what}); {looks}")


def import_file(
    ledger: Ledger,
    path: str | os.PathLike[str],
    kind: str = "auto",
    *,
    redact: object = "secrets",
    progress: Progress | None = None,
) -> ImportReport:
    """Record what a file says, each event once: the same file again records nothing.

    ``kind`` is one of :data:`KINDS` or ``auto``. A name that ends in ``.gz`` is decompressed. ``redact`` is what
    ``open(redact=...)`` takes. What cannot be taken is in the report's ``problems``; see :func:`guess` for what is
    raised, and :class:`~chatsnapshot.errors.LimitExceeded` for a file above 512 MiB.
    """
    ledger._check_writable()
    importer = guess(path, kind)
    data, damage = _bytes(path)
    if len(data) > FILE_BYTES_MAX:
        raise LimitExceeded("FILE_BYTES_MAX", FILE_BYTES_MAX, len(data), "import the file in parts")
    work = _Import(ledger, redact, len(data), progress)
    work.take(importer.read(data))
    if damage is not None:
        work.problems.append(Problem(len(data), damage))
    problems = sorted(work.problems)
    report = work.ingest.report
    return ImportReport(
        file=os.fspath(path),
        kind=importer.kind,
        bytes=len(data),
        correlations=tuple(work.correlations),
        stored=report.stored,
        known=report.known,
        problems=tuple(problems[:PROBLEMS_KEPT]),
        problem_count=len(problems),
        last_position=report.last_position,
    )


def _bytes(path: str | os.PathLike[str], bytes_max: int = FILE_BYTES_MAX + 1) -> tuple[bytes, str | None]:
    """The bytes of a file up to a limit, and what is wrong with its compression."""
    parts: list[bytes] = []
    size = 0
    with open_input(path) as stream:
        try:
            while size < bytes_max and (part := stream.read1(min(MIB, bytes_max - size))):
                parts.append(part)
                size += len(part)
        except EOFError:
            return b"".join(parts), "the compressed data is cut off"
        except (gzip.BadGzipFile, zlib.error) as error:
            return b"".join(parts), f"the compressed data is damaged: {error}"
    return b"".join(parts), None


class _Import:
    """The events of one file on their way into a ledger."""

    def __init__(self, ledger: Ledger, redact: object, whole: int, progress: Progress | None) -> None:
        self.problems: list[Problem] = []
        self.correlations: dict[str, None] = {}
        self._whole = whole
        self._progress = progress
        self._offsets = [0]
        self.ingest = Ingest(
            ledger, redact=redact, skip_bad=True, on_bad=self._bad, progress=lambda _: self._tell()
        )

    def take(self, pieces: Iterator[Piece | Problem]) -> None:
        """Record every event; stores what was ready also when the reader fails."""
        with closing(self.ingest):
            self.ingest.take(self._events(pieces))

    def _events(self, pieces: Iterator[Piece | Problem]) -> Iterator[Any]:
        for piece in pieces:
            if isinstance(piece, Problem):
                self.problems.append(piece)
                continue
            event = piece.event
            named = event.correlation_id if isinstance(event, EventEnvelope) else event["correlation_id"]
            self.correlations[named] = None
            self._offsets.append(piece.offset)
            yield event

    def _bad(self, bad: BadLine) -> None:
        self.problems.append(Problem(self._offsets[bad.number], bad.reason))

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._offsets[-1], self._whole)
