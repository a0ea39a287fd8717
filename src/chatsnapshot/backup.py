"""Backup and restore of a ledger's files: one moment of it, verified before it gets its name, put there whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, LedgerError, NotFound
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.report import Report
from chatsnapshot.standby import Standing
from chatsnapshot.stores import filelock
from chatsnapshot.stores.filelock import file_lock
from chatsnapshot.stores.jsonl_file import FileIO, folder_of, io_error
from chatsnapshot.stores.open import Location, locate, open_store
from chatsnapshot.stores.placing import exists, free_name, part_folder
from chatsnapshot.verify import verify

__all__ = ["Copied", "Copy", "Progress", "backup", "restore"]

Progress = Callable[[str, int, int], None]
"""Told how far it is: ``"copying"`` (bytes) or ``"verifying"`` (entries), done, in all."""


class Copied(msgspec.Struct, frozen=True):
    """One ledger of a copy: its name in the file, the id of the history, its last position and its root (hex)."""

    name: str
    ledger_id: str
    head: int
    root: str


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that was made, verified and put in its place.

    ``bytes`` is the size of its files; ``kept`` is where what was replaced lies now, if it was kept.
    """

    source: str
    path: str
    bytes: int
    ledgers: tuple[Copied, ...]
    kept: str | None = None


