"""Takes the files of sessions into a ledger: all of one session together, once or while they grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.importers.base import ImportReport, Piece, Problem, Session, SessionImporter
from chatsnapshot.importers.growing import Growing
from chatsnapshot.importers.recording import Recording

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["PROBLEMS_KEPT", "Family", "import_family"]

PROBLEMS_KEPT = 100

Progress = Callable[[int, int], None]


class Family:
    """The files of one session as far as they were read."""

    def __init__(self, importer: SessionImporter, paths: Sequence[str]) -> None:
        self.files: dict[str, Growing] = {}
        self._session: Session = importer.session()
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """A further file of the session."""
        self.files.setdefault(path, Growing(path))

    @property
    def read_bytes(self) -> int:
        """How far all files were read."""
        return sum(file.offset for file in self.files.values())

    def pieces(self, ended: bool) -> Iterator[Piece | Problem]:
        """What the files tell that was not told; ``ended``: also what only holds when nothing follows."""
        pending = list(self.files.values())
        first = next(iter(self.files), None)
        while pending:
            for file in pending:
                for found in self._lines(file):
                    if isinstance(found, Problem):
                        where = "" if file.path == first else f"{file.path}: "
                        yield found._replace(reason=f"{where}{found.reason}")
                    else:
                        self._session.take(file.path, *found)
            pending = [file for file in pending if file.unread]
            yield from self._session.drain(frozenset(file.path for file in pending))
        if ended:
            for path, file in self.files.items():
                rest = file.rest()
                if isinstance(rest, Problem):
                    where = "" if path == first else f"{path}: "
                    yield rest._replace(reason=f"{where}{rest.reason}")
                elif rest is not None:
                    self._session.take(path, *rest)
                file.close()
            yield from self._session.drain(ended=True)

    @staticmethod
    def _lines(file: Growing) -> Iterator[tuple[int, bytes] | Problem]:
        try:
            yield from file.lines()
        except FileNotFoundError:
            file.unread = False  # it was there a moment ago, and what it told is recorded


def import_family(
    ledger: Ledger,
    importer: SessionImporter,
    paths: Sequence[str],
    *,
    redact: object = "secrets",
    progress: Progress | None = None,
) -> ImportReport:
    """Record what the files of one session say, each event once; see :func:`~chatsnapshot.importers.import_file`."""
    ledger._check_writable()
    family = Family(importer, paths)
    whole = sum(os.path.getsize(path) for path in paths)
    tell = None if progress is None else lambda _: progress(min(family.read_bytes, whole), whole)
    work = Recording(ledger, redact, tell)
    work.take(family.pieces(ended=True))
    problems = sorted(work.problems)
    return ImportReport(
        file=paths[0],
        kind=importer.kind,
        bytes=family.read_bytes,
        correlations=tuple(work.correlations),
        stored=work.stored,
        known=work.known,
        problems=tuple(problems[:PROBLEMS_KEPT]),
        problem_count=len(problems),
        last_position=work.last_position,
        beside=tuple(paths[1:]),
    )
