"""The recorder never harms the run: what adapters record through.

A recording that fails or takes too long is tried again by a thread, with the same envelopes; the run goes on.
What no longer fits is dropped, counted, logged once and later recorded as ``ledger.gap`` (DESIGN promise 9).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from chatsnapshot.adapters.patience import HoldUp, Writer
from chatsnapshot.clock import new_id, time_text, uuid_text
from chatsnapshot.errors import EventConflict, InvalidEvent, LedgerClosed, LimitExceeded, ReadOnly
from chatsnapshot.limits import MIB
from chatsnapshot.redaction import redactor_of

__all__ = ["Event", "RecordsEvents", "SafeRecorder", "new_event"]

Event = dict[str, Any]
"""The arguments of one ``record``: id and time are set, so that a retry is the same event."""

_log = logging.getLogger("chatsnapshot.adapters")

_REFUSED = (InvalidEvent, EventConflict, LimitExceeded)
_OVER = (LedgerClosed, ReadOnly)
_BATCH_EVENTS = 500
_RETRY_SECONDS_MIN = 0.05
_RETRY_SECONDS_MAX = 30.0
_NAMED_CORRELATIONS_MAX = 20


class RecordsEvents(Protocol):
    """The part of a ledger that adapters use."""

    def record_many(self, events: Sequence[Any], /) -> Any:
        """Record the events whole or not at all."""

    def arecord_many(self, events: Sequence[Any], /) -> Awaitable[Any]:
        """The same, without blocking the event loop."""


def new_event(
    event_type: str,
    payload: Mapping[str, Any],
    *,
    correlation_id: str,
    causation_id: str | None = None,
    source: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    at_ns: int | None = None,
) -> Event:
    """An event with an id of its own that happened now, unless ``event_id`` and ``at_ns`` say otherwise."""
    return {
        "event_id": event_id or uuid_text(new_id()),
        "event_type": event_type,
        "timestamp": time_text(time.time_ns() if at_ns is None else at_ns),
        "source": source,
        "correlation_id": correlation_id,
        "causation_id": causation_id,
        "payload": payload,
        "attributes": attributes,
    }


class SafeRecorder:
    """Records events for an adapter: durable before it returns, and harmless when the store is not well.

    ``wait_seconds_max`` bounds how long one recording may hold up the run. After a failure or that time the
    events are kept (up to ``kept_events_max`` and ``kept_bytes_max``), nothing waits any more, and a thread
    tries again until the store takes them. Safe to use from threads and event loops.
    """

    def __init__(
        self,
        ledger: RecordsEvents,
        *,
        adapter: str,
        wait_seconds_max: float = 5.0,
        kept_events_max: int = 10_000,
        kept_bytes_max: int = 64 * MIB,
        retry_seconds_min: float = _RETRY_SECONDS_MIN,
        redact: object = None,
    ) -> None:
        if not hasattr(ledger, "record_many"):
            raise TypeError(f"{adapter} is recorded into what open() gives, not {type(ledger).__name__}")
        self.ledger = ledger
        self.redactor = redactor_of(redact, "withhold")
        """What every event passes before the ledger's own redaction; goes with the event, also into a second try."""
        self.adapter = adapter
        self.wait_seconds_max = wait_seconds_max
        self.kept_events_max = kept_events_max
        self.kept_bytes_max = kept_bytes_max
        self.dropped = 0
        """Events that were given up."""
        self.failures = 0
        """Recordings that failed or took too long, and mistakes of the adapter itself."""
        self.runs_open = 0
        """Runs that are going on; with more than one, what they record together becomes one commit."""
        self._hold_up = HoldUp()
        self._retry_seconds_min = retry_seconds_min
        self._logged: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._writer = Writer()
        self._changed = threading.Condition()
        self._kept: deque[tuple[Event, int]] = deque()
        self._kept_bytes = 0
        self._gap: Event | None = None
        """Tells what was dropped; still counting."""
        self._closing: Event | None = None
        """A gap that is being recorded: its content is fixed, so that a retry is the same event."""
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    @property
    def kept(self) -> int:
        """Events that wait for the store."""
        return len(self._kept)

    async def arecord(self, *events: Event) -> None:
        """Record the events as one batch; returns when they are durable, or kept because they cannot be now.

        Only the caller's own cancellation passes through: the events are recorded all the same.
        """
        events = self._with_redactor(events)
        if self._queued_behind(events):
            return
        try:
            if self.runs_open < 2 and self._hold_up.allowed:
                await self._wait_briefly(events)
            else:
                await self._until(events, asyncio.ensure_future(self.ledger.arecord_many(events)))
        except Exception as error:
            self._failed(events, error)

    async def _wait_briefly(self, events: Sequence[Event]) -> None:
        """Hold up the loop for a write that takes a moment: asking the loop to come back costs more than that.

        A write that takes longer goes on without it, and the loop is left free for a while.
        """
        began = time.monotonic()
        attempt = self._writer.start(self.ledger.record_many, events)
        if attempt.wait(min(self._hold_up.seconds_max, self.wait_seconds_max)):
            if attempt.error is not None:
                self._failed(events, attempt.error)
            return
        self._hold_up.was_slow(began)
        ended = attempt.future(asyncio.get_running_loop())
        try:
            done, _ = await asyncio.wait((ended,), timeout=self.wait_seconds_max)
        except BaseException:
            # On the recording thread: the loop may be gone by then.
            attempt.then(lambda error: None if error is None else self._failed(events, error))
            raise
        finally:
            self._hold_up.was_slow(began)
        error = attempt.error if done else self._too_long()
        if error is not None:
            self._failed(events, error)

    async def _until(self, events: Sequence[Event], recording: asyncio.Future[Any]) -> None:
        try:
            done, _ = await asyncio.wait((recording,), timeout=self.wait_seconds_max)
        except BaseException:
            recording.add_done_callback(lambda ended: self._settle(events, ended))
            raise
        if done:
            self._settle(events, recording)
        else:
            recording.add_done_callback(_look_at)
            self._failed(events, self._too_long())

    def record(self, *events: Event, seconds_max: float | None = None) -> None:
        """As :meth:`arecord`, for plain code; another thread goes in, for a store that hangs cannot be left."""
        events = self._with_redactor(events)
        if self._queued_behind(events):
            return
        try:
            attempt = self._writer.start(self.ledger.record_many, events)
            in_time = attempt.wait(seconds_max or self.wait_seconds_max)
            failure = attempt.error if in_time else self._too_long()
        except Exception as error:
            failure = error
        if failure is not None:
            self._failed(events, failure)

    def hand_over(self, *events: Event) -> None:
        """Leave the events to the retrying thread: for places where nothing may wait."""
        events = self._with_redactor(events)
        self._follow_fork()
        with self._changed:
            self._keep(events)

    def note(self, error: BaseException) -> None:
        """Count and log a mistake of the adapter itself; what it concerns is not recorded."""
        self.failures += 1
        self._log_once("adapter", "the %s adapter could not record an event: %r", self.adapter, error)

    def prepared(self, events: Iterable[Event]) -> list[Event]:
        """The events as they are recorded, with what they pass first."""
        return list(self._with_redactor(tuple(events)))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is under way or kept; ``False`` when that takes more than ``timeout`` seconds."""
        self._follow_fork()
        end = None if timeout is None else time.monotonic() + timeout
        if not self._writer.wait_until_quiet(timeout):
            return False
        self._wake.set()
        with self._changed:
            rest = None if end is None else max(0.0, end - time.monotonic())
            return self._changed.wait_for(self._is_well, rest)

    # --- when the store is not well -----------------------------------------------------------------------

    def _too_long(self) -> TimeoutError:
        return TimeoutError(f"the ledger took over {self.wait_seconds_max:g} s")

    def _with_redactor(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        if self.redactor is None:
            return events
        return tuple({**event, "redact": self.redactor} for event in events)

    def _is_well(self) -> bool:
        return not self._kept and self._gap is None and self._closing is None

    def _follow_fork(self) -> None:
        if os.getpid() != self._pid:
            # A forked child has neither the thread nor a right to the parent's events.
            self._reset()

    def _queued_behind(self, events: Sequence[Event]) -> bool:
        self._follow_fork()
        if self._is_well():
            return False
        with self._changed:
            if self._is_well():
                return False
            self._keep(events)
            return True

    def _settle(self, events: Sequence[Event], task: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._failed(events, error)

    def _failed(self, events: Sequence[Event], error: BaseException) -> None:
        self.failures += 1
        with self._changed:
            if isinstance(error, _OVER):
                self._log_once("over", "the %s adapter records nothing more: %s", self.adapter, error)
                self.dropped += len(events)
                return
            if isinstance(error, _REFUSED) and len(events) == 1:
                self._drop(events[0], _size(events[0]), str(error))
            else:
                self._log_once(
                    "failed",
                    "the %s adapter could not record (%s: %s); the run goes on, events are kept and retried",
                    self.adapter,
                    type(error).__name__,
                    error,
                )
                self._keep(events)
            self._start()

    def _keep(self, events: Sequence[Event]) -> None:
        for event in events:
            size = _size(event)
            if len(self._kept) >= self.kept_events_max or self._kept_bytes + size > self.kept_bytes_max:
                self._drop(event, size, "the store took nothing and no more could be kept")
            else:
                self._kept.append((event, size))
                self._kept_bytes += size
        self._start()

    def _drop(self, event: Event, size: int, reason: str) -> None:
        self.dropped += 1
        said = "the %s adapter dropped an event (%s); ledger.gap will tell how many"
        self._log_once("dropped", said, self.adapter, reason)
        moment = event["timestamp"] or time_text(time.time_ns())
        if self._gap is None:
            payload = {"adapter": self.adapter, "events": 0, "bytes": 0, "from": moment, "to": moment}
            payload |= {"reason": reason, "correlations": []}
            gap = new_event("ledger.gap", payload, correlation_id="ledger")
            (self._gap,) = self._with_redactor((gap,))
        gap = self._gap["payload"]
        gap["events"] += 1
        gap["bytes"] += size
        gap["to"] = moment
        named = gap["correlations"]
        if event["correlation_id"] not in named and len(named) < _NAMED_CORRELATIONS_MAX:
            named.append(event["correlation_id"])

    def _log_once(self, what: str, message: str, *values: object) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning(message, *values)

    # --- the retrying thread ------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._retry, name="chatsnapshot-retry", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The interpreter is shutting down: what is kept goes with it.
                self._thread = None

    def _retry(self) -> None:
        pause = self._retry_seconds_min
        while (batch := self._next_batch()) is not None:
            try:
                self.ledger.record_many(batch)
            except _OVER as error:
                self._give_up(error)
                return
            except _REFUSED:
                self._one_by_one(batch)
            except Exception:
                self._wake.wait(pause)
                self._wake.clear()
                pause = min(pause * 2, _RETRY_SECONDS_MAX)
                continue
            else:
                self._taken(batch)
            pause = self._retry_seconds_min

    def _next_batch(self) -> list[Event] | None:
        """The oldest kept events, or the gap when only that is left; ``None`` ends the thread."""
        with self._changed:
            if self._kept:
                return [self._kept[at][0] for at in range(min(_BATCH_EVENTS, len(self._kept)))]
            if self._closing is None:
                self._closing, self._gap = self._gap, None
            if self._closing is not None:
                return [self._closing]
            self._thread = None
            self._changed.notify_all()
            return None

    def _taken(self, batch: Sequence[Event]) -> None:
        with self._changed:
            if batch[0] is self._closing:
                self._closing = None
            else:
                for _ in batch:
                    self._kept_bytes -= self._kept.popleft()[1]
            self._changed.notify_all()

    def _one_by_one(self, batch: Sequence[Event]) -> None:
        """One event of the batch is refused for good: find it, drop it, record the others."""
        for event in batch:
            try:
                self.ledger.record_many([event])
            except _REFUSED as error:
                self._taken([event])
                if event["event_type"] != "ledger.gap":
                    with self._changed:
                        self._drop(event, _size(event), str(error))
            except Exception:
                return
            else:
                self._taken([event])

    def _give_up(self, error: Exception) -> None:
        with self._changed:
            self._log_once("over", "the %s adapter records nothing more: %s", self.adapter, error)
            self.dropped += len(self._kept)
            self._kept.clear()
            self._kept_bytes = 0
            self._gap = self._closing = None
            self._thread = None
            self._changed.notify_all()


def _look_at(task: asyncio.Future[Any]) -> None:
    """Fetch the outcome of a recording nobody waits for, so that asyncio does not report it as overlooked."""
    if not task.cancelled():
        task.exception()


def _size(event: Event) -> int:
    try:
        return len(msgspec.json.encode(event["payload"], enc_hook=repr))
    except Exception:
        return 1024