def backup(
    source: str | os.PathLike[str] | None,
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Copy:
    """Copy a ledger as it is at one moment, while any number of processes write to it.

    The copy holds everything that was acknowledged before the call, in the same order; it is the same history and keeps
    its id. It is verified and durable before it gets its name: a process that is killed leaves nothing under ``target``.
    All ledgers of an SQLite file are copied. ``force`` replaces an older file of that name, in one step.

    Raises :class:`NotFound` when there is no ledger, :class:`LedgerError` when the target is there or is no place for
    it, :class:`Corrupt` when the copy does not verify, :class:`StoreFull`, :class:`StoreUnavailable`.
    """
    return _copy(locate(source), locate(target), force=force, keep=False, progress=progress)


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Copy:
    """Put a backup in the place of a ledger: verified first, copied, verified again, put there whole.

    An existing ledger is refused; with ``force`` it is kept beside, under a name with ``.replaced-`` in it, because it
    may hold what the backup does not. It must not be in use. Errors as for :func:`backup`.
    """
    backed_up = locate(source)
    _check_source(backed_up)
    for _ in _verified(backed_up, "the backup", progress, read_only=True):
        pass
    return _copy(backed_up, locate(target), force=force, keep=True, progress=progress)


def _check_source(source: Location) -> None:
    if source.kind == "memory":
        raise LedgerError("a memory: ledger has no files to copy; record to a path such as runs.db")
    if source.target:
        raise LedgerError(
            f"{source.url} is on a server and has no files to copy; use chatsnapshot copy, or the server's own backups"
        )
    if not os.path.exists(source.path):
        raise NotFound(f"no ledger at {source.path}; check the path")


def _check_target(source: Location, target: Location, force: bool) -> Location:
    """The target with its real path; raises :class:`LedgerError`."""
    if target.ledger != "main":
        raise LedgerError(f"a copy holds every ledger of the file; name the file alone, not {target.url}")
    if target.kind != source.kind:
        kinds = {"sqlite": "an SQLite file", "jsonl": "a JSONL file", "memory": "no file"}
        raise LedgerError(
            f"{source.path} is {kinds[source.kind]} and {target.url} would be {kinds[target.kind]}; a copy keeps the "
            "kind, so give it a name that says so (.jsonl for JSONL)"
        )
    path = os.path.realpath(target.path)
    if path == os.path.realpath(source.path) or (
        os.path.exists(path) and os.path.samefile(path, source.path)
    ):
        raise LedgerError(f"{target.path} is the ledger itself; name another target")
    if os.path.isdir(path):
        raise LedgerError(f"{target.path} is a folder; name a file in it, such as runs-copy.db")
    if not os.path.isdir(folder_of(path)):
        raise LedgerError(f"the folder {folder_of(path)} does not exist; create it first")
    if os.path.lexists(path) and not force:
        raise exists(path)
    return target._replace(path=path)


def _copy(source: Location, target: Location, *, force: bool, keep: bool, progress: Progress | None) -> Copy:
    _check_source(source)
    target = _check_target(source, target, force)
    path = target.path
    aside = free_name(f"{path}.replaced-{time_text(time.time_ns())[:19].replace('-', '').replace(':', '')}Z")
    tell = progress or (lambda stage, done, whole: None)
    try:
        with part_folder(path) as folder:
            made = os.path.join(folder, os.path.basename(path))
            if source.kind == "sqlite":
                from chatsnapshot.stores.sqlite_copy import copy_database, place_database

                copy_database(source.path, made, lambda done, whole: tell("copying", done, whole))
                place = place_database
            else:
                from chatsnapshot.stores.jsonl_copy import copy_lines, place_lines

                copy_lines(source.path, made, lambda done, whole: tell("copying", done, whole))
                place = place_lines
            what = f"the copy of {source.path}"
            # A JSONL copy is opened for writing: it gets an index for the while, and a broken erasure is finished.
            read_only = source.kind == "sqlite"
            ledgers = tuple(_verified(target._replace(path=made), what, progress, read_only=read_only))
            if not ledgers:
                raise NotFound(f"no ledger in {source.path}; record something there first")
            size = _synced(made, source.kind)
            with _kept_from_writers(path) if force else nullcontext():
                if force and os.path.exists(path):
                    _take_over_rights(path, made)
                kept = place(made, path, force=force, aside=aside, keep=keep)
            FileIO().sync_folder(folder_of(path))
    except OSError as error:
        raise io_error(error, path) from error
    return Copy(source=source.path, path=path, bytes=size, ledgers=ledgers, kept=kept)


def _verified(copy: Location, what: str, progress: Progress | None, *, read_only: bool) -> Iterator[Copied]:
    """Every ledger of a file, verified; raises :class:`Corrupt` for the first that is not sound."""
    tell = progress or (lambda stage, done, whole: None)
    for location in _ledgers(copy):
        store = open_store(
            location, create=False, read_only=read_only, durability="os", clock=time.time_ns,
            entropy=os.urandom, limits=DEFAULTS,
        )  # fmt: skip
        try:
            report: Report = verify(store, DEFAULTS, lambda done, whole: tell("verifying", done, whole))
            ledger_id = Standing(store).ledger_id
        finally:
            store.close()
        if not report.ok:
            named = "" if location.ledger == "main" else f", ledger {location.ledger}"
            raise Corrupt(
                f"{what}{named} does not verify ({report.summary}), so nothing was put in its place; chatsnapshot verify "
                "lists what is wrong",
                position=report.problems[0].position,
            )
        yield Copied(location.ledger, ledger_id, report.head, report.root)


def _ledgers(file: Location) -> list[Location]:
    if file.kind == "jsonl":
        return [file]
    from chatsnapshot.stores.sqlite_copy import ledger_names

    return [
        file._replace(ledger=name, url=file.path if name == "main" else f"{file.path}?ledger={name}")
        for name in ledger_names(file.path)
    ]


def _synced(made: str, kind: str) -> int:
    """Make the copy durable; gives the bytes of its files."""
    if kind == "jsonl":
        from chatsnapshot.stores.jsonl_copy import sync_lines

        return sync_lines(made)
    files = FileIO()
    descriptor = files.open_to_change(made)
    try:
        files.sync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        files.close(descriptor)


def _take_over_rights(path: str, made: str) -> None:
    """Give what replaces a file the same mode and, as far as this account may, the same owner."""
    there = os.stat(path)
    for folder, _, names in os.walk(folder_of(made)):
        for name in names:
            file = os.path.join(folder, name)
            if (os.stat(file).st_uid, os.stat(file).st_gid) != (there.st_uid, there.st_gid):
                try:
                    os.chown(file, there.st_uid, there.st_gid)
                except PermissionError:
                    pass
            os.chmod(file, there.st_mode & 0o777)


@contextmanager
def _kept_from_writers(path: str) -> Iterator[None]:
    """The lock of a ledger that is to be replaced; where no lock file is, nobody ever wrote it."""
    if not os.path.exists(path + ".lock"):
        yield
        return
    lock = file_lock(path + ".lock")
    try:
        with lock.held(filelock.PATIENCE_SECONDS):
            yield
    finally:
        lock.close()
