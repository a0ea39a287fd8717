"""Which file system a ledger lies on, and whether its locks and syncs can be relied on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning

__all__ = ["Mount", "judge_mount", "mount_of", "mounts", "read_mounts"]

CHECK = "file system"

MOUNTINFO = "/proc/self/mountinfo"

_NETWORK = "over the network neither locks nor the log's shared memory hold between machines, and a sync may mean less"
_SHARED = "a share between a machine and its guest; memory is not shared across it and locks may not be"

UNSAFE = {
    "nfs": _NETWORK,
    "nfs4": _NETWORK,
    "cifs": _NETWORK,
    "smb3": _NETWORK,
    "smbfs": _NETWORK,
    "ncpfs": _NETWORK,
    "afs": _NETWORK,
    "ceph": _NETWORK,
    "lustre": _NETWORK,
    "gpfs": _NETWORK,
    "gfs2": _NETWORK,
    "ocfs2": _NETWORK,
    "beegfs": _NETWORK,
    "9p": _SHARED,
    "virtiofs": _SHARED,
    "vboxsf": _SHARED,
    "prl_fs": _SHARED,
    "vmhgfs": _SHARED,
}
_FUSE = "what locks and syncs do is up to the program behind it, and most do less than they say"

VOLATILE = {"tmpfs", "ramfs", "hugetlbfs", "rootfs"}

LOCAL = {
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs", "nilfs2", "apfs", "hfsplus",
    "ntfs3",
}  # fmt: skip

_WITHOUT_BARRIERS = {"nobarrier", "barrier=0", "barrier=none"}
_LOCAL_DISK = "move the ledger to a folder on a local disk, such as ext4 or XFS"


class Mount(NamedTuple):
    """A line of mountinfo (Linux, proc(5)): where it is mounted, type of file system, what, and its options."""

    point: str
    kind: str
    device: str
    options: frozenset[str]


def read_mounts(lines: Iterable[str]) -> list[Mount]:
    """The mounts in the text of ``/proc/self/mountinfo``; a line that is none is passed over."""
    found = []
    for line in lines:
        before, dash, after = line.rstrip("\n").partition(" - ")
        front, back = before.split(" "), after.split(" ")
        if not dash or len(front) < 6 or len(back) < 3:
            continue
        options = frozenset(front[5].split(",")) | frozenset(back[2].split(","))
        found.append(Mount(_plain(front[4]), back[0], _plain(back[1]), options))
    return found


def _plain(text: str) -> str:
    """Blanks and backslashes are written as octal numbers there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, found: Iterable[Mount]) -> Mount | None:
    """The mount that a real path lies on: the deepest, and of several at one place the last."""
    best: Mount | None = None
    for mount in found:
        under = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if under and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def mounts() -> list[Mount] | None:
    """The mounts of this process; ``None`` where the system does not list them."""
    try:
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as lines:
            return read_mounts(lines)
    except OSError:
        return None


def judge_mount(path: str, found: list[Mount] | None) -> list[Finding]:
    """Findings for the ledger at this real path."""
    folder = os.path.dirname(path)
    if found is None:
        return [_unknown("this system does not say which file system the ledger is on")]
    mount = mount_of(folder, found)
    if mount is None:
        return [_unknown(f"no mount is listed for {folder}")]
    findings = [_judge_kind(mount, folder)]
    here = mount_of(path, found)
    if here is not None and here.point == path:
        findings.append(
            problem(
                CHECK,
                f"{path} alone is mounted: log and lock beside it lie elsewhere, and are lost without it",
                "mount the folder that holds the ledger, not the file",
            )
        )
    missing = sorted(mount.options & _WITHOUT_BARRIERS)
    if missing:
        findings.append(
            problem(
                CHECK,
                f"{mount.point} is mounted with {missing[0]}: a sync does not reach the disk",
                "mount it with barriers, which is the default",
            )
        )
    if "ro" in mount.options:
        findings.append(
            note(CHECK, f"{mount.point} is mounted read-only: the ledger can be read, not written")
        )
    return findings


def _judge_kind(mount: Mount, folder: str) -> Finding:
    kind = mount.kind
    on = f"{kind} at {mount.point}"
    if kind in UNSAFE:
        return problem(CHECK, f"{on} is unsafe for a ledger: {UNSAFE[kind]}", _LOCAL_DISK)
    if kind == "fuse" or kind.startswith(("fuse.", "fuseblk")):
        return problem(CHECK, f"{on} is unsafe for a ledger: {_FUSE}", _LOCAL_DISK)
    if kind in VOLATILE:
        return warning(CHECK, f"{on} is memory: nothing in it survives a restart or lost power", _LOCAL_DISK)
    if kind in ("overlay", "overlayfs", "aufs"):
        return note(
            CHECK,
            f"{on} is the layer of a container: the ledger goes when the container goes",
            f"mount a volume at {folder} to keep it",
        )
    if kind in LOCAL:
        return ok(CHECK, f"{on}, a local file system")
    return note(
        CHECK,
        f"{on} is not known here, so nothing is said about its locks and syncs",
        "prefer ext4, XFS, Btrfs or ZFS on a local disk",
    )


def _unknown(reason: str) -> Finding:
    return note(
        CHECK, f"unknown: {reason}", "make sure that it is a local disk, not a network or shared folder"
    )
