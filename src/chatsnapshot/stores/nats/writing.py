"""Commits on NATS: one atomic batch that says which head it follows, decided again when others were faster.

After a lost answer nothing is guessed: the writer reads on and looks for its ids. Found, they are acknowledged; when the
head has moved on without them, they can no longer land; while it has not, they are offered again, and only one of the
offers can land, because each says which head it follows.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import apsw

from chatsnapshot.clock import Clock, Entropy, uuid_text
from chatsnapshot.errors import CommitUncertain, LedgerError, LimitExceeded, StoreUnavailable
from chatsnapshot.jsonvalue import Blob, blob_digests
from chatsnapshot.stores.base import Group, Head, Outcome, Row
from chatsnapshot.stores.clockwatch import ClockWatch
from chatsnapshot.stores.draft import LEDGER_CORRELATION
from chatsnapshot.stores.imports import check_rows, named_positions, row_header
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.answers import ApiError, Away, Denied, Unanswered, Unsent, mapped
from chatsnapshot.stores.nats.blobs import Blobs
from chatsnapshot.stores.nats.connection import Connection
from chatsnapshot.stores.nats.follow import Follower
from chatsnapshot.stores.nats.index import NAMES, Added
from chatsnapshot.stores.nats.messages import Facts, root_text, subject_token, write_message
from chatsnapshot.stores.nats.sealing import KeyPlace, inline, parts_of, seal
from chatsnapshot.stores.nats.vault import Vault
from chatsnapshot.stores.planning import Plan, known_ids, plan
from chatsnapshot.stores.sqlite_read import rows_by_id

__all__ = ["BATCH_EVENTS_MAX", "Writing"]

BATCH_EVENTS_MAX = 1_000
"""Messages that NATS takes in one atomic batch."""

_FRAME_BYTES = 1024
"""Room for facts and headers of a message."""
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.25
_SEQUENCES_KEPT = 100_000
_ADD_SECONDS = 0.02
"""So long the index may wait for what is in the stream, unless somebody looks into it."""
_ADD_ROWS = 256

Sealed = dict[bytes, tuple[KeyPlace, bytes]]
"""By event id: where the key is, and the sealed payload as the index keeps it."""


class Writing:
    """Writes one ledger; one call at a time, on the loop of the store."""

    def __init__(
        self,
        connection: Connection,
        address: Address,
        follower: Follower,
        vault: Vault,
        blobs: Blobs,
        clock: Clock,
        entropy: Entropy,
        inline_bytes: int,
        mend: Callable[[Exception], None],
    ) -> None:
        self._connection = connection
        self._address = address
        self._follower = follower
        self._vault = vault
        self._blobs = blobs
        self._watch = ClockWatch(clock, entropy)
        self._inline_bytes = inline_bytes
        self._mend = mend

    async def store(self, groups: Sequence[Group], deadline: float) -> list[Outcome]:
        """Commit groups together, trying until ``deadline`` (of ``time.monotonic``); see ``Store.append``."""
        attempt = _Attempt(deadline)
        note: Group | None = None
        noting = True
        while True:
            await self._look(attempt)
            try:
                made, stamped = await self._decide(groups, note, noting)
            except (Unsent, Unanswered) as error:
                await self._wait(attempt, error)
                continue
            except (ApiError, Denied) as error:
                raise self._verdict(attempt, error) from None
            if len(made.rows) > BATCH_EVENTS_MAX:
                if noting and len(stamped) > len(groups) and len(made.rows) == BATCH_EVENTS_MAX + 1:
                    noting = False  # the fact about the clock goes with a later commit
                    continue
                self._follower.sequences.clear()
                raise _too_many(len(made.rows))
            if len(stamped) > len(groups):
                note = stamped[-1]
            settled = all(isinstance(outcome, list) for outcome in made.outcomes)
            if (not made.rows or not settled) and not attempt.fresh:
                self._follower.sequences.clear()
                attempt.look = True
                continue
            if not made.rows:
                if attempt.doubt:
                    self._watch.committed()
                return made.outcomes[: len(groups)]
            headers = [draft.head + made.recorded_at.encode() + draft.tail for draft in made.drafts]
            blobs = [blob for draft in made.drafts for blob in draft.blobs]
            if await self._offer(made, headers, blobs, attempt):
                if noting:
                    self._watch.committed()
                return made.outcomes[: len(groups)]
            if attempt.doubt:
                for group in [*groups, *([note] if note else [])]:
                    for draft in group.drafts:
                        draft.fresh = False  # from now on its id may be known

    async def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes], deadline: float) -> None:
        """Take whole entries as they are, in commits of at most 1,000."""
        attempt = _Attempt(deadline)
        attempt.look = True
        first, done = rows[0][0], 0
        while done < len(rows):
            await self._look(attempt)
            part = rows[done : done + BATCH_EVENTS_MAX]
            with self._follower.index.looking() as db:
                head = self._follower.head(db)
                if (
                    attempt.doubt
                    and head.size >= part[-1][0]
                    and part[0][3] in rows_by_id(db, NAMES, [part[0][3]])
                ):
                    done += len(part)
                    continue
                if head.size != first - 1 + done:
                    raise StoreUnavailable(
                        f"the next position of {self._address.url} is {head.size + 1}, not {first + done}; import from "
                        "the head on"
                    )
                check_rows(
                    part,
                    head.recorded_at,
                    lambda correlation, db=db: self._follower.index.writer.last_sequence(db, correlation),  # type: ignore[misc]
                    lambda ids, db=db: rows_by_id(db, NAMES, ids),  # type: ignore[misc]
                )
                tree = self._follower.tree.copy()
                tiles = tree.extend([row[12] for row in part])
            made = Plan(list(part), tiles, tree, part[-1][2], [], [])
            named = [Blob(digest, data, "") for digest, data in blobs.items()] if not done else []
            if await self._offer(made, [row_header(row) for row in part], named, attempt):
                done += len(part)
                attempt = _Attempt(time.monotonic() + self._address.timeout)

    # --- one attempt ---

    async def _look(self, attempt: _Attempt) -> None:
        """Wait for the connection, and read on when that is due."""
        while True:
            try:
                await self._connection.ready(attempt.left)
                if attempt.look:
                    await self._follower.follow()
                    attempt.look, attempt.fresh = False, True
                return
            except (Unsent, Unanswered) as error:
                await self._wait(attempt, error)
            except (ApiError, Denied) as error:
                raise self._verdict(attempt, error) from None

    async def _decide(
        self, groups: Sequence[Group], note: Group | None, noting: bool
    ) -> tuple[Plan, Sequence[Group]]:
        follower, index = self._follower, self._follower.index
        while True:
            # Right after a commit of this process the index would only say what is known here.
            head = index.late_head
            if head is None:
                with index.looking() as db:
                    head = follower.head(db)
            recorded_at, stamped = self._stamped(head, groups, note, noting)
            ids = known_ids(stamped)
            if not ids:
                return self._planned(stamped, recorded_at, {}), stamped
            with index.looking() as db:
                if follower.head(db).size != head.size:
                    continue
                rows = list(rows_by_id(db, NAMES, ids).values())
            known = {row[3]: row for row in await follower.opener.opened(rows)} if rows else {}
            with index.looking() as db:
                if follower.head(db).size == head.size:
                    return self._planned(stamped, recorded_at, known), stamped

    def _stamped(
        self, head: Head, groups: Sequence[Group], note: Group | None, noting: bool
    ) -> tuple[str, Sequence[Group]]:
        recorded_at, stamped = self._watch.stamp(head.recorded_at, groups)
        if not noting:
            return recorded_at, groups
        return recorded_at, stamped if note is None else [*groups, note]

    def _planned(self, groups: Sequence[Group], recorded_at: str, known: Mapping[bytes, Row]) -> Plan:
        follower = self._follower
        if len(follower.sequences) > _SEQUENCES_KEPT:
            follower.sequences.clear()
        return plan(groups, follower.tree, recorded_at, known, self._last_sequence, follower.sequences)

    def _last_sequence(self, correlation: str) -> int:
        index = self._follower.index
        with index.looking() as db:
            return index.writer.last_sequence(db, correlation)

    async def _offer(
        self, made: Plan, headers: Sequence[bytes], blobs: Sequence[Blob], attempt: _Attempt
    ) -> bool:
        """Offer a commit to the stream; false when it must be decided anew. Raises what is definite, or uncertain."""
        try:
            await self._blobs.ensure(blobs)
            await self._seal(made.rows, attempt.sealed)
        except (Unsent, Unanswered) as error:
            self._follower.sequences.clear()
            await self._wait(attempt, error)
            return False
        except (ApiError, Denied) as error:
            self._follower.sequences.clear()
            raise self._verdict(attempt, error) from None
        size = self._size(made, headers, attempt.sealed)
        facts: list[Facts] = []
        messages = self._messages(made, headers, attempt.sealed, facts)
        condition = ("Nats-Expected-Last-Sequence", str(made.rows[0][0] - 1))
        try:
            await self._connection.store(messages, condition, len(made.rows), size)
        except (Unsent, Unanswered) as error:
            self._follower.sequences.clear()
            attempt.doubt = attempt.doubt or isinstance(error, Unanswered)
            await self._wait(attempt, error)
            return False
        except (ApiError, Denied) as error:
            self._follower.sequences.clear()
            if isinstance(error, ApiError) and (error.stale or error.passing):
                attempt.doubt = attempt.doubt or error.passing
                await self._wait(attempt, error, pause=attempt.lost > 0)
                return False
            raise self._verdict(attempt, error) from None
        self._keep(made, facts, attempt.sealed)
        await self._afterwards(made, blobs)
        return True

    async def _wait(self, attempt: _Attempt, error: Exception, pause: bool = True) -> None:
        """Before the next attempt; raises when the time is over."""
        attempt.look, attempt.fresh = True, False
        if attempt.left <= 0 or isinstance(error, Away):
            raise self._verdict(attempt, error) from None
        if pause:
            # Not all at the same moment: of several writers one would win again and again.
            most = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS * 2 ** min(attempt.lost, 6))
            await asyncio.sleep(most * random.random())
        attempt.lost += 1

    def _verdict(self, attempt: _Attempt, error: Exception) -> LedgerError:
        if attempt.doubt:
            return CommitUncertain(
                f"{self._address.url} did not answer a commit ({error}), and could not be asked about it for "
                f"{self._address.timeout:g} s, so it is open whether these events are stored; retry with "
                "record_many(error.events)"
            )
        return mapped(error, self._address.url)

    async def _seal(self, rows: Sequence[Row], sealed: Sealed) -> None:
        """Seal what is not sealed yet; keys and parts are durable when it returns."""
        waiting = [row for row in rows if row[9] is not None and row[3] not in sealed]
        if not waiting:
            return
        for row, (place, key) in zip(waiting, await self._vault.take(len(waiting)), strict=True):
            assert row[9] is not None and row[13] is not None
            pieces = seal(key, row[13], row[9], row[3], self._inline_bytes)
            if len(pieces) > 1:
                await self._vault.store_parts(place.text(), pieces)
            sealed[row[3]] = place, inline(pieces)

    def _size(self, made: Plan, headers: Sequence[bytes], sealed: Sealed) -> int:
        """Bytes of a commit; raises :class:`LimitExceeded` for an entry that does not fit into one message."""
        room, total = self._connection.max_payload - _FRAME_BYTES, 0
        for row, header in zip(made.rows, headers, strict=True):
            kept = sealed[row[3]][1] if row[3] in sealed else b""
            size = len(header) + len(kept)
            if row[7] == LEDGER_CORRELATION:
                size += len(str(named_positions(row)))
            if size > room:
                raise LimitExceeded(
                    "max_payload of the NATS server",
                    self._connection.max_payload,
                    size,
                    "use shorter attributes or erase fewer positions at once, or raise it in the server's configuration",
                )
            total += size
        return total

    def _messages(
        self, made: Plan, headers: Sequence[bytes], sealed: Sealed, told: list[Facts]
    ) -> Iterator[tuple[str, bytes]]:
        """Subject and bytes of each message, made when it is asked for; their facts are added to ``told``."""
        first, last = made.rows[0][0], made.rows[-1][0]
        subjects = f"{self._address.subjects}.ev."
        for row, header in zip(made.rows, headers, strict=True):
            place, kept = sealed.get(row[3], (None, None))
            payload = row[9]
            facts = Facts(
                row[0],
                row[1],
                first,
                last,
                key=None if place is None else place.text(),
                parts=0 if kept is None else parts_of(kept),
                blobs=payload is not None and b"$blob" in payload and bool(blob_digests(payload)),
                erases=tuple(named_positions(row)) if row[7] == LEDGER_CORRELATION else (),
                root=root_text(made.tree.root()) if row[0] == last else None,
            )
            told.append(facts)
            yield (
                f"{subjects}{subject_token(row[7])}.{uuid_text(row[3])}",
                write_message(facts, header, kept),
            )

    def _keep(self, made: Plan, facts: Sequence[Facts], sealed: Sealed) -> None:
        """Tell the index of a commit that is durable; the caller does not wait for it."""
        follower, index = self._follower, self._follower.index
        if follower.tree.size != made.rows[0][0] - 1:
            return  # the index was made again meanwhile, and reads this from the stream
        rows: list[Row] = []
        for row in made.rows:
            place, kept = sealed.get(row[3], (None, None))
            packed = None if place is None else place.packed()
            rows.append((*row[:9], kept, *row[10:13], packed, *row[14:]))
        uses = [
            (row[0], blob_digests(row[9]))
            for one, row in zip(facts, made.rows, strict=True)
            if one.blobs and row[9] is not None
        ]
        erases = [position for one in facts for position in one.erases]
        begun = index.late_head is not None
        index.add_later(Added(made._replace(rows=rows, drafts=[], outcomes=[]), uses, erases))
        follower.tree = made.tree
        full = index.late_rows >= _ADD_ROWS
        if full or not begun:
            asyncio.get_running_loop().call_later(0 if full else _ADD_SECONDS, self._add_late)

    def _add_late(self) -> None:
        index = self._follower.index
        try:
            index.add_late()
        except (apsw.Error, OSError) as error:
            self._mend(error)  # what was committed is acknowledged: the index reads it from the stream

    async def _afterwards(self, made: Plan, blobs: Sequence[Blob]) -> None:
        """Blobs that somebody removed in the moment of the commit are stored anew; who waits elsewhere is told."""
        try:
            await self._blobs.ensure(blobs)
        except (Unsent, Unanswered, ApiError, Denied):
            pass  # they were durable before; only an erasure at the same moment could have taken them
        self._connection.hint(f"{self._address.subjects}.head", str(made.rows[-1][0]).encode())


class _Attempt:
    """How far one call has come."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.look = False
        """Read on before deciding."""
        self.fresh = False
        """The last decision was made on the head as it was during this call."""
        self.doubt = False
        """An answer was lost: events may be there."""
        self.lost = 0
        self.sealed: Sealed = {}

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._deadline - time.monotonic()


def _too_many(found: int) -> LimitExceeded:
    return LimitExceeded(
        "batch_events_max",
        BATCH_EVENTS_MAX,
        found,
        "NATS takes no more messages in one atomic batch, so record smaller batches",
    )
