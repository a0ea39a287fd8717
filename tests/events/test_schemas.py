"""Every type of the catalogue has a schema that its example fits, and that refuses what nobody could read."""

from __future__ import annotations

import msgspec

from chatsnapshot.events import catalogue
from chatsnapshot.events.schemas import SCHEMAS


def test_every_type_of_the_catalogue_has_a_schema() -> None:
    assert list(SCHEMAS) == list(catalogue.TYPES)
    assert all(one.event_type == key and one.version == 1 for key, one in SCHEMAS.items())


def test_every_example_fits_its_schema() -> None:
    for one in SCHEMAS.values():
        msgspec.json.decode(msgspec.json.encode(one.example), type=one.payload)
