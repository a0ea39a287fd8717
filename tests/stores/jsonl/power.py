"""Lost power, simulated: records every call on the files, and builds what a disk may hold after each of them.

What was synced is there. Of what was not synced any part may be: writes dropped whole, a random choice of 512-byte
sectors of them (the others read as NUL, or as what was there before), names of a folder up to any point.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chatsnapshot.stores.jsonl_file import FileIO

SECTOR = 512


class RecordingIO(FileIO):
    """Does everything, and keeps a list of it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[object, ...]] = []
        self._path_of: dict[int, str] = {}

    def note(self, *step: object) -> None:
        self.steps.append(step)

    def open_to_append(self, path: str) -> int:
        descriptor = super().open_to_append(path)
        self._path_of[descriptor] = path
        return descriptor

    def open_to_change(self, path: str) -> int:
        descriptor = super().open_to_change(path)
        self._path_of[descriptor] = path
        return descriptor

    def create(self, path: str) -> int:
        descriptor = super().create(path)
        self._path_of[descriptor] = path
        self.note("create", path)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        done = super().write(descriptor, data)
        self.note("write", self._path_of[descriptor], bytes(data[:done]))
        return done

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        done = super().overwrite(descriptor, data, offset)
        self.note("overwrite", self._path_of[descriptor], offset, data[:done])
        return done

    def truncate(self, descriptor: int, size: int) -> None:
        super().truncate(descriptor, size)
        self.note("truncate", self._path_of[descriptor], size)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.note("sync", self._path_of.get(descriptor, ""))

    def sync_folder(self, folder: str) -> None:
        super().sync_folder(folder)
        self.note("sync_folder", folder)

    def rename(self, path: str, to: str) -> None:
        super().rename(path, to)
        for descriptor, known in list(self._path_of.items()):
            if known == path:
                self._path_of[descriptor] = to
        self.note("rename", path, to)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.note("remove", path)

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        self.note("make_folder", path)


@dataclass
class _File:
    synced: bytes = b""
    now: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Offset and bytes of what was written since; ``None`` for a cut."""


class Disk:
    """The state of a disk while the recorded steps are done again, one by one."""

    def __init__(self) -> None:
        self.names: dict[str, _File] = {}
        self.durable: dict[str, _File] = {}
        self.folders: set[str] = set()
        self.pending_names: list[tuple[object, ...]] = []

    def do(self, step: tuple[object, ...]) -> None:
        kind, path = step[0], str(step[1])
        if kind == "create":
            self.names[path] = _File()
            self.pending_names.append(("put", path, self.names[path]))
        elif kind == "write":
            file, data = self.names[path], step[2]
            assert isinstance(data, bytes)
            file.pending.append((len(file.now), data))
            file.now += data
        elif kind == "overwrite":
            file, offset, data = self.names[path], step[2], step[3]
            assert isinstance(data, bytes) and isinstance(offset, int)
            file.pending.append((offset, data))
            file.now = file.now[:offset] + data + file.now[offset + len(data) :]
        elif kind == "truncate":
            file, size = self.names[path], step[2]
            assert isinstance(size, int)
            file.pending.append((size, None))
            file.now = file.now[:size]
        elif kind == "sync":
            file = self.names[path]
            file.synced, file.pending = file.now, []
        elif kind == "rename":
            to = str(step[2])
            self.names[to] = self.names.pop(path)
            self.pending_names.append(("put", to, self.names[to]))
            self.pending_names.append(("drop", path))
        elif kind == "remove":
            if path in self.names:
                del self.names[path]
                self.pending_names.append(("drop", path))
        elif kind == "make_folder":
            self.folders.add(path)
        elif kind == "sync_folder":
            rest = []
            for change in self.pending_names:
                if os.path.dirname(str(change[1])) == path:
                    _apply(self.durable, change)
                else:
                    rest.append(change)
            self.pending_names = rest

    def crash(self, chance: random.Random, how: str) -> dict[str, bytes]:
        """The files that may be found: ``synced``, ``all``, or ``torn`` by chance."""
        names = dict(self.durable)
        count = {"synced": 0, "all": len(self.pending_names)}.get(
            how, chance.randint(0, len(self.pending_names))
        )
        for change in self.pending_names[:count]:
            _apply(names, change)
        return {path: _content(file, chance, how) for path, file in names.items()}


def _apply(names: dict[str, _File], change: tuple[object, ...]) -> None:
    if change[0] == "put":
        assert isinstance(change[2], _File)
        names[str(change[1])] = change[2]
    else:
        names.pop(str(change[1]), None)


def _content(file: _File, chance: random.Random, how: str) -> bytes:
    if how == "all":
        return file.now
    data = bytearray(file.synced)
    if how == "synced":
        return bytes(data)
    style = chance.choice(["none", "prefix", "sectors", "sectors", "all"])
    for offset, piece in file.pending:
        if piece is None:
            if style in ("all", "prefix"):
                del data[offset:]
            continue
        end = offset + len(piece)
        if style == "none":
            continue
        if style == "prefix":
            end = offset + chance.randint(0, len(piece))
        if len(data) < end:
            data += bytes(end - len(data))
        for start in range(offset - offset % SECTOR, end, SECTOR):
            if style == "sectors" and chance.random() < 0.5:
                continue
            low, high = max(start, offset), min(start + SECTOR, end)
            data[low:high] = piece[low - offset : high - offset]
    return bytes(data)


def states(
    steps: list[tuple[object, ...]], chance: random.Random, torn: int
) -> Iterator[tuple[int, str, dict[str, bytes], set[str]]]:
    """Every prefix of the steps, each in several outcomes: number of steps done, how, files, folders."""
    disk = Disk()
    for number, step in enumerate(steps, 1):
        if step[0] in ("acknowledged", "erased"):
            continue
        disk.do(step)
        yield number, "synced", disk.crash(chance, "synced"), set(disk.folders)
        yield number, "all", disk.crash(chance, "all"), set(disk.folders)
        if step[0] in ("write", "overwrite", "truncate", "rename", "create"):
            for _ in range(torn):
                yield number, "torn", disk.crash(chance, "torn"), set(disk.folders)


def lay_out(folder: Path, origin: Path, files: dict[str, bytes], folders: set[str]) -> None:
    """Put the files of a crash into a folder."""
    for path in folders:
        (folder / Path(path).relative_to(origin)).mkdir(exist_ok=True)
    for path, data in files.items():
        target = folder / Path(path).relative_to(origin)
        if target.parent.is_dir():
            target.write_bytes(data)
