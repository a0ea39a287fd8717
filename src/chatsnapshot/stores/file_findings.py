"""What a look at a ledger's files finds, and what mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["HARMLESS", "REPAIR", "RESTORE", "FileFinding", "left_beside"]

HARMLESS = "harmless"
"""Nothing needs to be done."""

REPAIR = "repair"
"""``fsck --repair-tail`` mends it, and so does the next opening for writing."""

RESTORE = "restore"
"""No repair mends it: bytes are missing or changed that may have been acknowledged."""


class FileFinding(NamedTuple):
    """One finding: the file, what is the matter, in a sentence, and what mends it."""

    path: str
    what: str
    cure: str


_SET_ASIDE = re.compile(r"(?:\.\d{6,})?\.torn-.+")


def left_beside(path: str) -> Iterator[FileFinding]:
    """Files that were once set aside or left behind; all of them may be deleted after a look."""
    folder, name = os.path.split(path)
    for found in sorted(os.listdir(folder or ".")):
        if not found.startswith(name + "."):
            continue
        there, rest = os.path.join(folder, found), found[len(name) :]
        if _SET_ASIDE.fullmatch(rest):
            size = os.stat(there).st_size
            yield FileFinding(there, f"{size:,} bytes that were set aside and never acknowledged", HARMLESS)
        elif rest.startswith(".replaced-"):
            yield FileFinding(there, "what a restore has replaced", HARMLESS)
        elif rest == ".part":
            yield FileFinding(there, "a copy under way, or what an interrupted one has left", HARMLESS)
        elif rest == ".new":
            yield FileFinding(
                there, "what an interrupted write has left; the next one writes over it", HARMLESS
            )
