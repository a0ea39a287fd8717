"""``Schema``: what is known of one event type's payload: its fields, what it must hold, an example."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.events.catalogue import TYPES

__all__ = ["Example", "Schema", "schema"]

Example = dict[str, Any]


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of one event type's payload, in one version.

    ``payload`` is the struct that a payload is decoded against. Keys that it does not name are allowed, and so is null
    wherever a key may be left out. ``one_of``: of each group at least one key must be there and not null; the keys are
    written as in the JSON. A payload that is elsewhere or gone as a whole (``{"$blob": …}``, ``{"$withheld": …}``) has
    no fields to check.
    """

    event_type: str
    version: int = 1
    payload: type[msgspec.Struct]
    summary: str
    example: Example
    one_of: tuple[tuple[str, ...], ...] = ()


def schema(
    event_type: str, payload: type[msgspec.Struct], example: Example, *groups: tuple[str, ...]
) -> Schema:
    """The first version of a schema; its summary is the catalogue's."""
    return Schema(
        event_type=event_type, payload=payload, summary=TYPES[event_type], example=example, one_of=groups
    )
