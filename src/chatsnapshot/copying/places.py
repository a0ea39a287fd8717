"""The two ends of a copy: the source opened read-only, the target made as a copy or found as one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.standby import Standing
from chatsnapshot.stores.base import Store
from chatsnapshot.stores.identity import copy_identity
from chatsnapshot.stores.open import Location, locate, open_store

__all__ = ["Place", "both_ends"]

Place = str | os.PathLike[str] | Ledger | None
"""A path or URL (``None``: the ledger that ``open()`` opens), or a ledger that is open, such as one in memory."""


@contextmanager
def both_ends(source: Place, target: Place, limits: Limits) -> Iterator[tuple[Store, Store]]:
    """The stores of source and target, closed at the end unless a ledger was given.

    A target that is not there is made as a copy: with the id of the source's history and one of its own. Raises
    :class:`NotFound` when there is no source, :class:`LedgerError` when both are one ledger or the target cannot be made.
    """
    if isinstance(source, Ledger) and source is target:
        raise LedgerError("source and target are one ledger; name another target")
    places = [None if isinstance(place, Ledger) else locate(place) for place in (source, target)]
    if places[0] is not None and places[1] is not None:
        _refuse_one_place(places[0], places[1])
    with _opened(source, places[0], limits) as taken:
        if isinstance(target, Ledger):
            yield taken, target._store
            return
        made = places[1]
        assert made is not None
        made = made._replace(identity=copy_identity(Standing(taken).ledger_id))
        try:
            given = _open(made, limits, create=True)
        except NotFound as error:
            raise LedgerError(str(error)) from error
        try:
            # On servers two addresses may lead to one ledger; a file that is a backup of another has its id too.
            if not made.path and taken.ledger_id == given.ledger_id:
                raise LedgerError(f"{made.url} is the source itself; name another target")
            yield taken, given
        finally:
            given.close()


@contextmanager
def _opened(place: Place, location: Location | None, limits: Limits) -> Iterator[Store]:
    if isinstance(place, Ledger):
        yield place._store
        return
    assert location is not None
    if location.kind == "memory":
        raise LedgerError(
            "a memory: ledger lives in the process that made it; hand over the open ledger itself"
        )
    store = _open(location, limits, create=False)
    try:
        yield store
    finally:
        store.close()


def _open(location: Location, limits: Limits, *, create: bool) -> Store:
    return open_store(
        location, create=create, read_only=not create, durability="full", clock=time.time_ns,
        entropy=os.urandom, limits=limits,
    )  # fmt: skip


def _refuse_one_place(source: Location, target: Location) -> None:
    if source.kind != target.kind or source.ledger != target.ledger:
        return
    if source.path:
        here, there = os.path.realpath(source.path), os.path.realpath(target.path)
        same = here == there or (
            os.path.exists(here) and os.path.exists(there) and os.path.samefile(here, there)
        )
    else:
        same = source.target == target.target and source.options == target.options and source.kind != "memory"
    if same:
        raise LedgerError(f"{target.url} is the source itself; name another target")
