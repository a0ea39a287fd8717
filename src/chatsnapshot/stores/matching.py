"""Says in Python whether a row matches a query, for the stores that have no query language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.envelope import source_of
from chatsnapshot.stores.base import (
    ATTRIBUTES,
    CAUSATION_ID,
    CORRELATION_ID,
    EVENT_TYPE,
    SOURCE,
    TIMESTAMP,
    Query,
    Row,
)

__all__ = ["matcher"]


def matcher(query: Query) -> Callable[[Row], bool]:
    """A predicate over rows; the same answer as the SQL of the other stores."""
    tests: list[Callable[[Row], bool]] = []
    if query.correlation_id is not None:
        correlation = query.correlation_id
        tests.append(lambda row: row[CORRELATION_ID] == correlation)
    if query.event_types is not None or query.type_prefixes is not None:
        types, prefixes = frozenset(query.event_types or ()), query.type_prefixes or ()
        tests.append(lambda row: row[EVENT_TYPE] in types or row[EVENT_TYPE].startswith(prefixes))
    for field in ("origin", "runtime", "name"):
        wanted = getattr(query, field)
        if wanted is not None:
            tests.append(_source_test(field, wanted))
    for key, value in query.attributes:
        tests.append(_attribute_test(key, value))
    if query.causation_id is not None:
        cause = query.causation_id
        tests.append(lambda row: row[CAUSATION_ID] == cause)
    if query.start is not None:
        start = query.start
        tests.append(lambda row: row[TIMESTAMP] >= start)
    if query.end is not None:
        end = query.end
        tests.append(lambda row: row[TIMESTAMP] < end)
    return lambda row: all(test(row) for test in tests)


def _source_test(field: str, wanted: str) -> Callable[[Row], bool]:
    return lambda row: getattr(source_of(row[SOURCE]), field) == wanted


def _attribute_test(key: str, wanted: str | bool | int) -> Callable[[Row], bool]:
    def test(row: Row) -> bool:
        text = row[ATTRIBUTES]
        if text is None:
            return False
        found: Any = msgspec.json.decode(text).get(key)
        if isinstance(found, list):
            return wanted in found
        return type(found) is type(wanted) and found == wanted

    return test
