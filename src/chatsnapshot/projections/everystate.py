"""The states of one correlation and its children, or of all: out of what is stored where that is, else folded."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import NotFound
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.gathering import family_states
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.replaying import store_of
from chatsnapshot.projections.stored import Stored, bring_up
from chatsnapshot.reading import position_until

__all__ = ["states_of"]

_KEYS_AT_ONCE = 500


def states_of(
    ledger: Any, projection: Projection[Any], correlation_id: str | None, until: Any, children: bool = True
) -> dict[str, Any]:
    """The states by correlation, each to be read only.

    Of all correlations without ``correlation_id``; raises :class:`~chatsnapshot.errors.NotFound` for one without a state.
    """
    if correlation_id is None:
        return _every_state(ledger, projection, until)
    if store_of(ledger) is None:
        states = _folded(
            projection, newest(ledger, ledger.replay(correlation_id, until=until, children=children))
        )
    else:
        states = family_states(ledger, projection, correlation_id, until, children)
    if correlation_id not in states:
        when = "" if until is None else f" up to {until}"
        raise NotFound(
            f"no events under correlation {correlation_id!r}{when}; `chatsnapshot runs` lists what there is"
        )
    return states


def _every_state(ledger: Any, projection: Projection[Any], until: Any) -> dict[str, Any]:
    if store_of(ledger) is not None:
        bring_up(ledger, [projection], whole=True)
        position = position_until(ledger._store, until, ledger.head)
        stored = Stored(ledger, projection, position)
        # What was the case long ago is cheaper folded in one pass than key by key.
        if stored.usable and stored.position <= position:
            stored.fold_new()
            keys = dict.fromkeys([*_stored_keys(stored), *stored.new_keys()])
            states = ((key, stored.state(key)) for key in keys)
            return {key: state for key, state in states if state is not None}
    return _folded(projection, newest(ledger, ledger.read(until=until)))


def _stored_keys(stored: Stored) -> list[str]:
    assert stored.slot is not None
    found: list[str] = []
    while True:
        page = stored.slot.page(found[-1] if found else "", _KEYS_AT_ONCE, reverse=False)
        found += page
        if len(page) < _KEYS_AT_ONCE:
            return found


def _folded(projection: Projection[Any], entries: Any) -> dict[str, Any]:
    states: dict[str, Any] = {}
    for entry in entries:
        key = projection.key(entry)
        if key is not None:
            state = states[key] if key in states else projection.initial()
            states[key] = projection.apply(state, entry)
    return states
