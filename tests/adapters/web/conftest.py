"""A ledger, and ways to look at what was recorded in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import StoreUnavailable


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger in memory."""
    with chatsnapshot.open("memory:") as made:
        yield made


@pytest.fixture
def told() -> Callable[..., list[Any]]:
    """``told(ledger)``: its entries; ``told(ledger, "integration.call")``: those of one type."""

    def entries(ledger: Ledger, event_type: str | None = None) -> list[Any]:
        return [one for one in ledger.read() if event_type in (None, one.event_type)]

    return entries


class Broken:
    """A ledger whose store takes nothing, and whose scopes work."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def record_many(self, events: Any) -> Any:
        self.asked += 1
        raise StoreUnavailable("the store is away")

    async def arecord_many(self, events: Any) -> Any:
        self.asked += 1
        raise StoreUnavailable("the store is away")


@pytest.fixture
def broken(ledger: Ledger) -> Any:
    """A ledger that takes nothing."""
    return Broken(ledger)
