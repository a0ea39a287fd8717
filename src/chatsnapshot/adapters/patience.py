"""A thread that records for those who can wait only so long."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ["Attempt", "Writer"]

if TYPE_CHECKING:
    _Jobs = queue.SimpleQueue[tuple[Callable[[], object], "Attempt"]]

_IDLE_SECONDS_MAX = 5.0


class Attempt:
    """One recording that another thread makes."""

    __slots__ = ("_ended", "_mutex", "_then", "error")

    def __init__(self) -> None:
        self._ended = threading.Lock()
        self._ended.acquire()
        self._mutex = threading.Lock()
        self._then: Callable[[], object] | None = None
        self.error: BaseException | None = None
        """Why nothing was recorded; ``None`` while it goes on and when it went well."""

    def wait(self, seconds: float) -> bool:
        """Block until it has ended; ``False`` when that takes longer."""
        if self._ended.acquire(timeout=seconds):
            self._ended.release()
            return True
        return False

    def future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """The rest of it as something to await."""
        ended: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(_settle, ended, self.error)
            except RuntimeError:
                pass  # the loop was closed: nobody waits there any more

        with self._mutex:
            if self._ended.locked():
                self._then = tell
                return ended
        _settle(ended, self.error)
        return ended

    def end(self, error: BaseException | None) -> None:
        """Say how it ended."""
        with self._mutex:
            self.error = error
            self._ended.release()
        if self._then is not None:
            self._then()


class Writer:
    """Calls ``record`` on a thread of its own, which ends when there is nothing to do.

    A recording that hangs keeps the thread; the next one gets a new thread.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._jobs: _Jobs | None = None
        self._busy = False

    def start(self, record: Callable[[Sequence[Any]], object], events: Sequence[Any]) -> Attempt:
        """Begin to record in the caller's context; on the caller's own thread where no thread can be started."""
        attempt = Attempt()
        job = (partial(contextvars.copy_context().run, record, events), attempt)
        with self._mutex:
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
            attempt.end(_tried(job[0]))
        return attempt

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
            attempt.end(error)
            del record, attempt, error
            if replaced:
                return


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def _tried(record: Callable[[], object]) -> BaseException | None:
    try:
        record()
    except BaseException as error:
        return error
    return None
