"""Opens a ledger on a service in the mode that its URL names."""

from __future__ import annotations

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerError
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Store
from chatsnapshot.stores.open import Location

__all__ = ["open_http"]

MODES = ("spool", "direct")


def open_http(
    location: Location, *, create: bool, read_only: bool, clock: Clock, entropy: Entropy, limits: Limits
) -> Store:
    """The store of an ``http://`` or ``https://`` location: ``mode=direct``, else through a spool."""
    mode = dict(location.options).get("mode", MODES[0])
    if mode not in MODES:
        raise LedgerError(f"mode is {' or '.join(MODES)} in an http:// URL, not {mode!r}")
    if mode == "spool" and not read_only:
        from chatsnapshot.stores.spool.store import SpooledStore

        return SpooledStore(location, create=create, clock=clock, limits=limits)
    from chatsnapshot.stores.http.store import HttpStore

    return HttpStore(location, create=create, read_only=read_only, clock=clock, limits=limits)
