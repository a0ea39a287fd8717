"""Takes entries from one store to another, from where the target ends: the loop that copies and followers share."""

from __future__ import annotations

from collections.abc import Callable

from chatsnapshot.copying.batches import Batch, Batches
from chatsnapshot.copying.comparing import first_difference, root_at
from chatsnapshot.errors import CommitUncertain, LedgerError, StoreUnavailable
from chatsnapshot.integrity import decode_frontier, root_of_frontier
from chatsnapshot.standby import promotion
from chatsnapshot.stores.base import PAYLOAD, POSITION, Store
from chatsnapshot.stores.imports import named_positions

__all__ = ["Transfer"]

_EVENTS_MAX = 1_000
_UNCERTAIN_MAX = 3


class Transfer:
    """The state of one copy: ``position`` is the target's head, and all up to it is the source's history.

    Several may run to one target: each batch goes to the head or nowhere, and whoever comes too late looks anew.
    """

    def __init__(self, source: Store, target: Store, tell: Callable[[int, int], None] | None = None) -> None:
        self.source = source
        self.target = target
        self.position = 0
        self.entries = 0
        self.bytes = 0
        self.root = b""
        self._tell = tell
        self._batches = Batches(source, min(_EVENTS_MAX, target.traits.group_events_max))
        self._waiting: set[int] = set()

    def match(self) -> None:
        """Look where the target ends, and that it is the beginning of the source.

        Raises :class:`LedgerError` when it is not, or was promoted.
        """
        self._batches.forget()
        head = self.target.head()
        promoted = promotion(self.target)
        if promoted is not None:
            raise LedgerError(
                f"{self.target.url} was promoted at position {promoted[POSITION]:,} and has gone on by itself since; "
                "copy to a new place"
            )
        there = self.source.head().size
        if head.size > there:
            raise LedgerError(
                f"{self.target.url} ends at position {head.size:,} and {self.source.url} at {there:,}: it is another "
                "history, or the source was cut or put back from an older copy; copy to a new place"
            )
        self.root = root_of_frontier(decode_frontier(head.size, head.frontier))
        if head.size and root_at(self.source, head.size, there) != self.root:
            position = first_difference(self.source, self.target, head.size)
            raise LedgerError(
                f"{self.target.url} holds another history than {self.source.url}: they differ from position "
                f"{position:,} on; copy to a new place"
            )
        self.position = head.size

    def up_to(self, until: int) -> None:
        """Copy until the target ends at ``until`` or later. Raises what the two stores raise."""
        uncertain = 0
        while self.position < until:
            for batch in self._batches.between(self.position, until):
                try:
                    self.target.import_rows(batch.rows, batch.blobs)
                except StoreUnavailable:
                    if self.target.head().size == self.position:
                        raise
                    self.match()  # somebody else was faster
                    break
                except CommitUncertain:
                    uncertain += 1
                    if uncertain > _UNCERTAIN_MAX:
                        raise
                    self.match()
                    break
                self._taken(batch, until)

    def settled(self) -> bool:
        """Whether every payload that came erased has its record in the target too."""
        return not self._waiting

    def _taken(self, batch: Batch, until: int) -> None:
        self.position = batch.rows[-1][POSITION]
        self.entries += len(batch.rows)
        self.bytes += batch.bytes
        for row in batch.rows:
            if row[PAYLOAD] is None:
                self._waiting.add(row[POSITION])
            else:
                self._waiting.difference_update(named_positions(row))
        if self._tell is not None:
            self._tell(self.position, until)
