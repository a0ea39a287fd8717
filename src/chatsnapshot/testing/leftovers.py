"""What closed ledgers leave in their process: threads and descriptors, once all that was told to end has ended."""

from __future__ import annotations

import gc
import os
import threading
import time

from chatsnapshot import exiting

__all__ = ["left_behind", "threads_at_rest"]

END_SECONDS_MAX = 20.0
"""Threads of a driver that were told to end may look only now and then (pymongo's: twice a second, sockets in hand)."""


def threads_at_rest() -> int:
    """How many threads there are while no ledger is open, with the one a process that watches for its end."""
    exiting.start()
    return threading.active_count()


def left_behind(threads: int) -> tuple[list[str], int | None]:
    """The names of all threads, and how many descriptors are open (``None`` where the system does not tell).

    Waits until no more than ``threads`` threads are there, as long as what is not a leak may take.
    """
    gc.collect()
    deadline = time.monotonic() + END_SECONDS_MAX
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    return sorted(thread.name for thread in threading.enumerate()), _descriptors()


def _descriptors() -> int | None:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return len(os.listdir(folder))
    return None
