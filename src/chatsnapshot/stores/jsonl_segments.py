"""The segments of a JSONL ledger: their names, their open descriptors, and lines fetched by their places."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.jsonl_file import FileIO, Stamp, folder_of

__all__ = ["Place", "Segments"]

_OPEN_MAX = 16
_RUN_BYTES_MAX = 1 << 20


class Place(NamedTuple):
    """Where the line of an entry is; ``length`` is with its line feed."""

    position: int
    segment: int
    offset: int
    length: int


class _Handle:
    """A descriptor for reading that is closed when nobody reads through it any more."""

    __slots__ = ("descriptor", "files", "inode")

    def __init__(self, files: FileIO, descriptor: int, inode: int) -> None:
        self.files = files
        self.descriptor = descriptor
        self.inode = inode

    def __del__(self) -> None:
        try:
            self.files.close(self.descriptor)
        except OSError:
            pass


class Segments:
    """The files ``runs.jsonl``, ``runs.jsonl.000002``, ``runs.jsonl.000003`` … of one ledger."""

    def __init__(self, path: str, files: FileIO) -> None:
        self._path = path
        self._files = files
        self._mutex = threading.Lock()
        self._handles: dict[int, _Handle] = {}

    def path(self, number: int) -> str:
        """The path of a segment; the first is the ledger's own path."""
        return self._path if number == 1 else f"{self._path}.{number:06d}"

    def stamp(self, number: int) -> Stamp | None:
        """The stamp of a segment, or ``None`` when there is none."""
        return self._files.stamp(self.path(number))

    def count(self) -> int:
        """The number of the last segment; one in front of it may be missing."""
        named = re.compile(re.escape(os.path.basename(self._path)) + r"\.(\d{6,})\Z")
        found = [
            int(match[1]) for name in self._files.names(folder_of(self._path)) if (match := named.match(name))
        ]
        return max([*found, 0 if self.stamp(1) is None else 1])

    def handle(self, number: int) -> _Handle:
        """A descriptor of the segment as it is now (a settled ledger has a new file of the same name)."""
        stamp = self.stamp(number)
        with self._mutex:
            known = self._handles.get(number)
            if known is not None and stamp is not None and known.inode == stamp.inode:
                return known
            path = self.path(number)
            if stamp is None:
                raise Corrupt(f"the segment {path} is missing; put it back, it holds entries of this ledger")
            if len(self._handles) >= _OPEN_MAX:
                del self._handles[next(iter(self._handles))]
            made = _Handle(self._files, self._files.open_to_read(path), stamp.inode)
            self._handles[number] = made
            return made

    def fetch(self, places: Iterable[Place]) -> Iterator[tuple[Place, bytes]]:
        """The lines at these places, without their line feeds; neighbours are read together."""
        run: list[Place] = []
        end = size = segment = 0
        for place in places:
            if (
                run
                and place.segment == segment
                and place.offset == end
                and size + place.length <= _RUN_BYTES_MAX
            ):
                run.append(place)
                end += place.length
                size += place.length
                continue
            if run:
                yield from self._read(run, size)
            run, segment, end, size = [place], place.segment, place.offset + place.length, place.length
        if run:
            yield from self._read(run, size)

    def _read(self, run: list[Place], size: int) -> Iterator[tuple[Place, bytes]]:
        handle = self.handle(run[0].segment)
        start = run[0].offset
        data = b"".join(self._files.chunks(handle.descriptor, start, start + size, size))
        for place in run:
            at = place.offset - start
            yield place, data[at : at + place.length - 1]

    def lines(self, number: int, start: int, end: int) -> Iterator[tuple[int, bytes, bool]]:
        """Offset and bytes of every line of a segment, and whether it ended with a line feed."""
        handle = self.handle(number)
        rest: list[bytes] = []
        offset = start
        for data in self._files.chunks(handle.descriptor, start, end):
            pieces = data.split(b"\n")
            if len(pieces) == 1:
                rest.append(data)
                continue
            pieces[0] = b"".join([*rest, pieces[0]])
            rest = [pieces.pop()]
            for piece in pieces:
                yield offset, piece, True
                offset += len(piece) + 1
        last = b"".join(rest)
        if last:
            yield offset, last, False

    def forget(self) -> None:
        """Let go of the descriptors; each is closed when its last reader is done."""
        with self._mutex:
            self._handles.clear()

    def after_fork(self) -> None:
        """In a forked child: a lock of its own; descriptors are shared and have no state that matters."""
        self._mutex = threading.Lock()
