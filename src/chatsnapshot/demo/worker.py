"""One process that works on the case: ``python -m chatsnapshot.demo LEDGER CASE BOOK [HOLD_AFTER]``.

It says which tasks it has completed. After the task ``HOLD_AFTER`` it says that it holds and waits for the
end of its standard input; the stage kills it there.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import chatsnapshot
from chatsnapshot.demo import story
from chatsnapshot.demo.workflow import Workflow

__all__ = ["DONE", "HOLD", "work"]

DONE = "task completed: "
HOLD = "holding"


def work(url: str, case: str, book: str, hold_after: str = "") -> None:
    """Work on the case from where the ledger says that it stands."""
    with chatsnapshot.open(url) as ledger:
        letter = ledger.record(
            "ui.input_received",
            {"element": "contact form", "user": story.CUSTOMER, "value": story.LETTER},
            correlation_id=case,
            idempotency_key="letter",
        )
        flow = Workflow(ledger, case, story.NAME, story.tasks(story.Shop(Path(book))))

        def after_each(name: str) -> None:
            _say(DONE + name)
            if name == hold_after:
                _say(HOLD)
                sys.stdin.read()

        asyncio.run(flow.run(cause=letter, after_each=after_each))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
