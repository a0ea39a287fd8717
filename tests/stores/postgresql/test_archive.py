"""Old payloads can be taken away and brought back; meanwhile nobody mistakes them for erased ones."""

from __future__ import annotations

from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.clock import uuid_bytes
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import make_draft

FIRST = "chatsnapshot.payload_1_1"
DETACH = f"ALTER TABLE chatsnapshot.payload DETACH PARTITION {FIRST}"
ATTACH = f"ALTER TABLE chatsnapshot.payload ATTACH PARTITION {FIRST} FOR VALUES FROM (1, 1) TO (1, 11)"


@pytest.fixture
def small(database: str, tools: Any) -> Any:
    """A ledger whose partitions have 10 positions, with 25 events."""
    chatsnapshot.open(database).close()
    tools.run(database, "UPDATE chatsnapshot.ledger SET payload_positions = 10")
    with chatsnapshot.open(database) as made:
        for number in range(5):
            made.record(**tools.event(number))
        made.record_many([tools.event(number) for number in range(5, 25)])
        yield made


def _partitions(database: str, tools: Any) -> list[str]:
    found = tools.run(
        database, "SELECT relid::regclass::text FROM pg_partition_tree('chatsnapshot.payload') WHERE isleaf"
    )
    return sorted(name for (name,) in found)


def test_partitions_are_made_as_positions_grow(small: Ledger, database: str, tools: Any) -> None:
    assert _partitions(database, tools) == [f"chatsnapshot.payload_1_{first}" for first in (1, 11, 21)]
    assert small.verify().ok
    other = tools.with_option(database, ledger="other")
    with chatsnapshot.open(other) as beside:
        beside.record(**tools.event())
    assert "chatsnapshot.payload_2_1" in _partitions(database, tools)


def test_an_archived_payload_is_reported_and_not_taken_for_an_erased_one(
    small: Ledger, database: str, tools: Any
) -> None:
    first = next(iter(small.read()))
    tools.run(database, DETACH)
    for ask in (
        lambda: list(small.read()),
        lambda: small.get(first.event_id),
        lambda: list(small.read(correlation_id="run-1")),
        lambda: small.verify(),
        lambda: small.erase(3, reason="asked to"),
        lambda: small.record(**tools.event(0, event_id=first.event_id)),
    ):
        with pytest.raises(
            StoreUnavailable, match=r"payload of position \d+.* archived; attach its partition"
        ):
            ask()
    assert small.head == 25
    assert [entry.position for entry in small.read(after=10)] == list(range(11, 26))
    assert small.record(**tools.event(26)).position == 26


def test_a_known_archived_id_does_not_take_others_with_it(small: Ledger, database: str, tools: Any) -> None:
    first = next(iter(small.read()))
    tools.run(database, DETACH)
    store: Any = small._store
    drafts = [_draft(small, tools.event(0, event_id=first.event_id)), _draft(small, tools.event(1))]
    refused, stored = store.append([Group([draft]) for draft in drafts])
    assert isinstance(refused, StoreUnavailable)
    assert [row[0] for row in stored] == [26]


def _draft(ledger: Ledger, given: dict[str, Any]) -> Any:
    """The draft of an event that was recorded in a memory ledger."""
    with chatsnapshot.open("memory:") as memory:
        row = memory.record(**given)._identity()
    columns = (
        uuid_bytes(given["event_id"]) if "event_id" in given else row[3], row[4], row[5], row[6], row[7], row[8], row[9],
        row[10], row[11],
    )  # fmt: skip
    return make_draft(columns, b"s" * 16, False, ("timestamp", "source"), ())


def test_what_was_archived_comes_back_whole(small: Ledger, database: str, tools: Any) -> None:
    before = list(small.read())
    tools.run(database, DETACH)
    tools.run(database, f"ALTER TABLE {FIRST} RENAME TO payload_away")
    tools.run(database, f"CREATE TABLE {FIRST} (LIKE chatsnapshot.payload INCLUDING ALL)")
    tools.run(database, f"INSERT INTO {FIRST} SELECT * FROM chatsnapshot.payload_away")
    tools.run(database, ATTACH)
    assert list(small.read()) == before
    assert small.verify().ok
    small.erase(3, reason="asked to")
    assert small.verify().ok


def test_what_was_changed_in_the_archive_is_found(small: Ledger, database: str, tools: Any) -> None:
    tools.run(database, DETACH)
    tools.run(database, f"UPDATE {FIRST} SET payload = convert_to('{{}}', 'UTF8') WHERE position = 3")
    tools.run(database, ATTACH)
    assert next(problem.position for problem in small.verify().problems) == 3
