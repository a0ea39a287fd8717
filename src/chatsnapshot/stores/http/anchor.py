"""Remembers how far a service's ledger was, and refuses a head that went back or does not begin with what was there."""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

import msgspec

from chatsnapshot.errors import Corrupt, NotFound, StoreUnavailable
from chatsnapshot.integrity import verify_consistency
from chatsnapshot.integrity.tree import decode_frontier, root_of_frontier
from chatsnapshot.stores.base import Head
from chatsnapshot.stores.http.asking import Asking
from chatsnapshot.stores.http.connection import Lost
from chatsnapshot.stores.http.errors import Unclear, error_of, kind_of, problem_of

__all__ = ["Anchor", "Seen"]

_log = logging.getLogger("chatsnapshot")

_PROVE_SECONDS = 1.0
"""A ledger that grows all the time is asked for proofs this often; each covers all heads before it that are kept."""


class Seen(NamedTuple):
    """A head that was seen: number of entries and root."""

    size: int
    root: bytes


class _Proof(msgspec.Struct):
    """What ``/v1/consistency`` answers, as far as it is needed."""

    hashes: list[str]


_NOTHING = Seen(0, b"")


class Anchor:
    """The heads of one ledger on one service that this process saw. Safe for threads and forks."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._proves = True
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._seen = getattr(self, "_seen", _NOTHING)
        self._proven = getattr(self, "_proven", _NOTHING)
        self._proven_at = 0.0

    def after_fork(self) -> None:
        """In a forked child: what was seen stays."""
        self._reset()

    def seen(self) -> Seen:
        """The furthest head so far: to be asked before a head is asked for, as answers may overtake each other."""
        return self._seen

    def check(self, before: Seen, head: Head) -> None:
        """Take a head that was asked for when ``before`` was the furthest.

        Raises :class:`Corrupt` when the ledger went back or is another, :class:`StoreUnavailable` without a proof.
        """
        now = _seen(head)
        if now.size < before.size:
            raise self._refused(before, f"it has {now.size:,} now")
        if now.size == before.size:
            if before.size and now.root != before.root:
                raise self._refused(before, "these are others now")
            return
        with self._lock:
            proven, seen, at = self._proven, self._seen, self._proven_at
        if not proven.size:
            self._keep(now, proven=True)
        elif now.size <= seen.size:
            pass  # another thread has seen more meanwhile
        elif self._proves and time.monotonic() - at >= _PROVE_SECONDS:
            for old in dict.fromkeys((proven, seen)):
                self._prove(old, now)
            self._keep(now, proven=True)
        else:
            self._keep(now, proven=False)

    def _keep(self, now: Seen, *, proven: bool) -> None:
        with self._lock:
            self._seen = max(self._seen, now, key=_size)
            if proven:
                self._proven = max(self._proven, now, key=_size)
                self._proven_at = time.monotonic()

    def _prove(self, old: Seen, now: Seen) -> None:
        """Have it proven that the ledger only grew."""
        if not self._proves:
            return
        asking = self._asking
        path = f"/consistency?from={old.size}&to={now.size}"
        try:
            answer = asking.call("GET", path, b"", asking.address.seconds)
        except Lost:
            try:
                answer = asking.call("GET", path, b"", asking.address.seconds)
            except Lost as error:
                raise StoreUnavailable(f"{asking.url} does not answer ({error}); try again") from None
        if answer.status != 200:
            problem = problem_of(answer)
            if kind_of(problem) == "no-path":
                self._proves = False
                _log.warning("%s gives no proofs that it only grows; upgrade the service", asking.url)
                return
            wrong = error_of(problem, asking.url)
            if isinstance(wrong, NotFound):
                raise self._refused(old, "it has fewer now")
            raise StoreUnavailable(str(wrong)) if isinstance(wrong, Unclear) else wrong
        try:
            hashes = [bytes.fromhex(one) for one in msgspec.json.decode(answer.body, type=_Proof).hashes]
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            hashes = []
        if not verify_consistency(old.size, old.root, now.size, now.root, hashes):
            raise self._refused(old, f"the {now.size:,} that it has now do not begin with them")

    def _refused(self, old: Seen, found: str) -> Corrupt:
        return Corrupt(
            f"the ledger at {self._asking.url} was rolled back or replaced: it had {old.size:,} entries with root "
            f"{old.root.hex()[:16]}…, and {found}; ask who runs the service, and open it again to accept what is there"
        )


def _seen(head: Head) -> Seen:
    return Seen(head.size, root_of_frontier(decode_frontier(head.size, head.frontier)))


def _size(seen: Seen) -> int:
    return seen.size
