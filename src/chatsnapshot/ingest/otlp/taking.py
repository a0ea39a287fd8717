"""Takes the spans or log records of one request into a ledger: in the order of their times, each refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chatsnapshot.clock import time_text, uuid_text
from chatsnapshot.errors import EventConflict, InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.ingest.otlp.drafts import check_draft
from chatsnapshot.ingest.otlp.event import Event
from chatsnapshot.ingest.otlp.making import Made, made_of
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ledger import Ledger
from chatsnapshot.pending import rows_of
from chatsnapshot.stores.base import Draft, Group, Row
from chatsnapshot.stores.planning import differences

__all__ = ["Taking"]

GROUP_EVENTS = 800
"""Events of a request that are committed together; every store takes as many."""


class Taking:
    """One request: :meth:`read` in a thread, then :meth:`commit`. ``refused`` counts spans or records, ``reason`` is the
    first one's.
    """

    def __init__(self, ledger: Ledger, memory: Memory) -> None:
        self._ledger = ledger
        self._memory = memory
        self._drafts: list[Draft] = []
        self._owners: list[int] = []
        self._told: set[bytes] = set()
        self._again: dict[bytes, list[tuple[Draft, int]]] = {}
        """The same messages as other spans of the request tell them: for when the first of them is refused."""
        self._away: set[int] = set()
        self.refused = 0
        self.reason = ""
        self.events = 0

    def refuse(self, reason: str) -> None:
        """Count one that is not taken."""
        self.refused += 1
        self.reason = self.reason or reason

    def read(
        self,
        records: Iterable[Any],
        events_of: Callable[[Any, Memory], list[Event]],
        redact: object,
    ) -> None:
        """Make drafts of all records; raises what going through them raises."""
        intake = self._ledger._intake
        self.take(made_of(records, events_of, self._memory, intake, time_text(intake.clock()), redact))

    def take(self, made: Made) -> None:
        """Take drafts that were made: each message once, and nothing that the ledger's schemas refuse."""
        self.refused += made.refused
        self.reason = self.reason or made.reason
        self._told.update(made.told)
        for place in range(len(made.drafts)) if made.unfit is None else made.unfit:
            try:
                check_draft(made.drafts[place], self._ledger)
            except InvalidEvent as error:
                self._refuse_span(made.owners[place], str(error))
        seen: set[bytes] = set()
        for draft, number in zip(made.drafts, made.owners, strict=True):
            if number in self._away:
                continue
            key = draft.columns[0]
            if key in self._told:
                if key in seen:
                    self._again.setdefault(key, []).append((draft, number))
                    continue
                seen.add(key)
            self._drafts.append(draft)
            self._owners.append(number)

    async def commit(self) -> None:
        """Store what was read; durable when it returns. Raises what keeps the store from taking anything."""
        start = 0
        drafts, owners = self._drafts, self._owners
        while start < len(drafts):
            end = min(start + GROUP_EVENTS, len(drafts))
            await self._group(drafts[start:end], owners[start:end])
            start = end

    async def _group(self, drafts: list[Draft], owners: list[int]) -> None:
        while drafts:
            outcome = await self._ledger._recorder.acommit(Group(drafts))
            if isinstance(outcome, EventConflict):
                drafts, owners = self._without_conflicts(outcome, drafts, owners)
            elif isinstance(outcome, (InvalidEvent, LimitExceeded)) and len(drafts) > 1:
                await self._apart(drafts, owners)
                return
            elif isinstance(outcome, (InvalidEvent, LimitExceeded)):
                self._refuse_span(owners[0], str(outcome))
                return
            else:
                self._stored(drafts, len(rows_of(outcome)))
                return

    def _stored(self, drafts: list[Draft], count: int) -> None:
        self.events += count
        for draft in drafts:
            if draft.columns[0] in self._told:
                self._memory.tell(draft.columns[0])

    async def _apart(self, drafts: list[Draft], owners: list[int]) -> None:
        """Each span by itself, where the store takes not all of them."""
        lost: list[tuple[Draft, int]] = []
        for owner in dict.fromkeys(owners):
            own = [draft for draft, of in zip(drafts, owners, strict=True) if of == owner]
            outcome = await self._ledger._recorder.acommit(Group(own))
            if isinstance(outcome, (InvalidEvent, LimitExceeded, EventConflict)):
                self._refuse_span(owner, str(outcome))
                lost += filter(None, [self._told_again(draft.columns[0]) for draft in own])
            else:
                self._stored(own, len(rows_of(outcome)))
        if lost:
            await self._group([draft for draft, _ in lost], [owner for _, owner in lost])

    def _without_conflicts(
        self, error: LedgerError, drafts: list[Draft], owners: list[int]
    ) -> tuple[list[Draft], list[int]]:
        """What is left without the spans that stand otherwise in the ledger already, or earlier in this request.

        A message that is known in another form is no conflict: it was told before.
        """
        known = self._ledger._store.get([draft.columns[0] for draft in drafts])
        earlier: dict[bytes, Row] = {}
        dropped: set[int] = set()
        refused: dict[int, str] = {}
        for index, draft in enumerate(drafts):
            key = draft.columns[0]
            row = known.get(key) or earlier.get(key)
            if row is None:
                earlier[key] = (
                    0,
                    0,
                    "",
                    *draft.columns,
                    b"",
                    draft.salt,
                    draft.commitment,
                    draft.payload_bytes,
                )
            elif fields := differences(draft, row):
                dropped.add(index)
                if key in self._told:
                    self._memory.tell(key)
                else:
                    refused.setdefault(
                        owners[index], str(EventConflict(uuid_text(key), fields, row[0] or None))
                    )
        if not dropped:
            raise error
        for owner, reason in refused.items():
            self._refuse_span(owner, reason)
        kept: list[tuple[Draft, int]] = []
        for index, (draft, owner) in enumerate(zip(drafts, owners, strict=True)):
            if index in dropped:
                continue
            if owner not in self._away:
                kept.append((draft, owner))
            elif (again := self._told_again(draft.columns[0])) is not None:
                kept.append(again)
        return [draft for draft, _ in kept], [owner for _, owner in kept]

    def _told_again(self, key: bytes) -> tuple[Draft, int] | None:
        """The same message as a span tells it that is not refused."""
        others = self._again.get(key, [])
        while others:
            found = others.pop(0)
            if found[1] not in self._away:
                return found
        return None

    def _refuse_span(self, owner: int, reason: str) -> None:
        if owner not in self._away:
            self._away.add(owner)
            self.refuse(reason)
