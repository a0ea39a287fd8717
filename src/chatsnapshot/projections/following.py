"""Keeps stored states at the head: runs, waits for what is recorded next, runs again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from chatsnapshot.projections.engine import Given, Outcome, Progress, run

__all__ = ["follow"]


def follow(
    ledger: Any,
    projections: Iterable[Given] | None = None,
    *,
    on_error: str | None = None,
    retry: bool = False,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Iterator[list[Outcome]]:
    """Run now and after each commit, by whatever process, and give the outcomes of each run; without end.

    Arguments as of :func:`~chatsnapshot.projections.engine.run`; ``retry`` holds for the first run. Any number may
    follow at once: each entry is taken once. One that stops is tried again with what comes next. It ends when the
    ledger is closed, or when nothing was recorded for ``timeout`` seconds.
    """
    chosen = None if projections is None else list(projections)
    head = ledger.head
    tail = ledger.tail(after=head, timeout=timeout)
    yield run(ledger, chosen, on_error=on_error, retry=retry, progress=progress)
    for entry in tail:
        # Many entries come together: they are one run.
        if entry.position > head:
            head = ledger.head
            yield run(ledger, chosen, on_error=on_error, progress=progress)
