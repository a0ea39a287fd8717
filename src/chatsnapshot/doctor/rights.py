"""Who may read and write a ledger's files, and whether this account may."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning

__all__ = ["Rights", "judge_rights", "rights_of"]

CHECK = "permissions"


class Rights(NamedTuple):
    """A file or folder: mode, owner, and what this account may do."""

    path: str
    mode: int
    owner: int
    readable: bool
    writable: bool
    entered: bool
    """Of a folder: whether accounts other than owner and group can come to it at all."""


def rights_of(path: str) -> Rights | None:
    """The rights at a path, or ``None`` when nothing is there. Opens nothing."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    return Rights(
        path, there.st_mode, there.st_uid, _may(path, os.R_OK), _may(path, os.W_OK), _open_to_others(path)
    )


def _may(path: str, mode: int) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(path, mode, effective_ids=effective)


def _open_to_others(path: str) -> bool:
    """Whether every folder above lets others through."""
    folder = os.path.dirname(os.path.realpath(path))
    while True:
        try:
            if not os.stat(folder).st_mode & stat.S_IXOTH:
                return False
        except OSError:
            return False
        above = os.path.dirname(folder)
        if above == folder:
            return True
        folder = above


def judge_rights(folder: Rights, ledger: Rights, beside: Sequence[Rights], account: int) -> list[Finding]:
    """Findings for a ledger, its folder and the files beside it; ``account`` is the user id of this process."""
    findings = list(_of_others(folder, ledger))
    if not ledger.readable:
        findings.append(
            problem(
                CHECK,
                f"this account may not read {ledger.path}",
                "run as the account that records, or chmod it",
            )
        )
    elif not ledger.writable or not folder.writable:
        what = ledger.path if not ledger.writable else f"the folder {folder.path}"
        findings.append(
            note(CHECK, f"this account may not write {what}: it can read the ledger, and not record")
        )
    else:
        findings += _of_sides(ledger, beside)
    if account == 0 and ledger.owner != 0:
        findings.append(
            note(
                CHECK,
                f"the ledger belongs to user {ledger.owner} and this is root: files that root makes beside it lock "
                "that user out",
                f"record as user {ledger.owner}",
            )
        )
    return findings or [
        ok(CHECK, f"this account may record, and others may not (mode {ledger.mode & 0o777:04o})")
    ]


def _of_others(folder: Rights, ledger: Rights) -> Iterator[Finding]:
    sticky = folder.mode & stat.S_ISVTX
    if folder.mode & stat.S_IWOTH and folder.entered and not sticky:
        yield problem(CHECK, f"every account may replace files in {folder.path}", f"chmod o-w {folder.path}")
    if not ledger.entered:
        return
    if ledger.mode & stat.S_IWOTH:
        yield problem(CHECK, f"every account may rewrite {ledger.path}", f"chmod 600 {ledger.path}")
    elif ledger.mode & stat.S_IROTH:
        yield warning(
            CHECK,
            f"every account of this machine may read {ledger.path}, with every payload in it",
            f"chmod 600 {ledger.path}, and its folder 700",
        )


def _of_sides(ledger: Rights, beside: Sequence[Rights]) -> Iterator[Finding]:
    """The log, its shared memory and the lock: whoever records needs all of them."""
    for side in beside:
        if not (side.readable and side.writable):
            yield problem(
                CHECK,
                f"{side.path} belongs to user {side.owner} and this account may not write it, so it cannot record",
                f"chown and chmod it like {ledger.path}",
            )
        elif side.owner != ledger.owner:
            yield warning(
                CHECK,
                f"{side.path} belongs to user {side.owner}, the ledger to user {ledger.owner}: one of them may be "
                "locked out",
                f"record as one user, or chown it to {ledger.owner}",
            )
