"""Whether a ledger's lock can be taken, and who holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from chatsnapshot.doctor.finding import Finding, note, ok, problem
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.filelock import file_lock

__all__ = ["holders", "judge_lock", "try_lock"]

CHECK = "lock"
WAIT_SECONDS = 1.0


def judge_lock(path: str) -> Finding:
    """Take the lock file at this real path for a moment, if that is possible within a second.

    A process takes it for each commit and lets go. It is never made here, and never opened apart from the one
    descriptor that this process has of it: closing another one would drop the lock.
    """
    if not os.path.exists(path):
        return ok(CHECK, "no lock file: nobody has recorded here yet, or somebody has tidied up")
    if not os.access(path, os.R_OK | os.W_OK):
        return note(CHECK, f"this account may not take {path}, so nothing is said about it")
    taken = try_lock(path, WAIT_SECONDS)
    if taken is None:
        return problem(
            CHECK, f"{path} cannot be locked on this file system", "move the ledger to a local disk"
        )
    if taken:
        return ok(CHECK, f"it can be taken within {WAIT_SECONDS:g} s")
    who = holders(path)
    named = ", ".join(f"process {pid} ({name})" if name else f"process {pid}" for pid, name in who)
    return problem(
        CHECK,
        f"{named or 'another process'} has held it for more than {WAIT_SECONDS:g} s: nothing can be recorded meanwhile",
        "see what that process does; when it ends, or is killed, the lock is gone by itself",
    )


def try_lock(path: str, seconds: float) -> bool | None:
    """Whether the lock could be taken in that time; ``None`` when it cannot be locked at all.

    The attempt goes on in a thread of its own until it succeeds, and lets go at once.
    """
    tried = threading.Event()
    failed: list[StoreUnavailable] = []

    def attempt() -> None:
        lock = file_lock(path)
        try:
            with lock.held():
                tried.set()
        except StoreUnavailable as error:
            failed.append(error)
            tried.set()
        finally:
            lock.close()

    threading.Thread(target=attempt, name="chatsnapshot-doctor", daemon=True).start()
    if not tried.wait(seconds):
        return False
    return None if failed else True


def holders(path: str) -> list[tuple[int, str]]:
    """Process ids that hold a lock on a file, with their names as far as the system tells (Linux, /proc/locks)."""
    try:
        there = os.stat(path)
        with open("/proc/locks", encoding="ascii", errors="replace") as lines:
            found = lock_owners(lines, there.st_dev, there.st_ino)
    except OSError:
        return []
    return [(pid, _name_of(pid)) for pid in found]


def lock_owners(lines: Iterable[str], device: int, inode: int) -> list[int]:
    """The owners of write locks on one file in the text of ``/proc/locks``; those that wait are left out."""
    where = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    found = []
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1] != "->" and words[3] == "WRITE" and words[5] == where:
            pid = int(words[4])
            if pid > 0 and pid not in found:  # a process in another namespace has no number here
                found.append(pid)
    return found


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            words = text.read(400).replace(b"\0", b" ").decode(errors="replace").strip()
        return words[:80]
    except OSError:
        return ""
