"""Looks into a ledger where nothing can be awaited, without waiting for one that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["looked"]

T = TypeVar("T")


def looked(
    seconds_max: float, look: Callable[[], T], note: Callable[[Exception], object] | None = None
) -> T | None:
    """What ``look`` finds, in another thread and for ``seconds_max`` at most; ``None`` where it fails or takes longer.

    Why it failed is told to ``note``; without it nobody is told: a ledger that cannot be read is told of where it
    cannot be written.
    """
    found: list[T] = []

    def inside() -> None:
        try:
            found.append(look())
        except Exception as error:
            if note is not None:
                note(error)

    thread = threading.Thread(target=inside, name="chatsnapshot-adapter", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread begins any more, at the end of the process
        inside()
    else:
        thread.join(seconds_max)
    return found[0] if found else None
