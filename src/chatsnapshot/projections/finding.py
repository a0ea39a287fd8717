"""Finding what a person named: a run by its id or correlation, an event by its id."""

from __future__ import annotations

import difflib
import uuid
from typing import TYPE_CHECKING

from chatsnapshot.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.projections.shapes import Run

__all__ = ["correlation_of", "every_run", "find_event", "find_run", "is_event_id"]


def every_run(runs: list[Run] | tuple[Run, ...]) -> Iterator[Run]:
    """The runs and all runs below them, parents first."""
    for run in runs:
        yield run
        yield from every_run(run.children)


def correlation_of(ledger: Ledger, name: str) -> str:
    """The correlation that ``name`` names: itself, or that of the run with this id.

    Raises :class:`NotFound`, which names runs with similar names, else the last ones.
    """
    if 1 <= len(name) <= 256 and next(iter(ledger.read(correlation_id=name, limit=1)), None) is not None:
        return name
    from chatsnapshot.projections.views import list_runs

    runs = list_runs(ledger)
    for run in every_run(runs):
        if run.run_id == name:
            return run.correlation_id
    if not runs:
        raise NotFound(f"no run {name!r}: nothing is recorded in this ledger yet")
    names = dict.fromkeys(known for run in every_run(runs) for known in (run.run_id, run.correlation_id))
    near = difflib.get_close_matches(name, names, n=3) if len(name) <= 256 else []
    if near:
        raise NotFound(f"no run {name!r}; did you mean {' or '.join(near)}? (see 'chatsnapshot runs')")
    last = ", ".join(run.run_id for run in runs[-3:])
    raise NotFound(f"no run {name!r}; the last runs are {last} (see 'chatsnapshot runs')")


def find_run(runs: tuple[Run, ...], name: str, correlation_id: str) -> Run | None:
    """The run of that id, else the last one of that correlation."""
    found = None
    for run in every_run(runs):
        if run.run_id == name and run.correlation_id == correlation_id:
            return run
        if run.correlation_id == correlation_id:
            found = run
    return found


def find_event(ledger: Ledger, name: str) -> LedgerEntry | None:
    """The entry with this event id, or ``None``."""
    if not is_event_id(name):
        return None
    try:
        return ledger.get(str(uuid.UUID(name)))
    except NotFound:
        return None


def is_event_id(name: str) -> bool:
    """Whether a name can be the id of an event."""
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True
