"""Transactions: tried again while that helps, for a bounded time, and never left open about what is known.

Source: MongoDB's driver specifications "Transactions" and "Convenient API for Transactions".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from chatsnapshot.errors import CommitUncertain, LedgerError
from chatsnapshot.stores.mongodb.connecting import Client
from chatsnapshot.stores.mongodb.driver import (
    ClientSession,
    ReadConcern,
    WriteConcern,
    pymongo,
)
from chatsnapshot.stores.mongodb.errors import MAPPED, is_transient, is_unknown, scrubbed

__all__ = ["RETRY_SECONDS", "Again", "Attempt", "transact"]

R = TypeVar("R")

RETRY_SECONDS = 30.0
"""A transaction that conflicts with others is tried again for so long."""

NETWORK_RETRY_SECONDS = 10.0
"""One that loses its connection is not begun again, and its commit not sent again, after so long."""

_CLEAN_SECONDS = 2.0
"""To end a transaction in order is a courtesy: the server does it by itself."""

_PAUSE_SECONDS_MAX = 0.02
"""Short: the head is free for a moment only while others write without a pause."""

_READ = ReadConcern("snapshot")
_WRITE = WriteConcern("majority", j=True, wtimeout=10_000)
_COMMIT_MS_MAX = 10_000


class Again(Exception):
    """Raised by the work of a transaction that must begin anew, from what others have committed."""


class Attempt:
    """One try of a transaction: ``number`` from 0; ``doubtful`` when an earlier try may have been committed."""

    def __init__(self, session: ClientSession, number: int, doubtful: bool) -> None:
        self.session = session
        self.number = number
        self.doubtful = doubtful


def transact(
    client: Client,
    work: Callable[[Attempt], R],
    url: str,
    target: str,
    mapped: Callable[[Exception], LedgerError],
) -> R:
    """Do ``work`` in a transaction and commit it; gives what the work gave.

    Raises :class:`CommitUncertain` when the commit may have been applied and cannot be settled within
    :data:`RETRY_SECONDS`, and what ``mapped`` makes of an error when nothing was stored.
    """
    begun = time.monotonic()
    number, doubtful = 0, False
    try:
        with client.start_session() as session:
            while True:
                try:
                    session.start_transaction(_READ, _WRITE, pymongo.ReadPreference.PRIMARY, _COMMIT_MS_MAX)
                    result = work(Attempt(session, number, doubtful))
                except pymongo.errors.PyMongoError as error:
                    _abort(session)
                    if _is_final(error) or _is_over(error, begun):
                        raise
                except Again:
                    _abort(session)
                    number += 1
                    continue
                else:
                    try:
                        _commit(session, begun)
                        return result
                    except pymongo.errors.PyMongoError as error:
                        if not is_transient(error):
                            raise _uncertain(error, url, target) from error
                        # The server knows no such transaction: conflict, or one that it has forgotten with a restart.
                        doubtful = True
                        if _is_over(error, begun):
                            raise _uncertain(error, url, target) from error
                number += 1
                time.sleep(random.uniform(0, min(_PAUSE_SECONDS_MAX, 0.001 * 2 ** min(number, 10))))
    except MAPPED as error:
        if doubtful:
            raise _uncertain(error, url, target) from error
        raise mapped(error) from error


def _is_final(error: pymongo.errors.PyMongoError) -> bool:
    """Whether another try is of no use; the search for a server has waited long enough by itself."""
    return not is_transient(error) or isinstance(error, pymongo.errors.ServerSelectionTimeoutError)


def _is_over(error: Exception, begun: float) -> bool:
    lost = isinstance(error, pymongo.errors.ConnectionFailure)
    return time.monotonic() - begun > (NETWORK_RETRY_SECONDS if lost else RETRY_SECONDS)


def _commit(session: ClientSession, begun: float) -> None:
    """Commit, sent again while its result is unknown and there is time."""
    number = 0
    while True:
        try:
            session.commit_transaction()
            return
        except pymongo.errors.PyMongoError as error:
            if not is_unknown(error) or _is_over(error, begun):
                raise
        number += 1
        time.sleep(random.uniform(0, min(_PAUSE_SECONDS_MAX * 20, 0.01 * 2 ** min(number, 10))))


def _abort(session: ClientSession) -> None:
    if session.in_transaction:
        try:
            with pymongo.timeout(_CLEAN_SECONDS):
                session.abort_transaction()
        except pymongo.errors.PyMongoError:
            pass  # the server ends it by itself


def _uncertain(error: Exception, url: str, target: str) -> CommitUncertain:
    text = scrubbed(str(error), target)
    return CommitUncertain(
        f"the commit to {url} was sent and no answer came ({type(error).__name__}: {text}), so it is "
        "open whether these events are stored; retry with record_many(error.events)"
    )
