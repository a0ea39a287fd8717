"""Writes down every change of the files of one folder, in order, and fails the calls it is told to fail."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any, NamedTuple

__all__ = ["Fault", "Journal", "Step"]


class Step(NamedTuple):
    """One change. ``path`` is below the journal's folder.

    Kinds: ``create``; ``write`` (``data`` at ``offset``); ``cut`` (to ``offset`` bytes); ``sync``; ``lost_sync`` (a sync
    that failed: what was not durable by then is only as good as a later write makes it); ``rename`` (to ``data``);
    ``remove``; ``make_folder``; ``sync_folder``; ``acknowledge`` (``data`` is the caller's note).
    """

    kind: str
    path: str = ""
    offset: int = 0
    data: Any = b""
    mtime_ns: int = 0


class Fault:
    """A call that fails: the ``nth`` one of ``kind`` on a path that ends with ``suffix``, and those after it.

    ``kind`` is ``write``, ``sync``, ``cut``, ``create``, ``rename`` or ``remove``. It fails ``times`` times (``None``:
    until :meth:`Journal.heal`) with ``code`` of ``errno``. A failing write takes ``takes`` bytes first; with
    ``unnoticed`` as many as are needed to make the place look written, because what follows stood there before.
    """

    def __init__(
        self,
        kind: str,
        suffix: str = "",
        *,
        nth: int = 1,
        times: int | None = 1,
        code: int = errno.EIO,
        takes: int = 0,
        unnoticed: bool = False,
    ) -> None:
        self.kind = kind
        self.suffix = suffix
        self.code = code
        self.takes = takes
        self.unnoticed = unnoticed
        self.hits = 0
        """Calls that failed."""
        self._ahead = nth - 1
        self._left = times

    def bytes_taken(self, data: bytes, before: bytes) -> int:
        """How much of ``data`` a failing write takes, where ``before`` stood."""
        if not self.unnoticed:
            return min(self.takes, len(data) - 1)
        taken = len(data) - 1
        while taken and before[taken - 1 : len(data)] == data[taken - 1 :]:
            taken -= 1
        return taken if before[taken : len(data)] == data[taken:] else 0

    def strikes(self, kind: str, path: str) -> bool:
        """Whether this call fails; counts it."""
        if kind != self.kind or not path.endswith(self.suffix) or self._left == 0:
            return False
        if self._ahead > 0:
            self._ahead -= 1
            return False
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        return True


class Journal:
    """The changes below ``folder``; safe for threads. Paths elsewhere are left alone."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.realpath(folder)
        self.steps: list[Step] = []
        self.faults: list[Fault] = []
        self._mutex = threading.Lock()
        self._known: set[str] = set()

    def inside(self, path: str) -> str | None:
        """The path below the folder, or ``None`` for one elsewhere."""
        full = os.path.abspath(path)
        return full[len(self.folder) + 1 :] if full.startswith(self.folder + os.sep) else None

    def note(self, step: Step) -> None:
        """Write a change down."""
        with self._mutex:
            self._keep(step)

    def _keep(self, step: Step) -> None:
        self.steps.append(step)
        if step.kind in ("create", "rename"):
            self._known.add(step.data if step.kind == "rename" else step.path)
        if step.kind in ("remove", "rename"):
            self._known.discard(step.path)

    def meet(self, path: str) -> None:
        """A file was opened: one that the journal has not seen before is written down as it is, and not yet durable."""
        with self._mutex:
            if path in self._known:
                return
            self._keep(Step("create", path))
            full = os.path.join(self.folder, path)
            with open(full, "rb") as file:  # nobody can hold SQLite's locks on a file that is new here
                data = file.read()
            if data:
                self._keep(Step("write", path, 0, data, os.stat(full).st_mtime_ns))

    def acknowledge(self, what: Any) -> None:
        """Note what a store has answered by now; a crash after this must not lose it."""
        self.note(Step("acknowledge", data=what))

    def fail(self, fault: Fault) -> Fault:
        """From now on calls fail as ``fault`` says."""
        with self._mutex:
            self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """No call fails any more."""
        with self._mutex:
            self.faults.clear()

    def struck(self, kind: str, path: str) -> Fault | None:
        """The fault that this call meets, if any."""
        with self._mutex:
            for fault in self.faults:
                if fault.strikes(kind, path):
                    return fault
        return None

    def count(self, kind: str, suffix: str = "") -> int:
        """How many changes of a kind there were on paths with this end."""
        return sum(step.kind == kind and step.path.endswith(suffix) for step in self.steps)
