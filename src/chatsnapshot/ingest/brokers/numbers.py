"""The numbers in the URL of a stream that events come from: how many messages at once, and how long one is ours."""

from __future__ import annotations

import re

from chatsnapshot.errors import LedgerError

__all__ = ["BATCH_DEFAULT", "ack_seconds", "batch_size", "whole"]

BATCH_DEFAULT = 256
_BATCH_MAX = 1_000
_ACK_SECONDS = 10.0


def batch_size(text: str | None, shown: str) -> int:
    """How many messages are taken at once; raises :class:`LedgerError`, as the others here."""
    return BATCH_DEFAULT if text is None else whole("batch", text, shown, 1, _BATCH_MAX)


def whole(what: str, text: str, shown: str, least: int, most: int) -> int:
    """A whole number of at most four digits; ``shown`` is the URL without secrets."""
    if not (re.fullmatch(r"[0-9]{1,4}", text) and least <= int(text) <= most):
        raise LedgerError(f"{what} in {shown} is a number from {least} to {most:,}, not {text!r:.40}")
    return int(text)


def ack_seconds(text: str | None, shown: str) -> float:
    """Seconds after which a broker gives a message again that was not acknowledged."""
    try:
        seconds = _ACK_SECONDS if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise LedgerError(f"ack_wait in {shown} is a number of seconds from 1 to 3600, not {text!r:.40}")
    return seconds
