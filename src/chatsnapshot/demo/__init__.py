"""The demonstration: agents work on a case, survive a kill, and are shown from the ledger alone."""

from __future__ import annotations

from chatsnapshot.demo.stage import main, run

__all__ = ["main", "run"]
