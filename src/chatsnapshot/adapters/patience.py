"""A thread that records for those who can wait only so long."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ["Attempt", "HoldUp", "Writer"]

if TYPE_CHECKING:
    _Jobs = queue.SimpleQueue[tuple[Callable[[], object], "Attempt"]]

_IDLE_SECONDS_MAX = 5.0
_HOLD_UP_SECONDS_MAX = 0.02
_FREE_TIMES = 5
"""How many times as long as a slow write held the loop up it is then left free."""


class Attempt:
    """One recording that another thread makes."""

    __slots__ = ("_ended", "_mutex", "_told", "error")

    def __init__(self) -> None:
        self._ended = threading.Lock()
        self._ended.acquire()
        self._mutex = threading.Lock()
        self._told: list[Callable[[BaseException | None], object]] = []
        self.error: BaseException | None = None
        """Why nothing was recorded; ``None`` while it goes on and when it went well."""

    def wait(self, seconds: float) -> bool:
        """Block until it has ended; ``False`` when that takes longer."""
        if self._ended.acquire(timeout=seconds):
            self._ended.release()
            return True
        return False

    def then(self, tell: Callable[[BaseException | None], object]) -> None:
        """Call ``tell`` with how it ended, on the thread that recorded; at once when it has ended already."""
        with self._mutex:
            if self._ended.locked():
                self._told.append(tell)
                return
        tell(self.error)

    def future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """The end of it as something to await; :attr:`error` says how it went."""
        ended: asyncio.Future[None] = loop.create_future()

        def tell(_: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(_settle, ended)
            except RuntimeError:
                pass  # the loop was closed: nobody waits there any more

        self.then(tell)
        return ended

    def end(self, error: BaseException | None) -> None:
        """Say how it ended."""
        with self._mutex:
            self.error = error
            self._ended.release()
        for tell in self._told:
            tell(error)


class HoldUp:
    """Whether a write may hold up the event loop: not for long, and not again right after one that was slow."""

    seconds_max = _HOLD_UP_SECONDS_MAX

    def __init__(self) -> None:
        self._free_until = 0.0

    @property
    def allowed(self) -> bool:
        """Whether the loop may be held up now."""
        return time.monotonic() >= self._free_until

    def was_slow(self, began: float) -> None:
        """Leave the loop free for a while: a write that began then (``time.monotonic``) took too long."""
        now = time.monotonic()
        self._free_until = max(self._free_until, now + _FREE_TIMES * (now - began))


class Writer:
    """Calls ``record`` on a thread of its own, which ends when there is nothing to do.

    A recording that hangs keeps the thread; the next one gets a new thread.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._quiet = threading.Condition(self._mutex)
        self._jobs: _Jobs | None = None
        self._busy = False
        self._going = 0

    def start(self, record: Callable[[Sequence[Any]], object], events: Sequence[Any]) -> Attempt:
        """Begin to record in the caller's context; on the caller's own thread where no thread can be started."""
        attempt = Attempt()
        job = (partial(contextvars.copy_context().run, record, events), attempt)
        with self._mutex:
            self._going += 1
            if self._jobs is not None and not self._busy:
                self._busy = True
                self._jobs.put(job)
                return attempt
            jobs: _Jobs = queue.SimpleQueue()
            jobs.put(job)
            self._jobs, self._busy = jobs, True
        inside = threading.Thread(target=self._work, args=(jobs,), name="chatsnapshot-adapter", daemon=True)
        try:
            inside.start()
        except RuntimeError:
            # The interpreter is shutting down, or there are too many.
            with self._mutex:
                self._jobs = None
            self._end(attempt, _tried(job[0]))
        return attempt

    def wait_until_quiet(self, seconds: float | None) -> bool:
        """Block until every recording has ended; ``False`` when that takes longer."""
        with self._quiet:
            return self._quiet.wait_for(lambda: not self._going, seconds)

    def _end(self, attempt: Attempt, error: BaseException | None) -> None:
        attempt.end(error)
        with self._quiet:
            self._going -= 1
            if not self._going:
                self._quiet.notify_all()

    def _work(self, jobs: _Jobs) -> None:
        while True:
            try:
                record, attempt = jobs.get(timeout=_IDLE_SECONDS_MAX)
            except queue.Empty:
                with self._mutex:
                    if self._jobs is jobs and self._busy:
                        continue
                    self._jobs = None if self._jobs is jobs else self._jobs
                    return
            error = _tried(record)
            # Free before anybody hears of the end: who hears may come back at once.
            with self._mutex:
                replaced = self._jobs is not jobs
                if not replaced:
                    self._busy = False
            self._end(attempt, error)
            del record, attempt, error
            if replaced:
                return


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _tried(record: Callable[[], object]) -> BaseException | None:
    try:
        record()
    except BaseException as error:
        return error
    return None
