"""Sends what waits in a spool to its service: one process at a time, in order, again and again until it is there."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from chatsnapshot import exiting
from chatsnapshot.clock import foreign_uuid, time_text, uuid_text
from chatsnapshot.errors import (
    EventConflict,
    InvalidEvent,
    LedgerError,
    LimitExceeded,
    SequenceConflict,
    StoreUnavailable,
)
from chatsnapshot.stores.draft import ledger_draft
from chatsnapshot.stores.filelock import file_lock
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.errors import error_of
from chatsnapshot.stores.http.store import HttpStore
from chatsnapshot.stores.spool.file import SpoolFile, Waiting

__all__ = ["REJECTED", "Backoff", "Forwarder"]

_log = logging.getLogger("chatsnapshot.spool")

REJECTED = "ledger.rejected"
_FINAL = (InvalidEvent, EventConflict, SequenceConflict, LimitExceeded)
"""What a service says about the events themselves: it will say it every time."""
_EVENTS_MAX = 500
_BYTES_MAX = 1024 * 1024
_IDLE_SECONDS = 2.0
_LAST_SECONDS = 0.3
"""At the end of the interpreter: what was accepted may come into the spool a moment later."""
_SEND_SECONDS = 5.0
"""An answer that takes longer is asked for again: what was stored is known then."""
_OTHER_SECONDS = 0.25
"""How often it is looked whether the process that sends is still there."""


class Backoff:
    """How long to wait after each failure in a row: doubling up to a bound, at random between half and whole."""

    FIRST_SECONDS = 0.25
    SECONDS_MAX = 30.0

    def __init__(self) -> None:
        self.failures = 0

    def next(self) -> float:
        """The next pause in seconds."""
        whole = min(self.FIRST_SECONDS * 2 ** min(self.failures, 20), self.SECONDS_MAX)
        self.failures += 1
        return float(whole * random.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It went well."""
        self.failures = 0


