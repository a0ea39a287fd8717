"""Turns pymongo errors into the errors of ChatSnapshot, at one place and without secrets."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from chatsnapshot.errors import Corrupt, LedgerError, ReadOnly, StoreFull, StoreUnavailable
from chatsnapshot.stores.mongodb.driver import bson, pymongo

__all__ = ["MAPPED", "is_transient", "is_unknown", "mapped", "scrubbed"]

Failure = pymongo.errors.PyMongoError
MAPPED = (pymongo.errors.PyMongoError, bson.errors.BSONError)
"""What a use of the driver may raise."""

_UNAUTHORIZED = 13
_CONFLICT = 112
_AUTHENTICATION = frozenset({18, 8000})
_FULL = frozenset({14031, 12501})
_TOO_LARGE = frozenset({257, 10334, 392})
_NOT_WRITABLE = frozenset({10107, 13435, 11602, 11600, 189, 91})
_TEXT_MAX = 300


def is_transient(error: Failure) -> bool:
    """Whether nothing of the transaction was stored and it may be tried again."""
    return error.has_error_label("TransientTransactionError")


def is_unknown(error: Failure) -> bool:
    """Whether a commit may have been applied, and may be sent again."""
    return error.has_error_label("UnknownTransactionCommitResult")


def scrubbed(text: str, target: str) -> str:
    """A text of the driver in one line, without the password of the URL that it was given."""
    try:
        password = urlsplit(target).password
    except ValueError:
        password = None
    for secret in {password, unquote(password)} if password else ():
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def mapped(error: Exception, url: str, target: str, read_only: bool = False) -> LedgerError:
    """The error of ours for one that was raised before a commit: nothing was stored."""
    text = scrubbed(_text(error), target)
    code = getattr(error, "code", None)
    if isinstance(error, bson.errors.BSONError):
        return Corrupt(f"{url} holds a document that is no BSON ({text}); run chatsnapshot verify")
    if isinstance(error, pymongo.errors.ServerSelectionTimeoutError):
        return StoreUnavailable(
            f"no MongoDB server that takes writes answers for {url} ({text}); check that it runs, host, port and TLS"
        )
    if code in _AUTHENTICATION and "quota" not in text:
        return StoreUnavailable(
            f"the server refuses the user of {url} ({text}); check name, password and authSource in the URL"
        )
    if code == _UNAUTHORIZED and "requires authentication" in text:
        return StoreUnavailable(
            f"the server of {url} asks who you are ({text}); write mongodb://user:password@host into the URL, with "
            "authSource=admin where the user was made there"
        )
    if code == _UNAUTHORIZED and read_only:
        return StoreUnavailable(
            f"the user of {url} may not read it ({text}); give it the role read on this database (docs/mongodb.md)"
        )
    if code == _UNAUTHORIZED:
        return ReadOnly(
            f"the user of {url} may not do this ({text}); give it the role of docs/mongodb.md, or open with "
            "read_only=True to read"
        )
    if code == _CONFLICT:
        return StoreUnavailable(
            f"other writers kept {url} busy; nothing was stored, try again (a process that was killed in the middle of a "
            "commit holds a ledger for transactionLifetimeLimitSeconds, 60 by default: see docs/mongodb.md)"
        )
    if code in _FULL or "space quota" in text or "No space left" in text:
        return StoreFull(f"no space left in {url} ({text}); nothing was stored, free some space")
    if code in _TOO_LARGE or isinstance(error, pymongo.errors.DocumentTooLarge):
        return StoreUnavailable(
            f"this is too much for one MongoDB transaction ({text}); nothing was stored, record fewer events in one call"
        )
    if isinstance(error, pymongo.errors.ConfigurationError):
        return StoreUnavailable(f"{url} cannot be used ({text}); correct the URL or the server")
    if code in _NOT_WRITABLE:
        return StoreUnavailable(
            f"the server of {url} takes no writes now ({text}); name every member of the replica set in the URL, and "
            "leave directConnection out"
        )
    return StoreUnavailable(f"{url}: {type(error).__name__}: {text}; nothing was stored")


def _text(error: Exception) -> str:
    """What the server said; pymongo adds whole replies and topologies to it, which nobody can read."""
    details: Any = getattr(error, "details", None)
    if isinstance(details, dict) and isinstance(details.get("errmsg"), str):
        return str(details["errmsg"])
    text = str(error)
    for mark in (", Timeout: ", ", full error: ", " (configured timeouts: "):
        text = text.partition(mark)[0]
    return text
