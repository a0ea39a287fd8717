"""How a ledger was opened: where it is and by which policies; what a pickled ledger is made of."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerError
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.open import Location

__all__ = ["Opening"]


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of :func:`chatsnapshot.open`."""

    location: Location
    create: bool = True
    read_only: bool = False
    durability: str = "full"
    validation: str = "warn"
    schemas: Any = None
    redact: Any = None
    redact_errors: str = "withhold"
    source: Any = None
    limits: Limits = DEFAULTS
    clock: Clock = time.time_ns
    entropy: Entropy = os.urandom

    def pickled(self) -> tuple[Any, ...]:
        """For ``__reduce__`` of a ledger: the same ledger, opened where it arrives; it must be there by then.

        Clock and entropy stay behind. Raises :class:`LedgerError` for a memory ledger.
        """
        if self.location.kind == "memory":
            raise LedgerError(
                "a memory: ledger lives in one process and cannot be pickled; use a path such as runs.db"
            )
        kept = {
            name: getattr(self, name)
            for name in (
                "read_only", "durability", "validation", "schemas", "redact", "redact_errors", "source",
                "limits",
            )
        }  # fmt: skip
        return _reopen, (self.location.address or self.location.url, kept)


def _reopen(url: str, policies: dict[str, Any]) -> Any:
    from chatsnapshot.opening import open

    return open(url, create=False, **policies)
