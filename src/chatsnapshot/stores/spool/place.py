"""Where spools are: a file for each user, service and ledger, that nobody else may read."""

from __future__ import annotations

import hashlib
import os
import re

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.stores.http.address import Address
from chatsnapshot.stores.open import Location

__all__ = ["make_private", "spool_folder", "spool_path", "spool_paths"]

_ODD = re.compile(r"[^a-z0-9.-]+")


def spool_folder() -> str:
    """The user's folder of spools: ``$XDG_STATE_HOME/chatsnapshot/spool``."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "chatsnapshot", "spool")


def spool_path(location: Location, address: Address) -> str:
    """The spool of a ledger on a service: what ``spool=`` names (a file), else a file of the user's folder."""
    wanted = dict(location.options).get("spool")
    if wanted:
        path = os.path.abspath(os.path.expanduser(wanted))
        if os.path.isdir(path):
            raise LedgerError(f"{path} is a folder; spool= names a file")
        return path
    whole = f"{address.secure} {address.host.lower()} {address.port} {address.base}"
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    name = _ODD.sub("-", f"{address.host}-{address.port}-{address.ledger or 'only'}".lower())[:80]
    return os.path.join(spool_folder(), f"{name}-{digest}.spool")


def spool_paths() -> list[str]:
    """Every spool in the user's folder, by name."""
    folder = spool_folder()
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(os.path.join(folder, name) for name in names if name.endswith(".spool"))


def make_private(path: str) -> None:
    """Make the file, and the folders to it, for the user alone; raises :class:`StoreUnavailable`."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(
            f"the spool {path} cannot be made ({error.strerror}); name another place with spool=, or use mode=direct"
        ) from None
