"""Follows sessions while they are written: looks at their files again and again, and records what is new in them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from chatsnapshot.errors import CommitUncertain, StoreFull, StoreUnavailable
from chatsnapshot.importers.base import ImportReport, SessionImporter
from chatsnapshot.importers.files import jobs
from chatsnapshot.importers.recording import Recording
from chatsnapshot.importers.sessions import PROBLEMS_KEPT, Family

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["LOOK_SECONDS", "SETTLE_SECONDS", "Following", "follow"]

LOOK_SECONDS = 0.5
"""Between two looks at files that are known."""

SEARCH_SECONDS = 2.0
"""Between two searches for new files; more where a search takes long."""

OLD_SECONDS = 1.0
"""In one look, for sessions that rest: after a start there may be thousands of them."""

SETTLE_SECONDS = 600.0
"""A session whose files did not change for so long is read to its end; if it goes on after all, it is read again."""


class Following:
    """The sessions of files and folders. Each look records what is new; nothing is lost by ending at any time.

    Where it stands is not kept: a new one reads all files again, and the ledger knows what it has.
    """

    def __init__(
        self,
        ledger: Ledger,
        paths: Sequence[str | os.PathLike[str]],
        kind: str = "auto",
        *,
        redact: object = "secrets",
        clock: Callable[[], float] = time.time,
    ) -> None:
        ledger._check_writable()
        self._ledger = ledger
        self._paths = [os.fspath(path) for path in paths]
        self._kind = kind
        self._redact = redact
        self._clock = clock
        self._searched: float | None = None
        self._pause = SEARCH_SECONDS
        self._sessions: dict[tuple[str, str], _Followed] = {}

    def __len__(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    def look(self) -> Iterator[ImportReport]:
        """Record what is new since the last look; one report for each session that has something.

        Sessions that are being written come first. Of those that rest only as many as fit into a second are read.
        """
        now = self._clock()
        begun = time.monotonic()
        searched = self._searched is None or not 0 <= now - self._searched < self._pause
        if searched:
            self._search()
            self._searched = now
        due = [
            session for session in self._sessions.values() if searched or session.reading or not session.read
        ]
        order = sorted(((one.last_change(), one) for one in due), key=lambda one: -one[0])
        if searched:  # of many files no more than a tenth of the time goes into searching
            self._pause = max(SEARCH_SECONDS, 10 * (time.monotonic() - begun))
        begun = time.monotonic()
        for changed, session in order:
            rests = changed < now - SETTLE_SECONDS
            if rests and time.monotonic() - begun > OLD_SECONDS:
                break
            if session.changed or (rests and session.reading):
                yield from self._record(session, ended=rests)

    def finish(self) -> Iterator[ImportReport]:
        """Read every session that is under way to its end, as one import would."""
        for session in self._sessions.values():
            if session.reading or session.changed:
                yield from self._record(session, ended=True)

    def _search(self) -> None:
        for importer, paths in jobs(self._paths, self._kind, growing=True):
            if not isinstance(importer, SessionImporter):
                continue
            key = importer.kind, paths[0]
            known = self._sessions.get(key)
            if known is None:
                self._sessions[key] = _Followed(importer, paths)
            else:
                known.add(paths)

    def _record(self, session: _Followed, ended: bool) -> Iterator[ImportReport]:
        work = Recording(self._ledger, self._redact)
        try:
            family = session.family()
            work.take(family.pieces(ended))
        except BaseException:
            session.forget()  # what was read and not stored is read again
            raise
        problems = sorted(work.problems)
        report = ImportReport(
            file=session.paths[0],
            kind=session.importer.kind,
            bytes=family.read_bytes,
            correlations=tuple(work.correlations),
            stored=work.stored,
            known=work.known,
            problems=tuple(problems[:PROBLEMS_KEPT]),
            problem_count=len(problems),
            last_position=work.last_position,
            beside=tuple(session.paths[1:]),
        )
        session.looked(ended)
        if work.stored or work.known or problems:
            yield report


class _Followed:
    """One session: its files with their sizes, and how far they were read while it is under way."""

    def __init__(self, importer: SessionImporter, paths: Sequence[str]) -> None:
        self.importer = importer
        self.paths = list(paths)
        self._family: Family | None = None
        self._seen: dict[str, tuple[int, int]] = {}

    @property
    def reading(self) -> bool:
        """Whether it is known how far it was read."""
        return self._family is not None

    @property
    def read(self) -> bool:
        """Whether it was ever read."""
        return bool(self._seen)

    @property
    def changed(self) -> bool:
        """Whether a file is new, longer, or another one."""
        return any(self._state(path) != self._seen.get(path) for path in self.paths)

    def add(self, paths: Sequence[str]) -> None:
        """Files that were found; those that are new are read with the others."""
        for path in paths:
            if path not in self.paths:
                self.paths.append(path)
                if self._family is not None:
                    self._family.add(path)

    def family(self) -> Family:
        """What was read so far; from the beginning where that is not known, or a file is not the one that was read."""
        if self._family is not None:
            files = self._family.files.values()
            if any(file.changed() == "replaced" for file in files):
                self._family = None
        if self._family is None:
            self._family = Family(self.importer, self.paths)
        for path in self.paths:
            self._seen[path] = self._state(path)
        return self._family

    def looked(self, ended: bool) -> None:
        """What was read is stored; after its end only the sizes are kept."""
        if ended:
            self._family = None

    def forget(self) -> None:
        """Nothing counts as read."""
        self._family = None
        self._seen.clear()

    def last_change(self) -> float:
        """When one of the files was last written, in seconds of the epoch; infinite where none is there now."""
        return max(filter(None, map(_modified, self.paths)), default=math.inf)

    @staticmethod
    def _state(path: str) -> tuple[int, int]:
        try:
            found = os.stat(path)
        except OSError:
            return 0, -1
        return found.st_ino, found.st_size


def _modified(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def follow(
    following: Following,
    on_report: Callable[[ImportReport], None],
    on_trouble: Callable[[Exception | None], None],
    wait: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """Look until interrupted. A store that takes nothing is waited for: ``on_trouble`` is told, and when it is over."""
    trouble = False
    while True:
        try:
            for report in following.look():
                on_report(report)
            if trouble:
                trouble = False
                on_trouble(None)
        except (StoreUnavailable, StoreFull, CommitUncertain) as error:
            if not trouble:
                trouble = True
                on_trouble(error)
        wait(LOOK_SECONDS)
