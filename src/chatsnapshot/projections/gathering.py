"""The states that a view of one key needs, out of stored states and what is new: its own, and those of its children."""

from __future__ import annotations

from typing import Any

from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.replaying import correlated, store_of
from chatsnapshot.projections.stored import Stored, bring_up
from chatsnapshot.reading import position_until

__all__ = ["family_states", "state_of_key"]


def family_states(
    ledger: Any, projection: Projection[Any], correlation_id: str, until: Any, children: bool
) -> dict[str, Any]:
    """The states of a correlation and of its children, by where each begins; those without a state are left out.

    Raises :class:`~chatsnapshot.errors.NotFound` for a correlation without entries.
    """
    replay = ledger.replay(correlation_id, until=until, children=children)
    bring_up(ledger, [projection])
    stored = Stored(ledger, projection, _position(ledger, until))
    states = {key: stored.state(key) for key in replay.correlations}
    found = [(key, state) for key, state in states.items() if state is not None]
    if len(found) > 1:
        found.sort(key=lambda pair: projection.start(pair[1]).position)  # type: ignore[attr-defined]
    return dict(found)


def state_of_key(ledger: Any, projection: Projection[Any], key: str, until: Any) -> Any:
    """The state of any key; ``None`` when it has none. What is new is stored first, where the ledger allows that."""
    assert store_of(ledger) is not None
    bring_up(ledger, [projection], whole=not correlated(projection))
    return Stored(ledger, projection, _position(ledger, until)).state(key)


def _position(ledger: Any, until: Any) -> int:
    store = ledger._store
    return position_until(store, until, store.head().size)
