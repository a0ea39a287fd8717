"""Fault tools: a disk that loses power, fails and fills up, under the real stores (docs/faults.md)."""

from __future__ import annotations

from chatsnapshot.testing.faults.disk import CrashState, Disk, crash_states, lay_out
from chatsnapshot.testing.faults.files import JournalFiles
from chatsnapshot.testing.faults.journal import Fault, Journal, Step
from chatsnapshot.testing.faults.vfs import JournalVFS, checkpoint_as_sqlite_does, vfs_under

__all__ = [
    "CrashState",
    "Disk",
    "Fault",
    "Journal",
    "JournalFiles",
    "JournalVFS",
    "Step",
    "checkpoint_as_sqlite_does",
    "crash_states",
    "lay_out",
    "vfs_under",
]
