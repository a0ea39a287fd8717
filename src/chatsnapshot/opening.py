"""``chatsnapshot.open``: from a URL or path to a ledger."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.envelope import Source
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.policies import Opening
from chatsnapshot.stores.open import locate

__all__ = ["open"]


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    create: bool = True,
    read_only: bool = False,
    durability: str = "full",
    validation: str = "warn",
    schemas: Any = None,
    redact: Any = None,
    redact_errors: str = "withhold",
    source: Source | Mapping[str, Any] | None = None,
    limits: Limits = DEFAULTS,
    clock: Clock = time.time_ns,
    entropy: Entropy = os.urandom,
) -> Ledger:
    """Open a ledger, and make it when it is not there.

    ``url`` is a path (``runs.db``), ``memory:`` or a store's URL; without it ``CHATSNAPSHOT_LEDGER``, else
    ``./chatsnapshot.db``. ``durability="full"`` survives power loss, ``"os"`` survives the end of the process but not
    power loss. ``validation`` is ``off``, ``warn`` (record, log once a type, count) or ``strict`` (refuse) against the
    schemas of the catalogue and of ``schemas``. ``redact`` is what every event passes before it is stored, and
    ``redact_errors`` what happens when that fails: ``withhold`` the payload or ``raise``. ``source`` stands for events
    that name none. ``clock`` (nanoseconds since 1970 UTC) and ``entropy`` make
    a recording repeatable. Raises :class:`NotFound` when there is no ledger and ``create`` is false or ``read_only``
    true, :class:`FormatTooNew`, :class:`Corrupt`, :class:`StoreUnavailable`.
    """
    return Ledger(
        Opening(
            location=locate(url),
            create=create,
            read_only=read_only,
            durability=durability,
            source=source,
            limits=limits,
            clock=clock,
            entropy=entropy,
            validation=validation,
            schemas=schemas,
            redact=redact,
            redact_errors=redact_errors,
        )
    )
