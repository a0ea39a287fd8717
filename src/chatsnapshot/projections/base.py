"""What a projection is: a pure, versioned fold over entries, found by name."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import NotFound

__all__ = [
    "ENTRY_POINTS",
    "Presented",
    "Projection",
    "copy_state",
    "fold",
    "get",
    "load_entry_points",
    "names",
]
__all__ += ["register"]

_log = logging.getLogger("chatsnapshot.projections")

State = TypeVar("State", bound=msgspec.Struct)
Folded = TypeVar("Folded", bound=msgspec.Struct, contravariant=True)


class Projection(Protocol[State]):
    """A pure fold over entries in position order, one state for each key.

    ``name`` and ``version`` identify the state: a change of its shape or of the rule needs a new version. A state is a
    msgspec struct of JSON-like fields, so that it can be stored and read back.
    """

    name: str
    version: int

    def key(self, entry: LedgerEntry) -> str | None:
        """The key whose state this entry changes, or ``None`` when the projection passes it over."""
        ...

    def initial(self) -> State:
        """The state before any entry."""
        ...

    def apply(self, state: State, entry: LedgerEntry) -> State:
        """The state after ``entry``; depends on nothing but its two arguments and never raises because of a payload.

        It takes over ``state``: it may change it in place and return it. Who needs the old one copies it first with
        :func:`copy_state`.
        """
        ...


@runtime_checkable
class Presented(Protocol[Folded]):
    """A projection whose readers get something else than its bare state."""

    def result(self, state: Folded) -> Any:
        """The view that a reader gets of this state: a frozen msgspec struct; ``state`` is left as it is."""
        ...


def fold(projection: Projection[State], entries: Iterable[LedgerEntry], state: State | None = None) -> State:
    """Fold ``entries`` (in position order, all of one key) into ``state``, or into the initial state."""
    current = projection.initial() if state is None else state
    for entry in entries:
        current = projection.apply(current, entry)
    return current


def copy_state(state: State) -> State:
    """A copy that shares nothing with ``state``, made the way a store would make it: to JSON and back."""
    return msgspec.json.decode(msgspec.json.encode(state), type=type(state))


_REGISTRY: dict[str, type[Projection[Any]]] = {}


def register(projection: type[Projection[Any]]) -> type[Projection[Any]]:
    """Make a projection class known by its ``name``; works as a class decorator.

    Raises ``ValueError`` when the name is taken by another class.
    """
    taken = _REGISTRY.setdefault(projection.name, projection)
    if taken is not projection:
        raise ValueError(f"projection {projection.name!r} is registered already, as {taken.__qualname__}")
    return projection


ENTRY_POINTS = "chatsnapshot.projections"
"""The entry-point group in which an installed package names its projection classes."""

_loaded: list[str] = []


def load_entry_points() -> None:
    """Register what installed packages offer, once a process; one that cannot be loaded is logged and left out."""
    if _loaded:
        return
    _loaded.append(ENTRY_POINTS)
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        try:
            register(point.load())
        except Exception as error:
            _log.warning("the projection %s = %s cannot be loaded: %s", point.name, point.value, error)


def names() -> list[str]:
    """The names of all registered projections, sorted."""
    return sorted(_REGISTRY)


def get(name: str) -> type[Projection[Any]]:
    """The projection class of that name; raises :class:`NotFound` with the nearest names."""
    found = _REGISTRY.get(name)
    if found is None:
        load_entry_points()
        found = _REGISTRY.get(name)
    if found is None:
        near = difflib.get_close_matches(name, _REGISTRY, n=3) or names()
        raise NotFound(f"no projection is called {name!r}; did you mean {' or '.join(near)}?")
    return found
