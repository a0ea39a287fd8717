"""The commits of one MongoDB ledger: each planned from the head and written with it in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.integrity import TILE_HASHES, Tree
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import CORRELATION_ID, SEQUENCE, Checkpoint, Draft, Group, Head, Outcome, Row
from chatsnapshot.stores.clockwatch import ClockWatch
from chatsnapshot.stores.imports import check_rows, named_positions
from chatsnapshot.stores.mongodb import parts, reading, states
from chatsnapshot.stores.mongodb.connecting import Client, Collections
from chatsnapshot.stores.mongodb.driver import ClientSession
from chatsnapshot.stores.mongodb.errors import MAPPED
from chatsnapshot.stores.mongodb.transactions import Again, Attempt, transact
from chatsnapshot.stores.mongodb.writing import erase_payloads, move_head, write_plan
from chatsnapshot.stores.planning import Plan, known_ids, plan

__all__ = ["Committer"]

R = TypeVar("R")

_SEQUENCES_KEPT = 100_000


class Committer:
    """Plans and commits, one at a time in this process; holds what is known of head, tree and sequences.

    Writers of all processes collide on the head document, and whoever loses plans anew from what the other has
    committed. What is known here of the head is tried first, which spares reading it while nobody else writes.
    """

    def __init__(
        self,
        ledger: str,
        url: str,
        target: str,
        connected: Callable[[], tuple[Client, Collections]],
        mapped: Callable[[Exception], LedgerError],
        *,
        read_tile: Callable[[int, int], bytes],
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
    ) -> None:
        self._ledger = ledger
        self._url = url
        self._target = target
        self._connected = connected
        self._mapped = mapped
        self._read_tile = read_tile
        self._limits = limits
        self._watch = ClockWatch(clock, entropy)
        self._mutex = threading.Lock()
        self._planned: Plan | None = None
        self._tree = Tree()
        self._head: Head | None = None
        self._alone = False
        self._sequences: dict[str, int] = {}
        self.top = 0
        """A size that the ledger is known to have reached."""

    def after_fork(self) -> None:
        """In a forked child: the lock may be held by a thread that is not there."""
        self._mutex = threading.Lock()
        self._head = None

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        return self._write(lambda on, attempt: self._append(on, attempt, groups)[0][: len(groups)])

    def _append(
        self, on: Collections, attempt: Attempt, groups: Sequence[Group]
    ) -> tuple[list[Outcome], Plan]:
        head = self._current(on, attempt)
        session = attempt.session
        recorded_at, stamped = self._watch.stamp(head.recorded_at, groups)
        if attempt.doubtful:
            stamped = [_not_fresh(group) for group in stamped]
        known = reading.rows_by_id(on, self._ledger, known_ids(stamped), session)
        sequences = self._sequences_of(on, stamped, session)
        made = plan(stamped, self._tree, recorded_at, known, sequences.__getitem__, sequences)
        if made.rows:
            move_head(on, self._ledger, head, made, session)
            users = {
                row[0]: [blob.digest for blob in draft.blobs]
                for row, draft in zip(made.rows, made.drafts, strict=True)
                if draft.blobs
            }
            blobs = {blob.digest: blob.data for draft in made.drafts for blob in draft.blobs}
            write_plan(on, self._ledger, self._limits, made, users, blobs, session)
            self._planned = made
        return made.outcomes, made

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record and remove the payloads in one transaction."""

        def work(on: Collections, attempt: Attempt) -> Row:
            outcomes, _ = self._append(on, attempt, [Group([record])])
            outcome = outcomes[0]
            if not isinstance(outcome, list):
                raise outcome
            erase_payloads(on, self._ledger, positions, attempt.session)
            return outcome[0]

        row = self._write(work)
        self._sweep()
        return row

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        if rows:
            self._write(lambda on, attempt: self._import(on, attempt, rows, blobs))

    def _import(
        self, on: Collections, attempt: Attempt, rows: Sequence[Row], blobs: Mapping[bytes, bytes]
    ) -> None:
        head = self._current(on, attempt)
        session = attempt.session
        if attempt.doubtful and head.size >= rows[-1][0]:
            found = reading.rows_by_id(on, self._ledger, [row[3] for row in rows], session)
            if all(found.get(row[3]) == row for row in rows):
                return  # the commit that no answer came to
        if rows[0][0] != head.size + 1:
            if attempt.number == 0:
                raise Again  # what is known here may be old
            raise StoreUnavailable(
                f"the next position of {self._url} is {head.size + 1}, not {rows[0][0]}; import from the head on"
            )
        correlations = list(dict.fromkeys(row[7] for row in rows))
        sequences = reading.last_sequences(on, self._ledger, correlations, session)
        users = check_rows(
            rows,
            head.recorded_at,
            sequences.__getitem__,
            lambda ids: reading.rows_by_id(on, self._ledger, ids, session),
        )
        tree = self._tree.copy()
        tiles = tree.extend([row[12] for row in rows])
        made = Plan(list(rows), tiles, tree, rows[-1][2], [], [])
        move_head(on, self._ledger, head, made, session)
        write_plan(on, self._ledger, self._limits, made, users, blobs, session)
        erased = [position for row in rows for position in named_positions(row)]
        if erased:
            erase_payloads(on, self._ledger, erased, session)
        self._planned = made

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states_of: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""

        def work(on: Collections, attempt: Attempt) -> bool:
            session = attempt.session
            if attempt.doubtful and states.checkpoint(on, self._ledger, name, version, session) == after:
                return True
            return states.save_states(on, self._ledger, name, version, before, after, states_of, session)

        return self._write(work)

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        self._write(lambda on, attempt: states.drop_states(on, self._ledger, name, version, attempt.session))

    def _write(self, work: Callable[[Collections, Attempt], R]) -> R:
        """Do work in a transaction; blobs that are too large for it are stored ahead of it."""
        with self._mutex:
            while True:
                client, on = self._connected()
                self._planned = None

                def begin(attempt: Attempt, on: Collections = on) -> R:
                    self._planned = None
                    if attempt.number:
                        self._head = None
                    return work(on, attempt)

                try:
                    result = transact(client, begin, self._url, self._target, self._mapped)
                except parts.Unplaced as unplaced:
                    self._head = None
                    self._put_ahead(on, unplaced.blobs)
                    continue
                except BaseException:
                    self._head = None
                    raise
                self._committed()
                return result

    def _put_ahead(self, on: Collections, blobs: Mapping[bytes, bytes]) -> None:
        try:
            parts.put_ahead(on, self._ledger, blobs, self._limits.blob_part_bytes)
        except MAPPED as error:
            raise self._mapped(error) from error

    def _committed(self) -> None:
        made = self._planned
        if made is None:
            return
        # Ctrl-C may come between any two of these: without a head, tree and sequences are compared and completed.
        self._head = None
        if len(self._sequences) > _SEQUENCES_KEPT:
            self._sequences.clear()
        self._sequences.update((row[CORRELATION_ID], row[SEQUENCE]) for row in made.rows)
        self._tree = made.tree
        self._head = Head(*made.tree.head(), made.recorded_at)
        self.top = max(self.top, self._head.size)
        self._watch.committed()

    def _current(self, on: Collections, attempt: Attempt) -> Head:
        """The head to plan from: the one known here while nobody else writes, else the one in the database, held.

        Changing the head document keeps every other writer out from here to the end of the transaction.
        """
        if self._head is not None and self._alone and attempt.number == 0:
            return self._head
        found = on.head.find_one_and_update(
            {"_id": self._ledger}, {"$inc": {"holds": 1}}, session=attempt.session
        )
        head = reading.head_of(found, self._url)
        size, frontier = self._tree.head()
        self._alone = (size, frontier) == (head.size, head.frontier)
        if not self._alone:
            self._follow(on, head, attempt.session)
        self._head = head
        return head

    def _follow(self, on: Collections, head: Head, session: ClientSession) -> None:
        """Bring tree and sequences to a head: with what others have appended, or from stored leaves and tiles."""
        tree = self._tree
        if 0 < tree.size < head.size and head.size - tree.size <= TILE_HASHES:
            grown = tree.copy()
            added = self._steps(on, tree.size, head.size, session)
            grown.extend([leaf for leaf, _, _ in added])
            if grown.head() == (head.size, head.frontier):
                self._sequences.update((correlation, sequence) for _, correlation, sequence in added)
                self._tree = grown
                return
        self._sequences.clear()
        first = head.size - head.size % TILE_HASHES
        leaves = [leaf for leaf, _, _ in self._steps(on, first, head.size, session)]
        self._tree = Tree.restore(head.size, head.frontier, leaves, self._read_tile)

    def _steps(
        self, on: Collections, after: int, until: int, session: ClientSession
    ) -> list[tuple[bytes, str, int]]:
        """Leaf, correlation and sequence of each entry."""
        if after == until:
            return []
        wanted = {"ledger": self._ledger, "position": {"$gt": after, "$lte": until}}
        fields = {"leaf": 1, "correlation_id": 1, "sequence": 1}
        found = on.entry.find(
            wanted, fields, sort=[("position", 1)], batch_size=TILE_HASHES + 1, session=session
        )
        return [(bytes(one["leaf"]), str(one["correlation_id"]), int(one["sequence"])) for one in found]

    def _sequences_of(
        self, on: Collections, groups: Sequence[Group], session: ClientSession
    ) -> dict[str, int]:
        """The last sequence of every correlation that the groups name."""
        named = dict.fromkeys(draft.columns[4] for group in groups for draft in group.drafts)
        unknown = [correlation for correlation in named if correlation not in self._sequences]
        if unknown:
            self._sequences.update(reading.last_sequences(on, self._ledger, unknown, session))
        return {correlation: self._sequences[correlation] for correlation in named}

    def _sweep(self) -> None:
        """Remove blobs that were stored ahead of an append that never came; another time if not now."""
        try:
            for digest in parts.stale_blobs(self._connected()[1], self._ledger):
                self._write(
                    lambda on, attempt, digest=digest: parts.erase_blobs(  # type: ignore[misc]
                        on, self._ledger, [digest], attempt.session
                    )
                )
        except (LedgerError, *MAPPED):
            pass


def _not_fresh(group: Group) -> Group:
    """The group with ids that may be known: an earlier try may have stored them."""
    return Group(
        [msgspec.structs.replace(draft, fresh=False) for draft in group.drafts], group.expected_sequence
    )
