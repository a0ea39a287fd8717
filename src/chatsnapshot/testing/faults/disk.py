"""What a disk may hold after power was lost at any point of a journal.

What was synced is there. Of what was not, anything may be: nothing, all, whole writes or 512-byte sectors of them by
chance (the rest reads as before, or as NUL beyond the end), a last write cut in half. Names are in a folder up to some
point of the changes since its last sync. After a failed sync the bytes that it was for may be lost although the system
shows them, and only writing them again helps: that is what Linux file systems do.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from chatsnapshot.testing.faults.journal import Step

__all__ = ["CrashState", "Disk", "crash_states", "lay_out"]

SECTOR_BYTES = 512

Change = tuple[int, bytes | None]
"""Offset and bytes; ``None`` for a cut to ``offset``."""


class _File:
    __slots__ = ("mtime_ns", "now", "pending", "synced", "synced_ns")

    def __init__(self) -> None:
        self.now = bytearray()
        self.synced = bytearray()
        self.pending: list[Change] = []
        self.mtime_ns = 0
        self.synced_ns = 0


def _apply(data: bytearray, change: Change) -> None:
    offset, piece = change
    if piece is None:
        if len(data) < offset:
            data.extend(bytes(offset - len(data)))
        del data[offset:]
        return
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(piece)] = piece


class CrashState(NamedTuple):
    """The files found after a crash."""

    step: int
    """Steps of the journal that had been done."""
    how: str
    """``synced``: nothing that was not synced; ``all``: everything; ``halved``: all but the last write, of which half;
    ``torn``: by chance."""
    files: dict[str, tuple[bytes, int]]
    """Path below the folder -> bytes, time of the last change in nanoseconds."""
    folders: frozenset[str]
    acknowledged: Any
    """The last note of :meth:`~chatsnapshot.testing.faults.journal.Journal.acknowledge`; ``None`` before the first."""

    def digest(self) -> bytes:
        """Equal for equal files."""
        made = hashlib.sha256()
        for path in sorted(self.files):
            data, mtime_ns = self.files[path]
            made.update(f"{path}\0{len(data)}\0{mtime_ns}\0".encode())
            made.update(data)
        return made.digest()


class Disk:
    """A disk on which the steps of a journal are done again, one by one.

    ``lost_sync`` says what a failed sync does to the bytes it was for: ``"lost"``, ``"kept"`` or ``"torn"``.
    """

    def __init__(self, chance: random.Random, *, lost_sync: str = "torn") -> None:
        self._chance = chance
        self._lost_sync = lost_sync
        self._names: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._changes: list[tuple[str, str, _File | None]] = []
        self._folders: set[str] = set()
        self.acknowledged: Any = None

    def do(self, step: Step) -> None:
        """Do one step."""
        kind, path = step.kind, step.path
        if kind in ("write", "cut"):
            file = self._names[path]
            change: Change = (step.offset, None if kind == "cut" else step.data)
            _apply(file.now, change)
            file.pending.append(change)
            file.mtime_ns = step.mtime_ns or file.mtime_ns
        elif kind == "sync":
            file = self._names[path]
            for change in file.pending:
                _apply(file.synced, change)
            file.pending.clear()
            file.synced_ns = file.mtime_ns
        elif kind == "lost_sync":
            file = self._names[path]
            file.synced = self._content(file, {"lost": "synced", "kept": "all"}.get(self._lost_sync, "torn"))
            file.pending.clear()
        elif kind == "create":
            self._name(path, _File())
        elif kind == "rename":
            file = self._names.pop(path)
            self._name(step.data, file)
            self._changes.append((os.path.dirname(path), path, None))
        elif kind == "remove":
            if self._names.pop(path, None) is not None:
                self._changes.append((os.path.dirname(path), path, None))
        elif kind == "make_folder":
            self._folders.add(path)
        elif kind == "sync_folder":
            rest = []
            for change_of_names in self._changes:
                if change_of_names[0] == path:
                    _rename(self._durable, change_of_names)
                else:
                    rest.append(change_of_names)
            self._changes = rest
        elif kind == "acknowledge":
            self.acknowledged = step.data
        else:
            raise ValueError(f"unknown step {kind!r}")

    def _name(self, path: str, file: _File) -> None:
        self._names[path] = file
        self._changes.append((os.path.dirname(path), path, file))

    def crash(self, step: int, how: str) -> CrashState:
        """The files that are found when power is lost now."""
        names = dict(self._durable)
        changes = self._changes
        if how == "synced":
            changes = []
        elif how == "torn":
            changes = changes[: self._chance.randint(0, len(changes))]
        for change in changes:
            _rename(names, change)
        files = {}
        for path, file in names.items():
            late = how == "all" or (how == "torn" and self._chance.random() < 0.5)
            files[path] = (bytes(self._content(file, how)), file.mtime_ns if late else file.synced_ns)
        return CrashState(step, how, files, frozenset(self._folders), self.acknowledged)

    def _content(self, file: _File, how: str) -> bytearray:
        if how == "all":
            return bytearray(file.now)
        data = bytearray(file.synced)
        if how == "synced":
            return data
        if how == "halved":
            for change in file.pending[:-1]:
                _apply(data, change)
            for offset, piece in file.pending[-1:]:
                if piece is not None:
                    _apply(data, (offset, piece[: len(piece) // 2]))
            return data
        chance = self._chance
        style = chance.choice(["some", "sectors", "sectors", "prefix"])
        last = chance.randint(0, len(file.pending))
        for number, (offset, piece) in enumerate(file.pending):
            if style == "prefix":
                if number < last:
                    _apply(data, (offset, piece))
                elif number == last and piece is not None:
                    _apply(data, (offset, piece[: chance.randint(0, len(piece))]))
                continue
            if piece is None or style == "some":
                if chance.random() < 0.5:
                    _apply(data, (offset, piece))
                continue
            end = offset + len(piece)
            for start in range(offset - offset % SECTOR_BYTES, end, SECTOR_BYTES):
                if chance.random() < 0.5:
                    low, high = max(start, offset), min(start + SECTOR_BYTES, end)
                    _apply(data, (low, piece[low - offset : high - offset]))
        return data


def _rename(names: dict[str, _File], change: tuple[str, str, _File | None]) -> None:
    _, path, file = change
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def crash_states(
    steps: Sequence[Step],
    chance: random.Random,
    *,
    torn: int = 2,
    sample: int | None = None,
    lost_sync: str = "torn",
) -> Iterator[CrashState]:
    """Crashes after every step (or after ``sample`` of them by chance), each ``synced``, ``all``, ``halved``, and
    ``torn`` as often as told. States whose files and acknowledgement were given before are left out.
    """
    points = set(range(1, len(steps) + 1))
    if sample is not None and sample < len(points):
        points = set(chance.sample(sorted(points), sample))
    disk = Disk(chance, lost_sync=lost_sync)
    seen: set[tuple[bytes, int]] = set()
    acknowledged = 0
    for number, step in enumerate(steps, 1):
        disk.do(step)
        acknowledged += step.kind == "acknowledge"
        if number not in points:
            continue
        for how in ("synced", "all", "halved", *["torn"] * torn):
            state = disk.crash(number, how)
            known = (state.digest(), acknowledged)
            if known not in seen:
                seen.add(known)
                yield state


def lay_out(state: CrashState, folder: str | os.PathLike[str]) -> None:
    """Put the files of a crash into an empty folder; those in folders that were lost too are left out."""
    for path in sorted(state.folders):
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    for path, (data, mtime_ns) in state.files.items():
        target = os.path.join(folder, path)
        if not os.path.isdir(os.path.dirname(target)):
            continue
        with open(target, "wb") as file:
            file.write(data)
        os.utime(target, ns=(mtime_ns, mtime_ns))
