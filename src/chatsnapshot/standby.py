"""Copies of a ledger: they take entries from it alone, until one is promoted to a ledger of its own."""

from __future__ import annotations

import os
import time

from chatsnapshot.clock import Clock, Entropy, foreign_uuid
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import EventConflict, LedgerError, ReadOnly
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.base import EVENT_TYPE, Group, Row, Store
from chatsnapshot.stores.draft import ledger_draft
from chatsnapshot.stores.identity import read_identity
from chatsnapshot.stores.open import locate, open_store

__all__ = ["PROMOTED", "Standing", "promote", "promote_store", "promotion"]

PROMOTED = "ledger.promoted"


class Standing:
    """Whether a ledger is a copy that waits to be promoted, and by which id it goes.

    A copy is told by what it was made with (``Store.ledger_id``), and it is promoted once its own history says so: both
    are kept with the entries, so neither can be lost or be out of step with them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._identity = read_identity(store.ledger_id)
        self._waits = self._identity.copy is not None and promotion(store) is None

    @property
    def waits(self) -> bool:
        """Whether it is a copy that was not promoted, as far as was looked."""
        return self._waits

    @property
    def ledger_id(self) -> str:
        """UUID text: of the history that a copy is of, and of its own from the promotion on."""
        if not self._identity.history:  # behind a spool it is known once the service has answered
            self._identity = read_identity(self._store.ledger_id)
        history, copy = self._identity
        return history if copy is None or self._waits else copy

    def check(self) -> None:
        """Raise :class:`ReadOnly` for a copy, unless somebody has promoted it since."""
        if not self._waits:
            return
        self._waits = promotion(self._store) is None
        if self._waits:
            raise ReadOnly(
                f"{self._store.url} is a copy of ledger {self._identity.history} and takes entries from it alone; when "
                f"it is to go on by itself, run chatsnapshot promote {self._store.url}"
            )


def promotion(store: Store) -> Row | None:
    """The record that this very ledger was promoted; ``None`` as long as it was not, and where nothing is to promote."""
    copy = read_identity(store.ledger_id).copy
    if copy is None:
        return None
    row = store.get([_record_id(copy)]).get(_record_id(copy))
    return row if row is not None and row[EVENT_TYPE] == PROMOTED else None


def _record_id(copy: str) -> bytes:
    """There is one promotion of a copy: its record has an id that follows from that of the copy."""
    return foreign_uuid(PROMOTED, copy)


def promote(
    target: str | os.PathLike[str] | None,
    *,
    reason: str | None = None,
    limits: Limits = DEFAULTS,
    clock: Clock = time.time_ns,
    entropy: Entropy = os.urandom,
) -> LedgerEntry:
    """Make a ledger of its own of a copy, so that it can be recorded in; gives the entry that says so.

    The record (``ledger.promoted``) is the next entry of the copy; from it on the ledger goes by an id of its own, and
    following ends. See to it first that nobody records in the ledger that it was copied from: two histories would go on
    from one. Promoting again changes nothing.

    Raises :class:`NotFound`, :class:`LedgerError` when it is no copy, :class:`StoreFull`, :class:`StoreUnavailable`.
    """
    store = open_store(
        locate(target), create=False, read_only=False, durability="full", clock=clock, entropy=entropy,
        limits=limits,
    )  # fmt: skip
    try:
        return promote_store(store, reason=reason, clock=clock, entropy=entropy)
    finally:
        store.close()


def promote_store(
    store: Store, *, reason: str | None = None, clock: Clock = time.time_ns, entropy: Entropy = os.urandom
) -> LedgerEntry:
    """As :func:`promote`, with a store that is open."""
    history, copy = read_identity(store.ledger_id)
    if copy is None:
        raise LedgerError(
            f"{store.url} was not made by chatsnapshot copy: it is a ledger of its own and can be recorded in as it is"
        )
    known = promotion(store)
    if known is not None:
        return LedgerEntry(*known)
    payload: dict[str, object] = {"ledger_id": copy, "copied_from": history}
    if reason is not None:
        payload["reason"] = reason
    draft = ledger_draft(PROMOTED, payload, entropy, clock, _record_id(copy))
    (outcome,) = store.append([Group([draft])])
    if isinstance(outcome, EventConflict):  # somebody else promoted it in this moment, for another reason
        known = promotion(store)
        if known is not None:
            return LedgerEntry(*known)
    if not isinstance(outcome, list):
        raise outcome
    return LedgerEntry(*outcome[0])
