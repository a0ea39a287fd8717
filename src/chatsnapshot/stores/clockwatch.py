"""The ledger's clock: one recorded_at a commit that never goes back, and a fact recorded once when the clock does."""

from __future__ import annotations

from collections.abc import Sequence

from chatsnapshot.clock import Clock, Entropy, parse_time, time_text
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import ledger_draft

__all__ = ["ClockWatch"]

BEHIND_SECONDS = 5.0
"""A clock further behind than this is worth a record; less is ordinary drift between machines."""


class ClockWatch:
    """Stamps commits. It is used under the store's write lock only."""

    __slots__ = ("_clock", "_entropy", "_noted", "_noting")

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._noted = False
        self._noting = False

    def glance(self) -> tuple[str, bool]:
        """The clock, and whether it is recorded already that it is behind; for stores whose server stamps."""
        return time_text(self._clock()), self._noted

    def settle(self, now: str, recorded_at: str) -> None:
        """The server has stamped a commit that offered ``now``."""
        if recorded_at == now:
            self._noted = False

    def stamp(self, last: str, groups: Sequence[Group], now: str = "") -> tuple[str, Sequence[Group]]:
        """The recorded_at of the next commit, and the groups with ``ledger.clock_behind`` after them if it is due.

        ``last`` is the recorded_at of the head ("" when the ledger is empty). ``now`` is what :meth:`glance` gave, if
        that was asked for this commit.
        """
        now = now or time_text(self._clock())
        self._noting = False
        if now >= last:
            self._noted = False
            return now, groups
        behind = (parse_time(last) - parse_time(now)).total_seconds()
        if behind > BEHIND_SECONDS and not self._noted:
            self._noting = True
            fact = ledger_draft(
                "ledger.clock_behind",
                {"clock": now, "recorded_at": last, "behind_ns": round(behind * 1e9)},
                self._entropy,
                self._clock,
            )
            groups = [*groups, Group([fact])]
        return last, groups

    def committed(self) -> None:
        """The commit that :meth:`stamp` was for has succeeded."""
        if self._noting:
            self._noted = True
