"""Where a follower stands, for people: one line that changes on a terminal, else a line now and then; or JSON lines."""

from __future__ import annotations

import sys
import time

import msgspec

from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.copying.following import Following
from chatsnapshot.events.text import visible

__all__ = ["Told"]

_LINE_SECONDS = 10.0
_BLANK = " " * 100


class Told:
    """``on_state`` of ``copying.follow``."""

    def __init__(self, out: Terminal, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._live = not as_json and sys.stderr is not None and sys.stderr.isatty()
        self._written = 0.0
        self._said: str | None = None
        self._last: Following | None = None

    def state(self, state: Following) -> None:
        """Called whenever the follower has moved or waits."""
        last, self._last = self._last, state
        if self._as_json:
            found = {**msgspec.to_builtins(state), "lag": state.lag}
            self._out.json_line(msgspec.json.encode(found))
            self._out.flush()
            return
        text = self._text(state)
        if self._live:
            shown = visible(text)[: len(_BLANK)]
            sys.stderr.write(f"\r{shown.ljust(len(_BLANK))}")
            sys.stderr.flush()
            return
        turned = last is None or last.problem != state.problem or (last.lag > 0) != (state.lag > 0)
        if (turned and (last is None or state.problem or last.problem)) or self._due():
            self._line(text)

    def _due(self) -> bool:
        return time.monotonic() - self._written >= _LINE_SECONDS

    def _line(self, text: str) -> None:
        self._written = time.monotonic()
        if text != self._said:
            self._said = text
            self._out.line(self._out.one_line(text))
            self._out.flush()

    @staticmethod
    def _text(state: Following) -> str:
        if state.problem is not None:
            return f"waiting at position {state.position:,}: {state.problem}"
        if state.lag:
            return f"position {state.position:,} of {state.head:,}, {state.behind_seconds:,.1f} s behind"
        return f"position {state.position:,}, up to date"

    def end(self) -> None:
        """The last word: where the copy stands."""
        if self._live and self._last is not None:
            sys.stderr.write(f"\r{_BLANK}\r")
            sys.stderr.flush()
        if not self._as_json and self._last is not None:
            self._line(self._text(self._last))
