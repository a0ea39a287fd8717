"""The shapes that readers of a comparison get: steps that are added, missing or changed, and the first of them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Change", "Diff", "Field", "StateChange", "Step"]


class Step(msgspec.Struct, frozen=True):
    """One entry as it is compared: ``what`` in words, and where it stands."""

    position: int
    correlation_id: str
    depth: int
    event_type: str
    what: str


class Field(msgspec.Struct, frozen=True):
    """One thing that differs between two steps: its path, and its JSON value on each side (``None``: not there)."""

    path: str
    before: Any
    after: Any


class Change(msgspec.Struct, frozen=True):
    """One difference. ``kind``: ``missing`` (only in the first), ``added`` (only in the second) or ``changed``.

    ``fields`` are what differs between the two steps of ``changed``, at most 20.
    """

    kind: str
    before: Step | None
    after: Step | None
    fields: tuple[Field, ...] = ()


class StateChange(msgspec.Struct, frozen=True):
    """A subject whose state differs: its state on each side, ``None`` where it is not there."""

    kind: str
    id: str
    before: str | None
    after: str | None


class Diff(msgspec.Struct, frozen=True):
    """Two runs, or one run at two positions, step by step; ids, times and durations are not compared.

    ``same`` counts the steps that agree, ``same_until`` those before the first difference, which is ``divergence``.
    ``states`` is filled for one run at two positions.
    """

    before_correlation_id: str
    after_correlation_id: str
    before_until: int | str | None
    after_until: int | str | None
    before_steps: int
    after_steps: int
    same: int
    same_until: int
    divergence: Change | None
    changes: tuple[Change, ...]
    missing: int
    added: int
    changed: int
    states: tuple[StateChange, ...] = ()
