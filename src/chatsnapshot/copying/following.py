"""Follows a ledger into a copy, live: a warm standby that survives restarts and outages of both ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

import msgspec

from chatsnapshot.clock import parse_time
from chatsnapshot.copying.places import Place, both_ends
from chatsnapshot.copying.transfer import Transfer
from chatsnapshot.errors import (
    CommitUncertain,
    LedgerError,
    NotFound,
    StoreFull,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.base import Head, Store
from chatsnapshot.stores.identity import read_identity

__all__ = ["Following", "follow"]

_PASSING = (CommitUncertain, StoreFull, StorePoisoned, StoreUnavailable)
"""Errors that may go away by themselves; following goes on after a pause."""

_PAUSE_SECONDS_FIRST, _PAUSE_SECONDS_MAX = 0.1, 30.0
_LOOK_SECONDS_FIRST = 0.005
_GLANCE_SECONDS = 1.0
"""How often a quiet follower looks whether its target was promoted."""
_REOPEN_SECONDS = 30.0
"""A quiet follower opens both ends anew this often: the file of a source may have been put back from a backup."""


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """Where a follower stands.

    ``lag`` is how many entries the target lacks, ``behind_seconds`` how much later the last entry of the source was
    recorded than the last one of the target. ``problem`` says what is being waited for; then lag is that of before.
    """

    source: str
    target: str
    position: int
    head: int
    behind_seconds: float = 0.0
    entries: int = 0
    problem: str | None = None

    @property
    def lag(self) -> int:
        """Entries that the target lacks."""
        return max(self.head - self.position, 0)


def follow(
    source: Place,
    target: Place,
    *,
    stop: threading.Event | None = None,
    on_state: Callable[[Following], None] | None = None,
    limits: Limits = DEFAULTS,
) -> Following:
    """Copy as :func:`~chatsnapshot.copying.copy` does, then go on with whatever is recorded, until ``stop`` is set.

    An end that cannot be reached, is full or restarts is waited for, with pauses from 0.1 to 30 seconds; only the first
    opening must succeed. ``on_state`` is called after each batch, when the target is up to date, and when something is
    waited for. The target takes entries from its source alone, until :func:`~chatsnapshot.copying.promote`: then
    following ends with :class:`LedgerError`, as it does when the source is not the history that the target began with.
    ``KeyboardInterrupt`` may come at any moment.
    """
    return _Follower(source, target, stop or threading.Event(), on_state, limits).run()


class _Follower:
    def __init__(
        self,
        source: Place,
        target: Place,
        stop: threading.Event,
        on_state: Callable[[Following], None] | None,
        limits: Limits,
    ) -> None:
        self._ends = source, target
        self._stop = stop
        self._on_state = on_state
        self._limits = limits
        self._wake = threading.Event()
        self._entries = 0
        self._known: Following | None = None
        self._pause = _PAUSE_SECONDS_FIRST

    def run(self) -> Following:
        source = self._ends[0]
        if isinstance(source, Ledger):
            source._bell.add(self._wake.set)
        try:
            while not self._stop.is_set():
                try:
                    self._connected()
                except _PASSING as error:
                    self._wait_out(error)
                except NotFound as error:
                    if self._known is None:
                        raise
                    self._wait_out(error)
        finally:
            if isinstance(source, Ledger):
                source._bell.remove(self._wake.set)
        return self._known or Following(source="", target="", position=0, head=0)

    def _wait_out(self, error: LedgerError) -> None:
        if self._known is None:
            raise error
        self._say(msgspec.structs.replace(self._known, problem=str(error)))
        self._stop.wait(self._pause)
        self._pause = min(self._pause * 2, _PAUSE_SECONDS_MAX)

    def _connected(self) -> None:
        """Follow through one opening of both ends."""
        with both_ends(*self._ends, self._limits) as (source, target):
            if read_identity(target.ledger_id).copy is None:
                _refuse_others_ledger(target)
            transfer = Transfer(source, target)
            transfer.match()
            opened = quiet_since = time.monotonic()
            glanced = opened
            look = _LOOK_SECONDS_FIRST
            while not self._stop.is_set():
                self._wake.clear()
                source.watch(self._wake.set)
                head = source.head()
                if head.size > transfer.position or self._known is None or self._known.problem:
                    self._catch_up(transfer, source, head)
                    quiet_since = time.monotonic()
                    look = _LOOK_SECONDS_FIRST
                    continue
                if head.size < transfer.position:
                    transfer.match()  # says that the source was cut
                now = time.monotonic()
                if now - glanced >= _GLANCE_SECONDS:
                    glanced = now
                    if target.head().size != transfer.position:
                        transfer.match()
                        continue
                if now - max(quiet_since, opened) >= _REOPEN_SECONDS:
                    return
                self._quiet(look)
                look = min(look * 1.5, source.traits.look_seconds)

    def _catch_up(self, transfer: Transfer, source: Store, head: Head) -> None:
        while True:
            # In steps, so that a long way shows where it is, and a stop is heard.
            before = transfer.entries
            transfer.up_to(min(head.size, transfer.position + 1_000))
            self._entries += transfer.entries - before
            self._pause = _PAUSE_SECONDS_FIRST
            done = transfer.position >= head.size
            self._say(
                Following(
                    source=source.url,
                    target=transfer.target.url,
                    position=transfer.position,
                    head=max(head.size, transfer.position),
                    behind_seconds=0.0 if done else _between(transfer.target.head(), head),
                    entries=self._entries,
                )
            )
            if done or self._stop.is_set():
                return

    def _quiet(self, seconds: float) -> None:
        """Wait for news, no longer than that; a stop is heard within a quarter of a second."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._wake.wait(min(left, 0.25)) or self._stop.is_set():
                return

    def _say(self, state: Following) -> None:
        self._known = state
        if self._on_state is not None:
            self._on_state(state)


def _refuse_others_ledger(target: Store) -> NoReturn:
    raise LedgerError(
        f"{target.url} was not made by chatsnapshot copy, so nothing keeps others from recording in it; name a place "
        "where no ledger is, and following makes one there"
    )


def _between(earlier: Head, later: Head) -> float:
    """Seconds between the last times of two heads."""
    if not earlier.recorded_at or not later.recorded_at:
        return 0.0
    times: list[datetime] = [parse_time(head.recorded_at) for head in (earlier, later)]
    return max((times[1] - times[0]).total_seconds(), 0.0)
