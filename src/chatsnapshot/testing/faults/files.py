"""The files of a JSONL store, journaled: see :class:`~chatsnapshot.stores.jsonl_file.FileIO`."""

from __future__ import annotations

import os

from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.testing.faults.journal import Journal, Step

__all__ = ["JournalFiles"]


class JournalFiles(FileIO):
    """Does everything on the real files but syncing, writes it down, and fails where the journal says so."""

    def __init__(self, journal: Journal, durability: str = "full") -> None:
        super().__init__(durability)
        self._journal = journal
        self._paths: dict[int, str] = {}

    def _check(self, kind: str, path: str) -> None:
        fault = self._journal.struck(kind, path)
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code))

    def _below(self, path: str) -> str:
        found = self._journal.inside(path)
        if found is None:
            raise ValueError(f"{path} is outside of {self._journal.folder}")
        return found

    def open_to_append(self, path: str) -> int:
        descriptor = super().open_to_append(path)
        self._paths[descriptor] = below = self._below(path)
        self._journal.meet(below)
        return descriptor

    def open_to_change(self, path: str) -> int:
        descriptor = super().open_to_change(path)
        self._paths[descriptor] = below = self._below(path)
        self._journal.meet(below)
        return descriptor

    def create(self, path: str) -> int:
        below = self._below(path)
        self._check("create", below)
        descriptor = super().create(path)
        self._paths[descriptor] = below
        self._journal.note(Step("create", below))
        return descriptor

    def _wrote(self, descriptor: int, offset: int, data: bytes) -> int:
        mtime_ns = os.fstat(descriptor).st_mtime_ns
        self._journal.note(Step("write", self._paths[descriptor], offset, data, mtime_ns))
        return len(data)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        offset = os.fstat(descriptor).st_size
        fault = self._journal.struck("write", self._paths[descriptor])
        if fault is None:
            return self._wrote(descriptor, offset, bytes(data[: super().write(descriptor, data)]))
        taken = bytes(data[: fault.bytes_taken(bytes(data), b"")])
        if taken:
            self._wrote(descriptor, offset, taken[: super().write(descriptor, taken)])
        raise OSError(fault.code, os.strerror(fault.code))

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._check("write", self._paths[descriptor])
        return self._wrote(descriptor, offset, data[: super().overwrite(descriptor, data, offset)])

    def truncate(self, descriptor: int, size: int) -> None:
        self._check("cut", self._paths[descriptor])
        super().truncate(descriptor, size)
        mtime_ns = os.fstat(descriptor).st_mtime_ns
        self._journal.note(Step("cut", self._paths[descriptor], size, mtime_ns=mtime_ns))

    def sync(self, descriptor: int) -> None:
        if not self.syncs:
            return
        path = self._paths[descriptor]
        fault = self._journal.struck("sync", path)
        if fault is not None:
            self._journal.note(Step("lost_sync", path))
            raise OSError(fault.code, os.strerror(fault.code))
        self._journal.note(Step("sync", path))

    def sync_folder(self, folder: str) -> None:
        if self.syncs:
            self._journal.note(Step("sync_folder", self._journal.inside(folder) or ""))

    def rename(self, path: str, to: str) -> None:
        below, after = self._below(path), self._below(to)
        self._check("rename", after)
        super().rename(path, to)
        for descriptor, known in list(self._paths.items()):
            if known == below:
                self._paths[descriptor] = after
        self._journal.note(Step("rename", below, data=after))

    def remove(self, path: str) -> None:
        below = self._below(path)
        self._check("remove", below)
        super().remove(path)
        self._journal.note(Step("remove", below))

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        self._journal.note(Step("make_folder", self._below(path)))
