"""States what concerns keys as facts in the ledgers of the service: made, revoked, tried wrongly, and reads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from chatsnapshot.clock import foreign_uuid, parse_time, time_text
from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.access import Access, KeyGate, Refusal
from chatsnapshot.server.keys import Key
from chatsnapshot.server.tries import network_of
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import ledger_draft

if TYPE_CHECKING:
    from chatsnapshot.server.service import Service

__all__ = ["CREATED", "READ", "REFUSED", "REVOKED", "Audit"]

CREATED = "ledger.key_created"
REVOKED = "ledger.key_revoked"
REFUSED = "ledger.access_refused"
READ = "ledger.entries_read"

_log = logging.getLogger("chatsnapshot.server")
_ONCE_SECONDS = 60.0
_LOOK_SECONDS = 2.0
_PATH_CHARS_MAX = 300
_READS_KEPT = 10_000
_ACTS_AT_ONCE = 500


class Audit:
    """Writes these facts. Everything about it is bounded: no one can fill a ledger by asking or by guessing.

    What is done with the file of keys, by whatever process, is found there and stated in each ledger that the service was
    started with and the key is for; each act has an event id of its own, so it is stated once however often it is found.
    """

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._gate = service.gate if isinstance(service.gate, KeyGate) else None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watching: asyncio.Task[Any] | None = None
        self._refused: dict[str, tuple[float, int]] = {}
        self._reads: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._stated: set[tuple[str, str, str]] = set()

    async def start(self) -> None:
        """State what was done while the service was not there, and watch from now on."""
        if self._gate is None:
            return
        self._gate.refused = self._on_refused
        await self._state_acts()
        self._watching = self._later(self._watch())

    async def stop(self) -> None:
        """End watching; what is being stated is stored."""
        if self._watching is not None:
            self._watching.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- reads ---

    async def read(self, name: str, ledger: Ledger, access: Access, path: str) -> None:
        """State that a key reads, before it does, where the settings want that; raises when it cannot be stated.

        The same key on the same path is stated once a minute. So what follows the ledger sees such an entry, reads
        on, and does not make another one by that, without end.
        """
        if access.key is None or not self._service.settings.audit_reads:
            return
        seen, now = (name, access.key, path), self._clock()
        last = self._reads.get(seen)
        if last is not None and now - last < _ONCE_SECONDS:
            return
        await self._state(ledger, READ, {"key_id": access.key, "path": path[:_PATH_CHARS_MAX]})
        self._reads.pop(seen, None)
        self._reads[seen] = now
        while len(self._reads) > _READS_KEPT:
            self._reads.popitem(last=False)

    # --- wrong keys ---

    def _on_refused(self, refusal: Refusal) -> None:
        _log.warning("%d wrong keys came from %s", refusal.tries, refusal.address)
        try:
            name = self._service.name_of(refusal.ledger)
        except Exception:
            return  # no ledger in particular
        ledger = self._service.ledgers.get(name)
        if ledger is None:
            return
        now = self._clock()
        last, left_out = self._refused.get(name, (-_ONCE_SECONDS, 0))
        if now - last < _ONCE_SECONDS:
            self._refused[name] = last, left_out + refusal.tries
            return
        self._refused[name] = now, 0
        payload = {"tries": refusal.tries + left_out, "network": network_of(refusal.address)}
        self._later(self._quietly(ledger, REFUSED, payload))

    # --- what is done with keys ---

    async def _watch(self) -> None:
        assert self._gate is not None
        known: object = None
        while True:
            try:
                found = self._gate.keys.version()
                if found != known:
                    await self._state_acts()
                    known = found
            except LedgerError as error:
                _log.error("keys cannot be watched: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _state_acts(self) -> None:
        """State what is not stated yet, many at once: what waits together is one commit."""
        assert self._gate is not None
        acts = []
        for key in await asyncio.to_thread(self._gate.keys.list):
            for name in self._service.settings.ledgers:
                if key.ledgers is None or name in key.ledgers:
                    acts.append((name, key, CREATED, key.created_at, key.created_by))
                    if key.revoked_at is not None:
                        acts.append((name, key, REVOKED, key.revoked_at, key.revoked_by or ""))
        acts = [act for act in acts if (act[0], act[1].id, act[2]) not in self._stated]
        for start in range(0, len(acts), _ACTS_AT_ONCE):
            await asyncio.gather(*(self._state_act(*act) for act in acts[start : start + _ACTS_AT_ONCE]))

    async def _state_act(self, name: str, key: Key, act: str, at: str, by: str) -> None:
        ledger = self._service.ledgers[name]
        payload: dict[str, object] = {"key_id": key.id}
        if key.name:
            payload["name"] = key.name
        if by:
            payload["by"] = by
        if act == CREATED:
            payload["scopes"] = list(key.scopes)
            if key.expires_at is not None:
                payload["expires_at"] = key.expires_at
        mark = foreign_uuid(act, f"{ledger.ledger_id}/{key.id}")
        if await self._quietly(ledger, act, payload, nanoseconds(at), mark):
            self._stated.add((name, key.id, act))

    # --- stating ---

    async def _quietly(
        self,
        ledger: Ledger,
        event_type: str,
        payload: dict[str, object],
        at: int | None = None,
        mark: bytes | None = None,
    ) -> bool:
        """Whether it was stated; the log says so where it was not."""
        try:
            await self._state(ledger, event_type, payload, at, mark)
        except LedgerError as error:
            _log.error("%s cannot be recorded: %s", event_type, error)
            return False
        return True

    async def _state(
        self,
        ledger: Ledger,
        event_type: str,
        payload: dict[str, object],
        at: int | None = None,
        mark: bytes | None = None,
    ) -> None:
        ledger._check_writable()
        opening = ledger._opening
        clock = opening.clock if at is None else lambda: at
        draft = ledger_draft(event_type, payload, opening.entropy, clock, mark)
        outcome = await ledger._recorder.acommit(Group([draft]))
        if isinstance(outcome, LedgerError):
            raise outcome

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def nanoseconds(text: str) -> int:
    """A time of a key as its ledger's clock would give it."""
    return (parse_time(text) - parse_time(time_text(0))) // timedelta(microseconds=1) * 1_000
