"""The ``volume`` projection: how many events there are and how many bytes, by correlation and type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.base import register
from chatsnapshot.projections.everystate import states_of
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.replaying import erasures
from chatsnapshot.reading import position_until

__all__ = ["Amount", "Volume", "VolumeProjection", "VolumeState", "volume_of"]

_DRAWERS = 256


class Amount(msgspec.Struct, array_like=True, gc=False):
    """A number of events, the bytes of their payloads as they are stored, and how many of these were erased."""

    events: int = 0
    payload_bytes: int = 0
    erased: int = 0

    def add(self, more: Amount) -> None:
        """Take in another amount."""
        self.events += more.events
        self.payload_bytes += more.payload_bytes
        self.erased += more.erased


class VolumeState(msgspec.Struct, omit_defaults=True, gc=False):
    """The amounts of some correlations and of the types in them; erased payloads count as if they were there."""

    correlations: dict[str, Amount] = {}
    types: dict[str, Amount] = {}


class Volume(msgspec.Struct, frozen=True):
    """What is in a ledger up to ``position``; erased payloads have no bytes.

    Correlations and types are ordered by their bytes, the largest first, then by name.
    """

    position: int
    whole: Amount
    correlations: dict[str, Amount]
    types: dict[str, Amount]
    first_recorded_at: str | None
    last_recorded_at: str | None


@register
class VolumeProjection:
    """Key: one of 256 drawers, told by the correlation, so that a few states tell of the whole ledger."""

    name = "volume"
    version = 1

    def key(self, entry: LedgerEntry) -> str | None:
        """The drawer."""
        return f"{crc32(entry.correlation_id.encode('utf-8', 'surrogatepass')) % _DRAWERS:02x}"

    def initial(self) -> VolumeState:
        """Nothing in it."""
        return VolumeState()

    def apply(self, state: VolumeState, entry: LedgerEntry) -> VolumeState:
        """Count the entry."""
        for amounts, name in ((state.correlations, entry.correlation_id), (state.types, entry.event_type)):
            amount = amounts.get(name)
            if amount is None:
                amount = amounts[name] = Amount()
            amount.events += 1
            amount.payload_bytes += entry.payload_bytes
        return state

    def take_once(self, state: VolumeState, once: Once) -> VolumeState:
        """As :meth:`apply`; the payload itself is not looked at."""
        return self.apply(state, once.entry)

    def erased(self, entry: LedgerEntry) -> Iterable[str]:
        """Nothing of a payload is kept, and its size stays known."""
        return ()


def volume_of(ledger: Any, until: Any = None) -> Volume:
    """What is in a ledger, out of stored states and what is new; ``until``: a position or a recorded time."""
    position = position_until(ledger._store, until, ledger.head)
    whole, correlations, types = Amount(), dict[str, Amount](), dict[str, Amount]()
    for state in states_of(ledger, VolumeProjection(), None, position).values():
        _gather(correlations, state.correlations)
        _gather(types, state.types)
    for gone, of_type, size in _erased(ledger, position):
        for amount in (correlations[gone], types[of_type]):
            amount.payload_bytes -= size
            amount.erased += 1
    for amount in types.values():
        whole.add(amount)
    return Volume(
        position,
        whole,
        _ranked(correlations),
        _ranked(types),
        _recorded_at(ledger, 1, position),
        _recorded_at(ledger, position, position),
    )


def _gather(amounts: dict[str, Amount], more: dict[str, Amount]) -> None:
    for name, amount in more.items():
        found = amounts.get(name)
        if found is None:
            amounts[name] = Amount(amount.events, amount.payload_bytes, amount.erased)
        else:
            found.add(amount)


def _erased(ledger: Any, until: int) -> Iterable[tuple[str, str, int]]:
    """Correlation, type and size of each payload up to a position that is gone now."""
    positions = sorted({one for one in erasures(ledger, 0, ledger.head) if one <= until})
    for one in positions:
        for entry in ledger.read(after=one - 1, until=one):
            if entry.erased:
                yield entry.correlation_id, entry.event_type, entry.payload_bytes


def _recorded_at(ledger: Any, position: int, until: int) -> str | None:
    found = (
        next(iter(ledger.read(after=position - 1, until=position)), None) if 0 < position <= until else None
    )
    return None if found is None else str(found.recorded_at)


def _ranked(amounts: dict[str, Amount]) -> dict[str, Amount]:
    return dict(sorted(amounts.items(), key=lambda pair: (-pair[1].payload_bytes, pair[0])))
