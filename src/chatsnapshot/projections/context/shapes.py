"""The shapes of a context: records as they are cited, items, what was left out, and the whole."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Context", "ContextItem", "Elision", "Part", "Record", "Rendered"]


class Record(msgspec.Struct, frozen=True):
    """One thing that is cited: where it stands, what it is, and its text as far as it is given.

    ``what`` is a word of ours (``user``, ``tool_call``, ``answer`` …), ``name`` the tool's, ``by`` and ``to`` who spoke
    to whom; ``text`` is as recorded, with ``[…]`` where ``chars_left_out`` characters are missing. ``value`` holds the
    arguments of a tool call as JSON value.
    """

    position: int
    what: str
    text: str
    name: str | None = None
    by: str | None = None
    to: str | None = None
    facts: tuple[str, ...] = ()
    chars_left_out: int = 0
    value: Any = None


class ContextItem(msgspec.Struct, frozen=True):
    """What is given whole or not at all: a message, a tool call with its result, a question with its answer.

    ``position`` is where it stands, ``positions`` are all events that it is made of. ``why`` it was taken: ``cause``
    (it led to the event that the context is about, or is that event), ``sibling`` (of the same cause), ``recent`` or
    ``search``.
    """

    position: int
    positions: tuple[int, ...]
    correlation_id: str
    kind: str
    why: str
    records: tuple[Record, ...]

    @property
    def text(self) -> str:
        """The texts of its records, one after another."""
        return "\n".join(record.text for record in self.records)


class Elision(msgspec.Struct, frozen=True):
    """Items that were left out in one place: how many, and where the first and the last of them stand."""

    items: int
    first: int
    last: int


Part = ContextItem | Elision


class Rendered(msgspec.Struct, frozen=True):
    """Parts in one format: ``text`` is what is counted, ``messages`` what is handed on where a format gives messages."""

    text: str
    messages: list[Any]


class Context(msgspec.Struct, frozen=True):
    """The relevant past within a budget.

    ``text`` is what was counted: the text itself for ``markdown``, else the messages as compact JSON; ``tokens`` is
    ``counter(text)`` and never more than ``budget_tokens``. ``counter`` is the counter's name. ``elisions`` say where
    ``left_out`` items were left out; ``notes`` what else was not looked at.
    """

    format: str
    text: str
    messages: list[Any]
    items: tuple[ContextItem, ...]
    elisions: tuple[Elision, ...]
    tokens: int
    budget_tokens: int
    counter: str
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        """How many items were left out."""
        return sum(elision.items for elision in self.elisions)

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of all events that are cited, in order."""
        return tuple(sorted({position for item in self.items for position in item.positions}))
