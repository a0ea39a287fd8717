"""Schemas: one typed payload for every type of the catalogue, with an example of each."""

from __future__ import annotations

from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.events.schemas import integration, ledger, models, runs, system, talk, tools, ui, work
from chatsnapshot.events.schemas.base import Schema

__all__ = ["SCHEMAS", "Schema"]

_MADE: dict[str, Schema] = {
    one.event_type: one
    for module in (runs, talk, tools, work, models, system, ui, integration, ledger)
    for one in module.SCHEMAS
}

SCHEMAS: dict[str, Schema] = {event_type: _MADE[event_type] for event_type in TYPES}
"""Event type to its schema, in the order of the catalogue."""
