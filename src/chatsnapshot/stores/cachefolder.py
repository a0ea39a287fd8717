"""The folder in the user's cache for what follows from a ledger on a server: it can be deleted at any time."""

from __future__ import annotations

import os
import re
import stat

__all__ = ["cache_folder"]

_LEDGER_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def cache_folder(ledger_id: str, *, make: bool) -> str | None:
    """``$XDG_CACHE_HOME/chatsnapshot/LEDGER_ID`` (without the variable ``~/.cache``), for its owner alone.

    ``None`` where there is no such folder: it is not there and may not be made (``make``) or cannot be, it belongs to
    somebody else, or it is no folder (a symbolic link is none). Source: XDG Base Directory Specification, which lets a
    relative path count as none.
    """
    if not _LEDGER_ID.fullmatch(ledger_id):
        return None  # it comes from a server, and is no path
    root = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(root):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        root = os.path.join(home, ".cache")
    ours = os.path.join(root, "chatsnapshot")
    folder = os.path.join(ours, ledger_id)
    try:
        if make:
            os.makedirs(root, mode=0o700, exist_ok=True)
            for one in (ours, folder):
                try:
                    os.mkdir(one, 0o700)
                except FileExistsError:
                    pass
        return folder if _is_own(ours) and _is_own(folder) else None
    except OSError:
        return None


def _is_own(path: str) -> bool:
    """Whether it is a folder of this user into which nobody else writes."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        return False
    own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return own and not found.st_mode & 0o022
