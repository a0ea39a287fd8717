"""What the process of a service logs: one event one line, as JSON or text, of bounded length and without payloads."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from typing import TextIO

from chatsnapshot.clock import time_text
from chatsnapshot.errors import LedgerError
from chatsnapshot.server.problems import Problem

__all__ = ["FORMS", "OneLine", "install"]

FORMS = ("text", "json")
LINE_CHARS_MAX = 2_048
_FRAMES_MAX = 12
_LOGGERS = ("chatsnapshot", "uvicorn", "asyncio", "py.warnings")


class OneLine(logging.Formatter):
    """Formats a record as one line. Control characters are escaped, so that no text begins a line of its own.

    Of an error of ours the sentence is told; of another one its type and where it was raised, but never its text, which
    may quote what was sent.
    """

    def __init__(self, form: str = "text") -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        try:
            message = record.getMessage()
        except Exception:
            message = "a message that cannot be formatted"
        fields = {
            "time": time_text(int(record.created * 1e9)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message[: LINE_CHARS_MAX // 2],
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields["error"] = _told(error)
            fields["where"] = _where(error)
        if self._form == "json":
            line = json.dumps(fields)
            while len(line) > LINE_CHARS_MAX:
                longest = max(("message", "where", "error"), key=lambda name: len(fields.get(name, "")))
                fields[longest] = fields[longest][: len(fields[longest]) // 2] + "…"
                line = json.dumps(fields)
            return line
        said = [fields["time"], fields["level"], fields["logger"] + ":", fields["message"]]
        said += [f"{name}: {fields[name]}" for name in ("error", "where") if name in fields]
        line = escaped(" ".join(said))
        return line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 1] + "…"


def escaped(text: str) -> str:
    """The text with everything that could move a cursor or end a line written out."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _told(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name}: {error}"[:512] if isinstance(error, (LedgerError, Problem)) else name


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    return " > ".join(f"{os.path.basename(one.filename)}:{one.lineno} {one.name}" for one in frames)


def install(form: str = "text", stream: TextIO | None = None) -> None:
    """Let the loggers of the service and its server write to standard error in this form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(OneLine(form))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    # Bad requests and upgrades are told to who sent them; whoever can send them could fill the log with them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.captureWarnings(True)
