"""Group commit: one writer for the queue, inline commit when nothing waits, back-pressure, drain at exit.

A caller that waits commits by itself when the recorder is idle. Otherwise its group joins a bounded queue, and one writer
thread commits what is queued together, never waiting on a timer. The thread is started when it is first needed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from chatsnapshot import exiting
from chatsnapshot.clock import Entropy
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import CommitUncertain, InvalidEvent, LedgerClosed, LedgerError, LimitExceeded
from chatsnapshot.limits import Limits
from chatsnapshot.pending import Failure, FlushReport, Pending, Ticket, envelope_of, rows_of, ticket_of
from chatsnapshot.stores.base import Group, Outcome, Row, Store
from chatsnapshot.stores.draft import seal_groups

if TYPE_CHECKING:
    import asyncio

__all__ = ["Recorder"]

_log = logging.getLogger("chatsnapshot")
_FAILURES_KEPT = 10_000


class Recorder:
    """Takes groups of drafts from any thread or event loop and puts them into the store."""

    def __init__(self, store: Store, limits: Limits, entropy: Entropy, committed: Callable[[], None]) -> None:
        self._store = store
        self._limits = limits
        self._entropy = entropy
        self._committed = committed
        self._closed: str | None = None
        self._reset()
        exiting.watch(self)

    def _reset(self) -> None:
        # Re-entrant, because a finaliser may run inside it on the same thread.
        self._mutex = threading.RLock()
        self._work = threading.Condition(self._mutex)
        self._latches: list[threading.Lock] = []
        self._queue: deque[Ticket] = deque()
        self._events = 0
        self._bytes = 0
        self._busy = False
        self._inline = 0
        self._afterwards: Callable[[], None] | None = None
        self._flight: list[Ticket] = []
        self._writer: threading.Thread | None = None
        self._asleep = False
        """The writer waits for a notice; false again only after it was given."""
        self._alone = False
        """No writer thread can be started (Python 3.12 at exit, or too many): callers do its work."""
        self._stored = 0
        self._failures: deque[Failure] = deque(maxlen=_FAILURES_KEPT)
        self._room_waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    # --- callers ---

    def commit(self, group: Group) -> list[Row]:
        """Store a group and give its rows; durable when it returns."""
        inline = False
        try:
            with self._mutex:
                self._check_open()
                if not self._busy and not self._queue:
                    inline = True
                    self._busy = True
                    self._inline = threading.get_ident()
            if inline:
                outcome = self._append([group])[0]
        finally:
            if inline:
                self._busy = False  # before any call, so that Ctrl-C cannot come first
                self._inline = 0
                self._hand_on()
                then, self._afterwards = self._afterwards, None
                if then is not None:
                    self.close(then)
        if not inline:
            ticket = ticket_of(group, waited=True)
            self._enqueue(ticket)
            ticket.wait(None)
            return ticket.rows()
        rows = rows_of(outcome)
        self._committed()
        return rows

    def _hand_on(self) -> None:
        """Wake whoever waited for an inline commit; also when Ctrl-C arrives in here."""
        interruption: KeyboardInterrupt | None = None
        while True:
            try:
                with self._mutex:
                    if self._queue:
                        self._wake_writer()
                    self._rouse()
                break
            except KeyboardInterrupt as error:
                interruption = error
        if interruption is not None:
            raise interruption
        if self._alone:
            self._serve()

    def accept(self, group: Group, entry: Callable[[Row], LedgerEntry]) -> Pending:
        """Queue one event without waiting for the commit; waits only while the queue is full."""
        ticket = ticket_of(group, waited=False)
        if not self._push_at_once(ticket):
            self._enqueue(ticket)
        return Pending(ticket, entry)

    def acommit(self, group: Group) -> Awaitable[Outcome]:
        """Store a group without blocking the event loop that calls; durable when it resolves, to the outcome.

        Once it has been accepted, cancelling the caller does not take the group back.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        ticket = ticket_of(group, waited=True)
        ticket.loop = loop
        ticket.future = future = loop.create_future()
        return future if self._push_at_once(ticket) else self._await_room(ticket, loop, future)

    async def _await_room(
        self, ticket: Ticket, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Outcome]
    ) -> Outcome:
        while True:
            with self._mutex:
                self._check_open()
                if self._has_room(ticket):
                    self._push(ticket)
                    break
                room: asyncio.Future[None] = loop.create_future()
                self._room_waiters.append((loop, room))
                self._wake_writer()
            if self._alone:
                self._serve()
            await room
        if self._alone:
            self._serve()
        return await future

    def flush(self, timeout: float | None = None) -> FlushReport:
        """Wait until everything accepted before this call is settled, and tell what became of it.

        Raises ``TimeoutError`` when that takes longer than ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._alone and self._inline != threading.get_ident():
            self._serve()
        with self._mutex:
            accepted = [*self._flight, *self._queue]
        while True:
            with self._mutex:
                accepted = [ticket for ticket in accepted if not ticket.settled]
                if not accepted:
                    break
                self._check_outside()
                if self._queue and not self._busy:
                    self._wake_writer()
                latch = self._latch()
            if not _wait(latch, deadline):
                waiting = sum(ticket.events for ticket in accepted)
                raise TimeoutError(
                    f"{waiting} events are not durable after {timeout} s; they are still accepted"
                )
        with self._mutex:
            report = FlushReport(self._stored, tuple(self._failures))
            self._stored = 0
            self._failures.clear()
            return report

    def close(self, then: Callable[[], None], reason: str = "the ledger was closed") -> None:
        """Take nothing more, store what was accepted, end the writer thread, and do ``then``.

        A signal handler that closes in the middle of a ``record()`` of its own thread cannot wait for it: ``then`` is
        done at the end of that ``record()``.
        """
        with self._mutex:
            self._shut(reason)
            if self._inline == threading.get_ident():
                self._afterwards = then
                return
        writer: threading.Thread | None = None
        while True:
            if self._alone:
                self._serve()
            with self._mutex:
                writer = self._writer or writer
                if not (self._busy or self._queue or self._flight or self._writer):
                    break
                if not self._busy and (self._queue or self._writer):
                    self._wake_writer()
                latch = self._latch()
            _wait(latch, None)
        if writer is not None:
            writer.join()
        then()

    def shut(self, reason: str) -> None:
        """Take nothing more; the writer drains the queue and ends. Does not wait."""
        with self._mutex:
            self._shut(reason)

    def _shut(self, reason: str) -> None:
        if self._closed is None:
            self._closed = reason
        self._work.notify_all()
        self._asleep = False
        self._rouse()
        self._tell_room()

    @property
    def queued(self) -> int:
        """Events that wait for the writer."""
        return self._events

    # --- queue ---

    def _check_open(self) -> None:
        # With a writer there is an exit watch, and that closes the intake.
        if self._closed is None and self._writer is None and exiting.begun():
            self._closed = "the interpreter is shutting down"
        if self._closed is not None:
            raise LedgerClosed(f"{self._closed}; nothing was recorded, open a ledger again to go on")

    def _check_outside(self) -> None:
        """Refuse to wait where waiting would never end: inside an inline commit of this very thread."""
        if self._inline == threading.get_ident():
            raise LedgerError(
                "the ledger was used inside record() of the same thread, by a signal handler or a finaliser, where "
                "nothing can wait; nothing was recorded by this call, use record(wait=False) there"
            )

    def _has_room(self, ticket: Ticket) -> bool:
        """Whether the group fits; a single group larger than the queue fits an empty one."""
        return not self._queue or (
            self._events + ticket.events <= self._limits.queue_events_max
            and self._bytes + ticket.size <= self._limits.queue_bytes_max
        )

    def _push_at_once(self, ticket: Ticket) -> bool:
        """Queue a ticket for which there is room and a writer, as is the rule; else nothing is done."""
        limits = self._limits
        with self._mutex:
            if (
                self._writer is None
                or self._alone
                or self._closed is not None
                or self._events + ticket.events > limits.queue_events_max
                or self._bytes + ticket.size > limits.queue_bytes_max
            ):
                return False
            self._events += ticket.events
            self._bytes += ticket.size
            self._queue.append(ticket)
            if self._asleep and not self._busy:
                self._wake_writer()
            return True

    def _enqueue(self, ticket: Ticket) -> None:
        while True:
            with self._mutex:
                self._check_open()
                if ticket.waited:
                    self._check_outside()
                if self._has_room(ticket):
                    self._push(ticket)
                    break
                self._check_outside()
                self._wake_writer()
                latch = self._latch() if self._busy or not self._alone else None
            if latch is None:
                self._serve()
            else:
                _wait(latch, None)
        if self._alone:
            self._serve()

    def _push(self, ticket: Ticket) -> None:
        # Counted first: what Ctrl-C leaves between is a group too many, and never one too few.
        self._events += ticket.events
        self._bytes += ticket.size
        self._queue.append(ticket)
        if not self._busy:
            self._wake_writer()

    def _wake_writer(self) -> None:
        if self._writer is not None:
            if self._asleep:
                self._work.notify()
                self._asleep = False
            return
        # Not a daemon: the interpreter waits for it at exit, and the exit watch tells it to drain and end.
        writer = threading.Thread(target=self._write, name="chatsnapshot-writer", daemon=False)
        exiting.own(writer)
        try:
            exiting.start()
            writer.start()
        except RuntimeError:
            self._alone = True
        else:
            self._alone = False
            self._writer = writer

    def _drain(self) -> list[Ticket]:
        """The next groups for one commit."""
        events = size = 0
        taken: list[Ticket] = []
        limit = min(self._limits.group_events_max, self._store.traits.group_events_max)
        if self._events <= limit and self._bytes <= self._limits.group_bytes_max:
            taken, self._queue = list(self._queue), deque()
        while self._queue:
            ticket = self._queue[0]
            if taken and (
                events + ticket.events > limit or size + ticket.size > self._limits.group_bytes_max
            ):
                break
            taken.append(self._queue.popleft())
            events += ticket.events
            size += ticket.size
        # What Ctrl-C left uncounted is made good whenever the queue is empty.
        self._events = self._events - events if self._queue else 0
        self._bytes = self._bytes - size if self._queue else 0
        self._rouse()
        self._tell_room()
        return taken

    def _latch(self) -> threading.Lock:
        """Something to wait on, outside the mutex, for the next change.

        A ``Condition`` is not used where the main thread waits: Ctrl-C inside its ``wait`` can leave the mutex in
        disorder.
        """
        latch = threading.Lock()
        latch.acquire()
        self._latches.append(latch)
        return latch

    def _rouse(self) -> None:
        latches, self._latches = self._latches, []
        for latch in latches:
            latch.release()

    def _tell_room(self) -> None:
        waiters, self._room_waiters = self._room_waiters, []
        for loop, room in waiters:
            _call(loop, _set_done, room)

    # --- writer ---

    def _write(self) -> None:
        while True:
            with self._mutex:
                while not self._queue or self._busy:
                    if self._closed is not None and not self._queue:
                        self._writer = None
                        self._rouse()
                        return
                    self._asleep = True
                    self._work.wait()
                self._asleep = False
                self._busy = True
                tickets = self._drain()
                self._flight += tickets
            self._commit_together(tickets)

    def _serve(self) -> None:
        """Do the writer's work on the caller's thread, until the queue is empty or another thread is at it."""
        while True:
            with self._mutex:
                if self._busy or not self._queue:
                    return
                self._busy = True
                tickets = self._drain()
                self._flight += tickets
            self._commit_together(tickets)

    def _commit_together(self, tickets: Sequence[Ticket]) -> None:
        outcomes = self._append([ticket.group for ticket in tickets])
        self._busy = False
        self._resolve(tickets, outcomes)
        with self._mutex:
            self._settle(tickets, outcomes)
            self._rouse()
        self._committed()

    def _append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Append groups; every group gets an outcome, whatever happens (but not for KeyboardInterrupt and the like)."""
        try:
            seal_groups(groups, self._entropy)
            return self._store.append(groups)
        except CommitUncertain as error:
            return [_uncertain(error, group) for group in groups]
        except (InvalidEvent, LimitExceeded) as error:
            if len(groups) == 1:
                return [error]
            # One event that the store refuses must not take the others with it.
            return [self._append([group])[0] for group in groups]
        except LedgerError as error:
            return _for_each(error, len(groups))
        except Exception as error:
            if len(groups) > 1:
                return [self._append([group])[0] for group in groups]
            _log.exception("the store failed in an unforeseen way")
            wrapped = LedgerError(
                f"the store failed: {type(error).__name__}: {error}; nothing is known of these events"
            )
            wrapped.__cause__ = error
            return [wrapped]

    def _settle(self, tickets: Sequence[Ticket], outcomes: Sequence[Outcome]) -> None:
        for ticket, outcome in zip(tickets, outcomes, strict=False):
            ticket.settled = True
            if ticket.waited:
                continue
            if isinstance(outcome, list):
                self._stored += len(outcome)
                continue
            if not self._failures:
                _log.error("an accepted event could not be stored (flush() tells which): %s", outcome)
            self._failures.extend(Failure(envelope_of(draft), outcome) for draft in ticket.group.drafts)
        self._flight = [ticket for ticket in self._flight if not ticket.settled]

    def _resolve(self, tickets: Sequence[Ticket], outcomes: Sequence[Outcome]) -> None:
        """Tell the callers; those of one event loop with one callback."""
        loops: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
        for ticket, outcome in zip(tickets, outcomes, strict=False):
            loop = ticket.loop
            if loop is None:
                ticket.resolve(outcome)
                continue
            ticket.outcome = outcome
            ticket.done = True
            if loop in loops:
                loops[loop].append(ticket)
            else:
                loops[loop] = [ticket]
        for loop, answered in loops.items():
            _call(loop, _answer, answered)

    # --- fork ---

    def after_fork(self) -> None:
        """In a forked child: what is queued belongs to the parent; the child starts with an empty queue."""
        left = [*self._flight, *self._queue]
        self._reset()
        for ticket in left:
            if not ticket.done:
                ticket.resolve(
                    LedgerClosed(
                        f"this event was accepted before the fork, so the parent of process {os.getpid()} stores it; "
                        "ask there, or look it up by its id"
                    )
                )


def _wait(latch: threading.Lock, deadline: float | None) -> bool:
    """Wait until a latch is let go; false when the deadline came first."""
    if deadline is None:
        return latch.acquire()
    return latch.acquire(timeout=max(deadline - time.monotonic(), 0))


def _for_each(error: LedgerError, count: int) -> list[Outcome]:
    """The error for every group; copies, because each will be raised on a thread of its own."""
    outcomes: list[Outcome] = [error]
    for _ in range(count - 1):
        twin = copy(error)
        twin.__cause__ = error.__cause__
        outcomes.append(twin)
    return outcomes


def _uncertain(error: CommitUncertain, group: Group) -> CommitUncertain:
    own = CommitUncertain(error.args[0], [envelope_of(draft) for draft in group.drafts])
    own.__cause__ = error.__cause__
    return own


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], argument: object) -> None:
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        pass  # the loop was closed: nobody waits there any more


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _answer(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        future, outcome = ticket.future, ticket.outcome
        if future is not None and outcome is not None and not future.done():
            future.set_result(outcome)
