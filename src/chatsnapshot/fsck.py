"""Examines the files of a ledger, says what a repair would do, and does it when asked."""

from __future__ import annotations

import os
import time

import msgspec

from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.stores.base import Store
from chatsnapshot.stores.file_findings import HARMLESS, REPAIR, RESTORE, FileFinding, left_beside
from chatsnapshot.stores.open import Location, locate, open_store

__all__ = ["Examined", "FileFinding", "fsck"]


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, after any repair, and what the repair did, one sentence each."""

    path: str
    findings: tuple[FileFinding, ...]
    done: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged and nothing waits for a repair."""
        return all(finding.cure == HARMLESS for finding in self.findings)

    @property
    def damaged(self) -> bool:
        """Whether something is wrong that no repair mends."""
        return any(finding.cure == RESTORE for finding in self.findings)


def fsck(
    url: str | os.PathLike[str] | None = None, *, repair_tail: bool = False, sweep_blobs: bool = False
) -> Examined:
    """Look at every file of a ledger; with ``repair_tail`` mend its end, under the lock.

    A repair takes nothing away that was acknowledged: JSONL, bytes behind the last whole batch are set aside in a file
    beside it, a doubtful segment is written anew, broken erasures are finished, the index is made again; SQLite, the log
    is brought into the database. ``sweep_blobs`` removes blobs of a JSONL ledger that no entry names. Damage is
    reported and left as it is. Raises :class:`NotFound`, :class:`ReadOnly`, :class:`StoreUnavailable`.
    """
    location = locate(url)
    if location.kind == "memory":
        raise LedgerError("a memory: ledger has no files; name a path such as runs.db")
    if location.target:
        raise LedgerError(
            f"{location.url} is on a server and has no files of ours; ask chatsnapshot doctor and chatsnapshot verify"
        )
    if not os.path.exists(location.path):
        raise NotFound(f"no ledger at {location.path}; check the path")
    done: list[str] = []
    findings = _look(location)
    if repair_tail:
        done += _repair(location, findings)
    if sweep_blobs:
        done += _sweep(location, findings)
    return Examined(path=location.path, findings=_look(location) if done else findings, done=tuple(done))


def _look(location: Location) -> tuple[FileFinding, ...]:
    if not os.path.exists(location.path):
        return ()  # it never held an entry, and was set aside
    if location.kind == "jsonl":
        from chatsnapshot.stores.jsonl_fsck import look_at_lines

        return tuple(look_at_lines(location.path))
    from chatsnapshot.stores.sqlite_fsck import look_at_database

    return tuple(look_at_database(location.path))


def _repair(location: Location, findings: tuple[FileFinding, ...]) -> list[str]:
    if location.kind == "sqlite":
        from chatsnapshot.stores.sqlite_fsck import bring_log_over

        broken = any(finding.cure == RESTORE for finding in findings)
        logs = any(finding.path.endswith(("-wal", "-journal")) for finding in findings)
        return [bring_log_over(location.path)] if logs and not broken else []
    wanted = [finding for finding in findings if finding.cure == REPAIR]
    if not wanted:
        return []
    before = {finding.path for finding in left_beside(os.path.realpath(location.path))}
    try:
        _open(location).close()  # opening for writing is the repair
    except NotFound:
        pass  # it never held an entry: what was there is set aside
    return [
        *(f"{finding.path}: {finding.what}" for finding in wanted),
        *(
            f"set aside in {finding.path}: {finding.what}"
            for finding in left_beside(os.path.realpath(location.path))
            if finding.path not in before
        ),
    ]


def _sweep(location: Location, findings: tuple[FileFinding, ...]) -> list[str]:
    if location.kind != "jsonl":
        return []
    if any(finding.cure == RESTORE for finding in findings):
        raise LedgerError(
            f"{location.path} is damaged, and a damaged line may name a blob; restore it first, then sweep"
        )
    from chatsnapshot.stores.jsonl import JsonlStore

    store = _open(location)
    assert isinstance(store, JsonlStore)
    try:
        return [f"{store.sweep_blobs()} files that no entry names are removed from {location.path}.blobs"]
    finally:
        store.close()


def _open(location: Location) -> Store:
    return open_store(
        location, create=False, read_only=False, durability="full", clock=time.time_ns, entropy=os.urandom,
        limits=DEFAULTS,
    )  # fmt: skip
