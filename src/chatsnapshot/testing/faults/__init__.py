"""Fault tools: a disk that loses power, fails and fills up, a network that fails (docs/faults.md)."""

from __future__ import annotations

from chatsnapshot.testing.faults.addresses import address_of, through
from chatsnapshot.testing.faults.disk import CrashState, Disk, crash_states, lay_out
from chatsnapshot.testing.faults.files import JournalFiles
from chatsnapshot.testing.faults.journal import Fault, Journal, Step
from chatsnapshot.testing.faults.proxy import Address, Counts, Proxy
from chatsnapshot.testing.faults.vfs import JournalVFS, checkpoint_as_sqlite_does, vfs_under

__all__ = [
    "Address",
    "Counts",
    "CrashState",
    "Disk",
    "Fault",
    "Journal",
    "JournalFiles",
    "JournalVFS",
    "Proxy",
    "Step",
    "address_of",
    "checkpoint_as_sqlite_does",
    "crash_states",
    "lay_out",
    "through",
    "vfs_under",
]
