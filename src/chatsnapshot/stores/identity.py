"""The id that a ledger is made with: that of its history and, of a copy, that of the copy itself."""

from __future__ import annotations

import uuid
from typing import NamedTuple

__all__ = ["Identity", "copy_identity", "new_identity", "read_identity"]

_MARK = "+"


class Identity(NamedTuple):
    """``history`` is UUID text; ``copy`` is that of a ledger made as a copy of it, ``None`` of any other ledger."""

    history: str
    copy: str | None = None

    @property
    def told(self) -> str:
        """For people: the id, and that it is a copy."""
        return self.history if self.copy is None else f"{self.history}, made as its copy {self.copy}"


def new_identity(wanted: str = "") -> str:
    """What a store keeps with a ledger that it makes, for ever: ``wanted``, else a new UUID."""
    return wanted or str(uuid.uuid4())


def copy_identity(history: str) -> str:
    """What a store is to keep with a new copy of this history: ``HISTORY+COPY``, two UUIDs."""
    return f"{history}{_MARK}{uuid.uuid4()}"


def read_identity(kept: str) -> Identity:
    """Take apart what a store keeps (``Store.ledger_id``)."""
    history, _, copy = kept.partition(_MARK)
    return Identity(history, copy or None)