class Forwarder:
    """The thread that sends. It is started when something waits, ends when nothing does, and never holds up a caller."""

    def __init__(self, file: SpoolFile, remote: Callable[[], HttpStore], url: str) -> None:
        self._file = file
        self._remote = remote
        self._url = url
        self._lock_path = file.path + ".lock"
        self._shut = False
        self._reset()
        exiting.watch(self)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._thread: threading.Thread | None = None
        self._kicked = False
        """Somebody wants it tried now."""
        self._news = False
        """Something was added since it was looked whether anything waits."""
        self._deadline: float | None = None
        self.attempts = 0
        """Attempts that have ended."""
        self.failing: LedgerError | None = None
        """Why the last attempt failed; ``None`` when it did not."""
        self.failing_since: float | None = None

    # --- from callers ---

    def wake(self, now: bool = False) -> None:
        """Something waits; ``now``: try at once, also within a pause after a failure."""
        with self._mutex:
            self._kicked = self._kicked or now
            self._news = True
            if self._thread is None and not self._shut:
                thread = threading.Thread(target=self._run, name="chatsnapshot-spool", daemon=False)
                exiting.own(thread)
                try:
                    exiting.start()
                    thread.start()
                except RuntimeError:
                    return  # at exit: it stays in the spool for the next start
                self._thread = thread
            self._changed.notify_all()

    def settled(self, until: int, seconds: float, patient: bool) -> bool:
        """Wait until groups up to a number are sent or set aside, for at most so long.

        Not ``patient``: give up when an attempt begun from now on fails.
        """
        if not self._file.waits_up_to(until):
            return True
        deadline = time.monotonic() + seconds
        begun = self.attempts
        self.wake(now=True)
        while self._file.waits_up_to(until):
            with self._mutex:
                left = deadline - time.monotonic()
                failed = self.failing is not None and self.attempts > begun
                if left <= 0 or (failed and not patient):
                    return False
                # Another process may be the one that sends: look now and then.
                self._changed.wait(min(left, 0.05))
        return True

    def shut(self, reason: str) -> None:
        """The interpreter ends: send what can be sent within the bound, leave the rest."""
        with self._mutex:
            self._end(EXIT_SECONDS_MAX)

    def _end(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + seconds
        self._kicked = self._news = True
        self._changed.notify_all()

    def close(self, seconds: float, abort: Callable[[], None]) -> None:
        """Send on for so long, then end; ``abort`` cuts off a request that is under way."""
        with self._mutex:
            self._shut = True
            self._end(seconds)
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(seconds)
        if thread.is_alive():
            abort()
            thread.join()

    def after_fork(self) -> None:
        """In a forked child there is no thread; the parent's goes on sending, for both."""
        self._reset()

    # --- the thread ---

    def _run(self) -> None:
        lock = file_lock(self._lock_path)
        try:
            while not self._over():
                if self._file.empty():
                    self._file.shrink()
                    if not self._rest():
                        return
                    continue
                try:
                    with lock.held(within=0):
                        self._send_all()
                except StoreUnavailable:
                    self._wait(_OTHER_SECONDS)  # another one sends, or the lock file cannot be taken
        except LedgerError as error:
            _log.error("the spool %s cannot be read: %s", self._file.path, error)
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._changed.notify_all()
            lock.close()

    def _over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _rest(self) -> bool:
        """Nothing waited when it was looked: stay for a while; false when it is time to end."""
        with self._mutex:
            if not self._news and not self._shut:
                self._changed.wait(_IDLE_SECONDS if self._deadline is None else _LAST_SECONDS)
            if self._news:
                self._news = False
                return True
            self._thread = None  # under the mutex: whoever adds something from now on starts another thread
            return False

    def _wait(self, seconds: float) -> None:
        with self._mutex:
            if self._deadline is not None:
                seconds = min(seconds, max(self._deadline - time.monotonic(), 0))
            self._changed.wait(seconds)

    def _pause(self, seconds: float) -> None:
        """After a failure: wait, unless somebody wants it tried at once."""
        deadline = time.monotonic() + seconds
        with self._mutex:
            while not self._kicked and not self._over():
                left = deadline - time.monotonic()
                if self._deadline is not None:
                    left = min(left, self._deadline - time.monotonic())
                if left <= 0:
                    return
                self._changed.wait(left)

    def _send_all(self) -> None:
        """Send until nothing waits, with the lock held."""
        backoff = Backoff()
        while not self._over():
            with self._mutex:
                self._kicked = False
            groups = self._file.first(_EVENTS_MAX, _BYTES_MAX)
            if not groups:
                return
            try:
                self._send(groups)
            except LedgerError as error:
                self._ended(error)
                pause = backoff.next()
                if self._deadline is not None and backoff.failures > 1:
                    self._deadline = time.monotonic()  # at the end nobody waits for a service that is away
                self._pause(pause)
            else:
                backoff.reset()
                self._ended(None)

    def _ended(self, error: LedgerError | None) -> None:
        with self._mutex:
            if error is not None and self.failing is None:
                self.failing_since = time.monotonic()
                _log.warning("events wait in the spool of %s: %s", self._url, error)
            elif error is None and self.failing is not None:
                _log.info("events are sent to %s again", self._url)
            self.failing = error
            self.attempts += 1
            self._changed.notify_all()

    def _send(self, groups: Sequence[Waiting]) -> None:
        """Send groups, and settle those on which the service has decided; raises what keeps it from being decided."""
        try:
            answers = self._remote().append_raw([group.data for group in groups], _SEND_SECONDS)
        except _FINAL as error:
            if len(groups) > 1:
                for group in groups:
                    self._send([group])
                return
            self._settle([], [(groups[0], error)])
            return
        sent: list[Waiting] = []
        refused: list[tuple[Waiting, LedgerError]] = []
        halted: LedgerError | None = None
        for group, answer in zip(groups, answers, strict=True):
            told = error_of(answer, self._url) if isinstance(answer, dict) else None
            if told is None:
                sent.append(group)
            elif isinstance(told, _FINAL):
                refused.append((group, told))
            else:
                halted = told
                break  # what comes after it must not overtake it
        self._settle(sent, refused)
        if halted is not None:
            raise halted

    def _settle(self, sent: Sequence[Waiting], refused: Sequence[tuple[Waiting, LedgerError]]) -> None:
        now = time_text(time.time_ns())
        notes: list[tuple[Sequence[bytes], bytes]] = []
        for group, error in refused:
            _log.error("the service of %s refused an event for good, it is set aside: %s", self._url, error)
            notes += _notes(group, error)
        self._file.settle(sent, [(group, now, _problem(error)) for group, error in refused], notes)


EXIT_SECONDS_MAX = 5.0
"""So long an end of the interpreter waits for what is sent; the rest stays for the next start."""


def _problem(error: LedgerError) -> str:
    """An error as it is kept, to be made again by :func:`~chatsnapshot.stores.http.errors.error_of`."""
    kinds: dict[type[LedgerError], tuple[str, tuple[str, ...]]] = {
        InvalidEvent: ("invalid-event", ("path",)),
        EventConflict: ("event-conflict", ("event_id", "fields", "position")),
        SequenceConflict: ("sequence-conflict", ("correlation_id", "wanted", "found")),
        LimitExceeded: ("limit-exceeded", ("limit", "allowed", "found", "what_to_do")),
    }
    kind, names = kinds[type(error)]
    more: dict[str, Any] = {name: getattr(error, name) for name in names}
    return msgspec.json.encode(
        {"type": f"urn:chatsnapshot:problem:{kind}", "detail": str(error), **more}
    ).decode()


def _notes(group: Waiting, error: LedgerError) -> list[tuple[Sequence[bytes], bytes]]:
    """A ``ledger.rejected`` for each event of a group, with ids of their own: however often it is said, it is one."""
    notes: list[tuple[Sequence[bytes], bytes]] = []
    for draft in wire.decode(group.data, type=wire.WireGroup).drafts:
        if draft.event_type == REJECTED:
            continue
        event_id = uuid_text(draft.event_id)
        payload: dict[str, object] = {
            "event_id": event_id,
            "event_type": draft.event_type,
            "correlation_id": draft.correlation_id,
            "reason": str(error),
            "error": type(error).__name__,
        }
        key = foreign_uuid(REJECTED, event_id)
        made = ledger_draft(REJECTED, payload, os.urandom, key=key)
        notes.append(([key], wire.encode(wire.WireGroup([wire.sent(made)], None))))
    return notes
