"""``python -m chatsnapshot.demo LEDGER CASE BOOK [HOLD_AFTER]``: one process of the demonstration."""

from __future__ import annotations

import sys

from chatsnapshot.demo.worker import work

if __name__ == "__main__":
    work(*sys.argv[1:])
