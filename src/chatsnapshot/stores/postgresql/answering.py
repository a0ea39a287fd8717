"""A connection that is given up when the network swallows what is sent, and kept while the server is at work on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from chatsnapshot.stores.postgresql.driver import psycopg

__all__ = ["SILENT_SECONDS", "AnsweringConnection", "Stalled"]

T = TypeVar("T")

SILENT_SECONDS = 10.0
"""After so long without a byte the server is asked, on another connection, whether it is at work for this one."""

UNKNOWN_MAX = 6
"""So often it may say that it does not know (behind a pooler, which has numbers of its own for its clients)."""


class Stalled(psycopg.OperationalError):
    """Nothing came back, and the server is not at work on it, or cannot be asked."""


class AnsweringConnection(psycopg.Connection[Any]):
    """A connection whose calls end."""

    ask_about: Callable[[int], bool | None] | None = None
    """Says whether the server is at work for a process of it; ``None`` when it does not know that process."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """As the driver waits, and no longer than the server is at work. Raises :class:`Stalled`."""
        try:
            return super().wait(self._limited(gen), *args, **options)
        except Stalled:
            self.close()
            raise

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The driver's own steps, each of which waits for the socket; it is told 0 when nothing came for a while."""
        silent_since = time.monotonic()
        unknown = 0
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    silent_since = 0.0
                elif not silent_since:
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > SILENT_SECONDS:
                    at_work = None if self.ask_about is None else self.ask_about(self.info.backend_pid)
                    unknown += at_work is None
                    if at_work is False or unknown > UNKNOWN_MAX:
                        raise Stalled(
                            f"no answer for {SILENT_SECONDS:g} s, and the server is not at work on it or not reached"
                        )
                    silent_since = time.monotonic()
                state = gen.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value
