"""Finds the start that belongs to an end: by id, else by cause, else by name; in whichever order they come."""

from __future__ import annotations

import msgspec

__all__ = ["Edge", "Pairs"]


Index = dict[str, int | list[int]]
"""Numbers of edges by a text; one alone as itself."""


class Edge(msgspec.Struct, array_like=True, gc=False):
    """One end of a span: the index of its item, what identifies it, the event that is it and the event that led to it."""

    index: int
    id: str | None
    name: str | None
    event: str
    cause: str | None


class _Side(msgspec.Struct, omit_defaults=True, gc=False):
    """Edges that wait for the other one."""

    held: dict[int, Edge] = {}
    by_id: Index = {}
    by_name: Index = {}
    by_event: Index = {}
    by_cause: Index = {}

    def add(self, edge: Edge) -> None:
        index = edge.index
        self.held[index] = edge
        _put(self.by_event, edge.event, index)
        if edge.id is not None:
            _put(self.by_id, edge.id, index)
        elif edge.name is not None:
            _put(self.by_name, edge.name, index)
        if edge.cause is not None:
            _put(self.by_cause, edge.cause, index)

    def take(self, number: int) -> Edge:
        edge = self.held.pop(number)
        _drop(self.by_event, edge.event, number)
        if edge.id is not None:
            _drop(self.by_id, edge.id, number)
        elif edge.name is not None:
            _drop(self.by_name, edge.name, number)
        if edge.cause is not None:
            _drop(self.by_cause, edge.cause, number)
        return edge


def _put(index: Index, key: str, number: int) -> None:
    numbers = index.get(key)
    if numbers is None:
        index[key] = number
    elif isinstance(numbers, int):
        index[key] = [numbers, number]
    else:
        numbers.append(number)


def _drop(index: Index, key: str, number: int) -> None:
    numbers = index[key]
    if isinstance(numbers, int):
        del index[key]
        return
    numbers.remove(number)
    if len(numbers) == 1:
        index[key] = numbers[0]


def _at(index: Index, key: str | None) -> list[int]:
    """The numbers under a key, in the order in which they came."""
    numbers = None if key is None else index.get(key)
    return [] if numbers is None else [numbers] if isinstance(numbers, int) else numbers


class Pairs(msgspec.Struct, gc=False):
    """Starts without an end yet, and ends whose start was not seen yet, of one kind of span."""

    open: _Side = msgspec.field(default_factory=_Side)
    waiting: _Side = msgspec.field(default_factory=_Side)

    def start(self, edge: Edge) -> tuple[Edge, str] | None:
        """Take in a start: the end that waits for it, with how it was found; or ``None`` and the start is open."""
        waiting = self.waiting
        found = None
        if edge.id is not None and edge.id in waiting.by_id:
            found = _at(waiting.by_id, edge.id)[-1], "id"
        elif edge.event in waiting.by_id:
            found = _at(waiting.by_id, edge.event)[-1], "id"
        elif edge.event in waiting.by_cause:
            fitting = [
                n for n in _at(waiting.by_cause, edge.event) if edge.id is None or waiting.held[n].id is None
            ]
            found = (fitting[0], "cause") if fitting else None
        if found is None:
            self.open.add(edge)
            return None
        return waiting.take(found[0]), found[1]

    def end(self, edge: Edge, *, lone: bool = False) -> tuple[Edge, str] | None:
        """Take in an end: the start that it ends, with how it was found; or ``None`` and the end waits.

        The id decides where both have one (an end may also name the start's event id); of several starts with one id
        the cause decides, else the last one.
        Without an id on one side the cause decides; without both the first open start of that name, or with ``lone``
        the only open start there is.
        """
        found = self._of_end(edge, lone)
        if found is None:
            self.waiting.add(edge)
            return None
        return self.open.take(found[0]), found[1]

    def _of_end(self, edge: Edge, lone: bool) -> tuple[int, str] | None:
        opened = self.open
        caused = _at(opened.by_event, edge.cause)
        if edge.id is not None and edge.id in opened.by_id:
            same = _at(opened.by_id, edge.id)
            both = [n for n in same if n in caused]
            return (both or same)[-1], "id"
        if edge.id is not None and edge.id in opened.by_event:
            return _at(opened.by_event, edge.id)[0], "id"
        fitting = [n for n in caused if edge.id is None or opened.held[n].id is None]
        if fitting:
            named = [n for n in fitting if opened.held[n].name == edge.name]
            return (named or fitting)[0], "cause"
        if edge.id is not None:
            return None
        if edge.name is not None and edge.name in opened.by_name:
            return _at(opened.by_name, edge.name)[0], "name"
        if lone and len(opened.held) == 1:
            return next(iter(opened.held)), "only"
        return None

    def forget_waiting(self) -> None:
        """Let ends whose start never came no longer match: what follows is another run, which may use ids again."""
        self.waiting = _Side()
