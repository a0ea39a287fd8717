"""Stores that break promise 10, in a module of their own because worker processes import them by name."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Sequence

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.base import Group, Outcome, Query, Store
from chatsnapshot.testing.wrappers import PassingStore


class Pretends(PassingStore):
    """Acknowledges without storing whenever ``lost()`` says so."""

    def lost(self) -> bool:
        return False

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if self.lost() and self.inner.head().size:
            page = self.inner.read(Query(), after=0, until=1, limit=1, reverse=False, hint=None)
            return [[page.rows[0]] * len(group.drafts) for group in groups]
        return self.inner.append(groups)


class LosesWhatChildrenRecord(Pretends):
    """Stores only for the process that opened it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.owner = os.getpid()

    def lost(self) -> bool:
        return os.getpid() != self.owner


class LosesWhatIsLeftAtExit(Pretends):
    """Stores nothing once the script has ended."""

    def lost(self) -> bool:
        return not threading.main_thread().is_alive()


class KeepsItsLockOverForks(PassingStore):
    """Has a lock that a forked child finds as another thread of the parent left it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.mutex = threading.Lock()

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if not self.mutex.acquire(timeout=1):
            raise StoreUnavailable("the lock is never let go")
        try:
            return self.inner.append(groups)
        finally:
            self.mutex.release()


class IgnoresForks(PassingStore):
    """Lets a child go on with its copy of what only one process can have."""

    def after_fork(self) -> None:
        pass


class LeavesDescriptors(PassingStore):
    """Closes less than it opens."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.descriptor = os.open(os.devnull, os.O_RDONLY)


class HoldsTheExit(PassingStore):
    """Has a thread that ends only when somebody closes."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.over = threading.Event()
        threading.Thread(target=self.over.wait).start()

    def close(self) -> None:
        self.over.set()
        self.inner.close()


class TakesASignal(PassingStore):
    """Closes when the process is asked to end."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: self.close())


class TakesTheExit(PassingStore):
    """Closes when the process ends."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        atexit.register(self.late)

    def late(self) -> None:
        self.inner.close()
