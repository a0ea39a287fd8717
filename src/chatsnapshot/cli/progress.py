"""How far a long command is, on standard error: a changing line on a terminal, elsewhere nothing, or lines by choice."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_BLANK = " " * 24
_LINE_SECONDS = 10.0


class Progress:
    """``with Progress() as progress:`` and ``progress.show("copying", done, whole)``; the line is gone at the end.

    With ``lines``, where standard error is no terminal, a line is written every 10 seconds.
    """

    def __init__(self, lines: bool = False) -> None:
        there = sys.stderr is not None
        self._stream = sys.stderr if there and sys.stderr.isatty() else None
        self._lines = sys.stderr if there and lines and self._stream is None else None
        self._written = time.monotonic()
        self._shown: tuple[str, int] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None and self._shown is not None:
            self._stream.write(f"\r{_BLANK}\r")
            self._stream.flush()

    def show(self, stage: str, done: int, whole: int) -> None:
        """Called after each step; the last one needs no line of its own."""
        if self._lines is not None and done < whole and time.monotonic() - self._written >= _LINE_SECONDS:
            self._written = time.monotonic()
            self._lines.write(f"{stage} {done:,} of {whole:,}\n")
            self._lines.flush()
        percent = 100 * done // max(whole, 1)
        if self._stream is not None and done < whole and (stage, percent) != self._shown:
            self._shown = (stage, percent)
            self._stream.write(f"\r{stage} {percent:3d} %".ljust(len(_BLANK)))
            self._stream.flush()
