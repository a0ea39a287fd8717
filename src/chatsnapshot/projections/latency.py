"""How long things took: exact percentiles of few values, of many those of buckets with a stated error; mergeable."""

from __future__ import annotations

from bisect import insort

import msgspec

__all__ = ["ERROR_PER_VALUE", "EXACT_VALUES_MAX", "VALUE_NS_MAX", "Sketch", "believable", "saturated"]

EXACT_VALUES_MAX = 512
"""Up to so many values percentiles are exact; of more they are those of the buckets."""

ERROR_PER_VALUE = 1 / 256
"""A percentile of the buckets is off by at most this share of its value (0.4 %)."""

VALUE_NS_MAX = 366 * 86_400 * 1_000_000_000
"""A duration above a year and a day is not believed; it counts as unknown, as a negative one does."""

_LARGEST = 2**63 - 1


class Sketch(msgspec.Struct, omit_defaults=True, gc=False):
    """Durations in nanoseconds; the same ones in any order, and merged in any way, give equal sketches.

    ``values`` are all of them, sorted, while there are at most :data:`EXACT_VALUES_MAX`; then ``buckets`` holds how many
    fell into each. A bucket is one 128th of the range from a power of two to the next.
    """

    count: int = 0
    total_ns: int = 0
    largest_ns: int = 0
    values: list[int] = []
    buckets: dict[int, int] = {}

    @property
    def exact(self) -> bool:
        """Whether percentiles are exact."""
        return self.count <= EXACT_VALUES_MAX

    def add(self, ns: int) -> None:
        """Take in one duration, from 0 to :data:`VALUE_NS_MAX`."""
        self.count += 1
        self.total_ns = saturated(self.total_ns + ns)
        self.largest_ns = max(self.largest_ns, ns)
        if self.count <= EXACT_VALUES_MAX:
            insort(self.values, ns)
        else:
            self._spill()
            self._drop(ns, 1)

    def merge(self, other: Sketch) -> None:
        """Take in all that ``other`` holds."""
        self.count += other.count
        self.total_ns = saturated(self.total_ns + other.total_ns)
        self.largest_ns = max(self.largest_ns, other.largest_ns)
        if self.count <= EXACT_VALUES_MAX:
            self.values = sorted([*self.values, *other.values])
            return
        self._spill()
        for ns in other.values:
            self._drop(ns, 1)
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def percentile(self, percent: int) -> int | None:
        """The smallest duration that is not less than ``percent`` (1 to 100) of them; ``None`` without any."""
        if not self.count:
            return None
        rank = -(-percent * self.count // 100)
        if self.exact:
            return self.values[rank - 1]
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(_middle(bucket), self.largest_ns)
        return self.largest_ns

    def _spill(self) -> None:
        values, self.values = self.values, []
        for ns in values:
            self._drop(ns, 1)

    def _drop(self, ns: int, count: int) -> None:
        bucket = _bucket(ns)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count


def believable(ns: int | None) -> int | None:
    """A duration that is neither unknown nor negative nor absurd; else ``None``."""
    return ns if ns is not None and 0 <= ns <= VALUE_NS_MAX else None


def saturated(number: int) -> int:
    """A sum that stays within 64 bits."""
    return min(number, _LARGEST)


def _bucket(ns: int) -> int:
    # Whole numbers only: the same bucket on every machine.
    shift = max(ns.bit_length() - 8, 0)
    return shift * 128 + (ns >> shift)


def _middle(bucket: int) -> int:
    if bucket < 256:
        return bucket
    shift = bucket // 128 - 1
    return ((bucket - shift * 128) << shift) + (1 << shift) // 2
