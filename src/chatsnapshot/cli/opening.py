"""Opening the ledger of a command: only commands that record make one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.failures import NoLedger
from chatsnapshot.cli.options import ledger_url, shown_url
from chatsnapshot.errors import LedgerError, NotFound

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["open_to_add", "open_to_read", "open_to_view", "open_to_write"]


def open_to_read() -> Ledger:
    """The ledger, read-only; raises :class:`NoLedger` when there is none. Use with ``with``."""
    import chatsnapshot

    url = ledger_url()
    try:
        return chatsnapshot.open(url, create=False, read_only=True)
    except NotFound:
        raise _none_at(url) from None


def _none_at(url: str) -> NoLedger:
    return NoLedger(
        f"no ledger at {shown_url(url)}; name another with --ledger or CHATSNAPSHOT_LEDGER, "
        "or make one with 'chatsnapshot demo' or 'chatsnapshot record'"
    )


def open_to_view() -> Ledger:
    """The ledger, so that what is new is stored for the next view of the whole; read-only where it cannot be written."""
    import chatsnapshot

    try:
        return chatsnapshot.open(ledger_url(), create=False)
    except NotFound:
        raise _none_at(ledger_url()) from None
    except LedgerError:
        return open_to_read()


def open_to_write() -> Ledger:
    """The ledger, made when there is none. Use with ``with``."""
    import chatsnapshot

    return chatsnapshot.open(ledger_url())


def open_to_add() -> Ledger:
    """The ledger, to record in; raises :class:`NoLedger` when there is none. Use with ``with``."""
    import chatsnapshot

    url = ledger_url()
    try:
        return chatsnapshot.open(url, create=False)
    except NotFound:
        raise _none_at(url) from None
