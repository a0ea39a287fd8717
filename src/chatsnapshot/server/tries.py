"""Counts wrong tries by the address that they come from, in bounded memory."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Tries", "network_of", "source_of"]


class Tries:
    """Wrong tries of the last while. ``allowed`` are answered as such, the next ones are sent away until it is over."""

    def __init__(
        self,
        allowed: int = 5,
        seconds: float = 60.0,
        sources_max: int = 4_096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.allowed = allowed
        self._seconds = seconds
        self._sources_max = sources_max
        self._clock = clock
        self._found: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def wrong(self, source: str) -> tuple[int, float]:
        """Count one more; gives how many there were in this while, and the seconds until it is over."""
        now = self._clock()
        began, count = self._found.pop(source, (now, 0))
        if now - began >= self._seconds:
            began, count = now, 0
        self._found[source] = began, count + 1
        while len(self._found) > self._sources_max:
            self._found.popitem(last=False)  # who tried longest ago
        return count + 1, self._seconds - (now - began)


def source_of(address: str) -> str:
    """What counts as one source: an IPv4 address, or the /64 of an IPv6 address, which one machine has to itself."""
    return _network(address, 32, 64)


def network_of(address: str) -> str:
    """Where an address is, as it may be kept in a ledger for good: a /24 or /48, not a machine."""
    return _network(address, 24, 48)


def _network(address: str, bits4: int, bits6: int) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None:
        found = mapped
    bits = bits4 if found.version == 4 else bits6
    return str(ipaddress.ip_network(f"{found}/{bits}", strict=False))
