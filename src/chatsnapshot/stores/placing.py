"""Makes files in a folder beside their place and puts them there whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from chatsnapshot.errors import LedgerError, StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["exists", "free_name", "part_folder", "place_new", "second_name"]


@contextmanager
def part_folder(target: str) -> Iterator[str]:
    """The folder ``TARGET.part``, empty, for one process at a time; it is removed at the end.

    What a killed process left in it is removed first. Raises :class:`StoreUnavailable` while another process works in
    it, and ``OSError``.
    """
    folder = target + ".part"
    descriptor = _claimed(folder)
    try:
        for entry in os.scandir(folder):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _claimed(folder: str) -> int:
    """A descriptor of the folder that holds its lock."""
    while True:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC)
        try:
            _lock(descriptor, folder)
            here = os.stat(folder)
        except FileNotFoundError:
            os.close(descriptor)  # the process before has just removed it
            continue
        except BaseException:
            os.close(descriptor)
            raise
        if os.path.samestat(here, os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)


def _lock(descriptor: int, folder: str) -> None:
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreUnavailable(
            f"another process is making a copy in {folder}; wait until it is done, or name another target"
        ) from None
    except OSError:
        pass  # some network file systems lock no folders


def place_new(made: str, target: str) -> None:
    """Give a finished file its name, unless something has that name. Raises :class:`LedgerError` and ``OSError``."""
    try:
        os.link(made, target)
        return
    except FileExistsError:
        raise exists(target) from None
    except OSError:
        pass  # a file system without hard links
    if os.path.lexists(target):
        raise exists(target)
    os.rename(made, target)


def second_name(path: str, name: str) -> None:
    """Give a file another name beside its own, or make a copy where there are no hard links. Raises ``OSError``."""
    try:
        os.link(path, name)
    except OSError:
        shutil.copy2(path, name)


def exists(target: str) -> LedgerError:
    """The refusal to write over something."""
    return LedgerError(
        f"{target} is there already; name another target, or replace it with --force (force=True)"
    )


def free_name(name: str) -> str:
    """``name``, or the first of ``name-2``, ``name-3`` … that nothing has."""
    number, found = 1, name
    while os.path.lexists(found):
        number += 1
        found = f"{name}-{number}"
    return found
