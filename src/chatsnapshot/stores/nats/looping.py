"""An event loop on a thread of its own: synchronous callers run coroutines there, and it ends with its ledger.

The thread is not a daemon. It ends when the store is closed or dropped, and at the exit of the interpreter once the
recorders have stored what they accepted.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chatsnapshot import exiting
from chatsnapshot.errors import LedgerClosed

__all__ = ["LoopThread"]

T = TypeVar("T")

_LOOK_SECONDS = 0.02
_WRITER = "chatsnapshot-writer"


class LoopThread:
    """Runs coroutines for other threads.

    ``finish`` is run at the end, before the loop closes. A caller that is interrupted by Ctrl-C leaves its coroutine
    running to its end, so that nothing is left half done.
    """

    def __init__(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._finish = finish
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[threading.Lock] = set()
        self._mutex = threading.Lock()
        self._ending = False
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="chatsnapshot-nats", daemon=False)
        exiting.own(self._thread)
        try:
            exiting.start()
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            raise LedgerClosed(f"no thread can be started ({error}); nothing was recorded") from None
        exiting.watch(self)
        if exiting.begun():
            self.shut(
                ""
            )  # a writer that drains its queue at the exit has started it, and nobody else will tell

    @property
    def alive(self) -> bool:
        """Whether it takes calls."""
        return not self._ending and self._thread.is_alive()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for what it returns or raises."""
        # A bare lock: unlike a Condition it survives Ctrl-C in the middle of a wait.
        latch = threading.Lock()
        latch.acquire()
        box: list[asyncio.Task[T]] = []

        def begin() -> None:
            if self._ending:
                self._let_go(latch)
                return
            task = self._loop.create_task(make())
            box.append(task)
            self._tasks.add(task)
            task.add_done_callback(done)

        def done(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            self._let_go(latch)

        self._waiting.add(latch)
        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            self._let_go(latch)
        latch.acquire()
        if not box or box[0].cancelled():
            raise self._over()
        return box[0].result()

    def _let_go(self, latch: threading.Lock) -> None:
        """Let a caller go on; only once, whoever comes to it first."""
        with self._mutex:
            if latch in self._waiting:
                self._waiting.discard(latch)
                latch.release()

    def _over(self) -> LedgerClosed:
        return LedgerClosed("the connection of this ledger was ended; open the ledger again to go on")

    def shut(self, reason: str) -> None:
        """The interpreter is ending: end as well, once all writers have stored what they have."""
        self._soon(self._end_after_writers)

    def _end_after_writers(self) -> None:
        if self._tasks or any(one.name == _WRITER and one.is_alive() for one in threading.enumerate()):
            self._loop.call_later(_LOOK_SECONDS, self._end_after_writers)
        else:
            self._stop()

    def end(self, wait: bool = True) -> None:
        """Run ``finish``, then end the thread; ``wait`` until it has ended."""
        self._soon(self._stop)
        if wait and self._thread is not threading.current_thread():
            self._thread.join()

    def _soon(self, function: Callable[[], None]) -> None:
        if os.getpid() != self._process:
            return  # a forked child has its memory, and not its thread
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            pass  # it has ended

    def _stop(self) -> None:
        self._ending = True
        self._loop.stop()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._finish())
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            self._ending = True
            asyncio.set_event_loop(None)
            loop.close()
            for latch in list(self._waiting):
                self._let_go(latch)  # who called in the very last moment
