"""How far a long command is, on a terminal's standard error; nothing elsewhere."""

from __future__ import annotations

import sys

__all__ = ["Progress"]

_BLANK = " " * 24


class Progress:
    """``with Progress() as progress:`` and ``progress.show("copying", done, whole)``; the line is gone at the end."""

    def __init__(self) -> None:
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._shown: tuple[str, int] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None and self._shown is not None:
            self._stream.write(f"\r{_BLANK}\r")
            self._stream.flush()

    def show(self, stage: str, done: int, whole: int) -> None:
        """Called after each step; the last one needs no line of its own."""
        percent = 100 * done // max(whole, 1)
        if self._stream is not None and done < whole and (stage, percent) != self._shown:
            self._shown = (stage, percent)
            self._stream.write(f"\r{stage} {percent:3d} %".ljust(len(_BLANK)))
            self._stream.flush()
