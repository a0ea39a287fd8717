"""How this process ends, as far as that can be told from inside of it."""

from __future__ import annotations

import functools
import opcode
import sys
import threading
from types import FrameType
from typing import Any

__all__ = ["Ending", "exit_code"]


class Ending:
    """Watches how the main thread ends: at the end of its program, by an exception, or by ``sys.exit()``.

    ``sys.excepthook`` and ``sys.exit`` hand on what they are given. Python tells nobody of a ``SystemExit``; that there
    was one shows in the last instruction of the program, and its code is that of the last call of ``sys.exit()``.
    """

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        self._asked: list[object] = []
        self._outermost = _outermost()
        self._last_before = _last_error()
        self._hook_before, self._exit_before = sys.excepthook, sys.exit
        self._hook, self._exit = self._watched_hook(sys.excepthook), self._watched_exit(sys.exit)
        sys.excepthook, sys.exit = self._hook, self._exit

    def forget(self) -> None:
        """Watch no more."""
        if sys.excepthook == self._hook:
            sys.excepthook = self._hook_before
        if sys.exit == self._exit:
            sys.exit = self._exit_before
        self._outermost = None

    def failure(self) -> BaseException | None:
        """The exception that nobody caught; ask when the main thread has ended."""
        if self._failure is None and self._was_left() and (last := _last_error()) is not self._last_before:
            return last  # of a program that has an excepthook of its own
        return self._failure

    def code(self) -> int | None:
        """The exit code, where no exception ended the process; ``None`` for a ``SystemExit`` that tells none."""
        if not self._was_left():
            return 0
        if not self._asked:
            return None
        return exit_code(self._asked[-1])

    def _was_left(self) -> bool:
        frame = self._outermost
        if frame is None or frame.f_lasti < 0:
            return False
        return not opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN_")

    def _watched_hook(self, before: Any) -> Any:
        def excepthook(kind: Any, error: Any, traceback: Any) -> Any:
            self._failure = error
            return before(kind, error, traceback)

        return excepthook

    def _watched_exit(self, before: Any) -> Any:
        @functools.wraps(before)
        def exit(*status: Any, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self._asked = [status[0] if status else None]
            return before(*status, **named)

        return exit


def exit_code(asked: object) -> int:
    """The exit code that the system sees of what ``sys.exit()`` was given."""
    return asked & 0xFF if isinstance(asked, int) else int(asked is not None)


def _outermost() -> FrameType | None:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _last_error() -> BaseException | None:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
