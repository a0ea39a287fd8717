"""Stores that fail, hang or slow down on command, around any store; for tests of what records through them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chatsnapshot.errors import CommitUncertain, LedgerError
from chatsnapshot.stores.base import (
    Checkpoint,
    Draft,
    Finding,
    Group,
    Head,
    Outcome,
    Page,
    Query,
    Row,
    Store,
    Traits,
)

__all__ = ["FaultyStore", "HangingStore", "PassingStore"]


class PassingStore:
    """A store that hands everything to the one inside; the base of wrappers that change one thing."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        """Where the ledger is."""
        return self.inner.url

    @property
    def traits(self) -> Traits:
        """What the store inside claims."""
        return self.inner.traits

    @property
    def ledger_id(self) -> str:
        """The id of the history."""
        return self.inner.ledger_id

    def head(self) -> Head:
        """See :class:`~chatsnapshot.stores.base.Store`, as for all that follow."""
        return self.inner.head()

    def watch(self, wake: Callable[[], None]) -> None:
        self.inner.watch(wake)

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        return self.inner.append(groups)

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        return self.inner.read(query, after=after, until=until, limit=limit, reverse=reverse, hint=hint)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        return self.inner.get(event_ids)

    def last_sequence(self, correlation_id: str) -> int:
        return self.inner.last_sequence(correlation_id)

    def children(self, correlation_id: str) -> list[str]:
        return self.inner.children(correlation_id)

    def tile(self, level: int, index: int) -> bytes | None:
        return self.inner.tile(level, index)

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        return self.inner.blob(digest)

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        return self.inner.blobs()

    def examine(self) -> Iterable[Finding]:
        return self.inner.examine()

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        self.inner.import_rows(rows, blobs)

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        return self.inner.erase(positions, record)

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        return self.inner.checkpoint(name, version)

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        return self.inner.load_state(name, version, key)

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        return self.inner.keys(name, version, prefix=prefix, after=after, limit=limit, reverse=reverse)

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        return self.inner.save_states(name, version, before, after, states)

    def drop_states(self, name: str, version: int) -> None:
        self.inner.drop_states(name, version)

    def after_fork(self) -> None:
        self.inner.after_fork()

    def close(self) -> None:
        self.inner.close()

    def __getattr__(self, name: str) -> Any:
        # What a store has beyond the contract, such as the path of its file.
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


class FaultyStore(PassingStore):
    """Fails appends as told, before or after the store inside has committed.

    ``fail(error)`` makes the next appends raise it with nothing stored: a definite failure.
    ``lose_answer()`` stores them and raises ``CommitUncertain`` all the same: the answer was lost.
    ``lose_commit()`` raises ``CommitUncertain`` and stores nothing. Each holds for ``times`` appends, or until
    :meth:`heal` when ``times`` is ``None``. ``appends`` counts the calls.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.appends = 0
        self._mutex = threading.Lock()
        self._error: Exception | None = None
        self._stores_first = False
        self._left: int | None = 0

    def fail(self, error: Exception, times: int | None = 1) -> None:
        """The next appends store nothing and raise ``error``."""
        self._plan(error, False, times)

    def lose_answer(self, times: int | None = 1) -> None:
        """The next appends are stored, and nobody gets to know."""
        self._plan(CommitUncertain("the answer of the store was lost; retry"), True, times)

    def lose_commit(self, times: int | None = 1) -> None:
        """The next appends are not stored, and nobody gets to know."""
        self._plan(CommitUncertain("the commit of the store failed; retry"), False, times)

    def heal(self) -> None:
        """Work again."""
        self._plan(None, False, 0)

    def _plan(self, error: Exception | None, stores_first: bool, times: int | None) -> None:
        with self._mutex:
            self._error, self._stores_first, self._left = error, stores_first, times

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Append, or fail as planned."""
        with self._mutex:
            self.appends += 1
            error, stores_first = self._error, self._stores_first
            if self._left is not None:
                if self._left <= 0:
                    error = None
                else:
                    self._left -= 1
        if error is None:
            return self.inner.append(groups)
        if stores_first:
            self.inner.append(groups)
        if isinstance(error, LedgerError):
            raise type(error)(*error.args)
        raise error


class HangingStore(PassingStore):
    """Holds every append while ``gate`` is not set; ``waiting`` is set while one is held."""

    SECONDS_MAX = 40.0
    """An append that is held longer goes on, so that a test that failed can end."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self.sizes: list[int] = []
        """Number of groups of each append that went through."""

    def hold(self) -> None:
        """From now on appends wait."""
        self.waiting.clear()
        self.gate.clear()

    def release(self) -> None:
        """Let them go on."""
        self.gate.set()

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Append once the gate is open."""
        if not self.gate.is_set():
            self.waiting.set()
            self.gate.wait(self.SECONDS_MAX)
        self.sizes.append(len(groups))
        return self.inner.append(groups)
