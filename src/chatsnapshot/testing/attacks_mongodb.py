"""Attempts to change a MongoDB ledger behind its back, as the user of the URL.

The role of ``docs/mongodb.md`` refuses all attacks here. Whoever appends must be able to set the head, so nothing guards
that one: ``verify`` finds entries beyond it, and the next append is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.stores.open import locate

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.testing.bench import Bench

__all__ = ["MONGODB_ATTACKS", "MONGODB_TAMPERINGS"]

Change = Callable[[Any, str], object]
"""Given the database and the name of the ledger."""


def _third(ledger: str) -> dict[str, Any]:
    return {"ledger": ledger, "position": 3}


def _set(**fields: Any) -> Change:
    return lambda database, ledger: database.cs_entry.update_one(_third(ledger), {"$set": fields})


def _replace(database: Any, ledger: str) -> None:
    found = database.cs_entry.find_one(_third(ledger))
    database.cs_entry.replace_one(_third(ledger), {**found, "event_type": "execution.forged"})


def _known_id(database: Any, ledger: str) -> None:
    found = database.cs_entry.find_one(_third(ledger))
    database.cs_entry.insert_one({**found, "position": 7, "correlation_id": "new", "sequence": 1})


def _known_position(database: Any, ledger: str) -> None:
    found = database.cs_entry.find_one(_third(ledger))
    database.cs_entry.insert_one({**found, "_id": f"{ledger}/other", "correlation_id": "new", "sequence": 1})


def _merge(database: Any, ledger: str) -> None:
    forged = {"$set": {"event_type": "execution.forged"}}
    goal = {"into": "cs_entry", "on": "_id", "whenMatched": "replace"}
    list(database.cs_entry.aggregate([{"$match": _third(ledger)}, forged, {"$merge": goal}]))


_CHANGES: dict[str, Change] = {
    "change a type": _set(event_type="execution.forged"),
    "change a correlation": _set(correlation_id="other"),
    "change a position": _set(position=99),
    "change a time": _set(recorded_at="2001-01-01T00:00:00.000000Z"),
    "change a leaf": _set(leaf=bytes(32)),
    "replace a payload": _set(payload=b"{}"),
    "erase a payload": lambda database, ledger: database.cs_entry.update_one(
        _third(ledger), {"$unset": {"payload": "", "salt": ""}}
    ),
    "replace an entry": _replace,
    "replace an entry by a pipeline": _merge,
    "find an entry and change it": lambda database, ledger: database.cs_entry.find_one_and_update(
        _third(ledger), {"$set": {"event_type": "execution.forged"}}
    ),
    "remove an entry": lambda database, ledger: database.cs_entry.delete_one(_third(ledger)),
    "remove the last entry": lambda database, ledger: database.cs_entry.delete_one(
        {"ledger": ledger, "position": 6}
    ),
    "remove all": lambda database, ledger: database.cs_entry.delete_many({"ledger": ledger}),
    "insert a known id": _known_id,
    "insert at a known position": _known_position,
    "drop the entries": lambda database, ledger: database.command("drop", "cs_entry"),
    "rename the entries": lambda database, ledger: database.cs_entry.rename("cs_other"),
    "drop an index": lambda database, ledger: database.cs_entry.drop_index("position"),
    "drop the database": lambda database, ledger: database.client.drop_database(database.name),
    "remove the tiles": lambda database, ledger: database.cs_tile.delete_many({"ledger": ledger}),
}


@contextmanager
def _connected(place: str) -> Iterator[tuple[Any, str]]:
    from chatsnapshot.stores.mongodb.connecting import DATABASE, connect

    location = locate(place)
    client = connect(location.target, location.url)
    try:
        yield client.get_default_database(DATABASE), location.ledger
    finally:
        client.close()


def _attempt(change: Change) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        with _connected(place) as (database, ledger):
            change(database, ledger)

    return attack


def _tamper(*changes: Change) -> Callable[[Bench, str, Ledger], Ledger]:
    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        ledger.close()
        with _connected(place) as (database, name):
            for change in changes:
                change(database, name)
        return bench.open(place)

    return tamper


def _move(position: int, to: int) -> Change:
    return lambda database, ledger: database.cs_entry.update_one(
        {"ledger": ledger, "position": position}, {"$set": {"position": to}}
    )


MONGODB_ATTACKS = {name: _attempt(change) for name, change in _CHANGES.items()}

MONGODB_TAMPERINGS = {
    "a type was changed": _tamper(_CHANGES["change a type"]),
    "a payload was changed": _tamper(_CHANGES["replace a payload"]),
    "a payload was removed": _tamper(_CHANGES["erase a payload"]),
    "a payload became text": _tamper(_set(payload="{}")),
    "a leaf was changed": _tamper(_CHANGES["change a leaf"]),
    "an entry was removed": _tamper(_CHANGES["remove an entry"]),
    "two entries changed places": _tamper(_move(3, 99), _move(4, 3), _move(99, 4)),
}
