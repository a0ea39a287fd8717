"""What can go wrong with a request to NATS, and the error of ours that each of it is."""

from __future__ import annotations

import re
from typing import Any

from chatsnapshot.errors import LedgerError, NotFound, ReadOnly, StoreFull, StoreUnavailable

__all__ = ["ApiError", "Away", "Denied", "Unanswered", "Unsent", "mapped", "plain"]

STALE = frozenset({10071, 10164})
_FULL = frozenset({10002, 10023, 10047})
_PASSING = frozenset({10008, 10009, 10014, 10118, 10176})
_NO_JETSTREAM = frozenset({10039, 10076})


class Unsent(Exception):
    """Nobody got the request: nothing happened."""


class Away(Unsent):
    """No server takes connections, and that for longer than a fail-over needs: waiting is over."""


class Unanswered(Exception):
    """The request was sent and its answer did not come: whether it was done is open."""


class Denied(Exception):
    """The account may not publish or subscribe there."""

    def __init__(self, what: str, subject: str) -> None:
        super().__init__(f"{what} {subject}")
        self.what = what
        self.subject = subject


class ApiError(Exception):
    """An error in an answer of JetStream."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description

    @classmethod
    def of(cls, error: dict[str, Any]) -> ApiError:
        """The error of an answer."""
        return cls(
            int(error.get("code", 500)), int(error.get("err_code", 0)), str(error.get("description", "?"))
        )

    @property
    def stale(self) -> bool:
        """Others have stored something since: look at it and decide again."""
        return self.err_code in STALE or "per subject" in self.description

    @property
    def full(self) -> bool:
        """There is no space."""
        words = self.description.lower()
        return (
            self.err_code in _FULL
            or "maximum bytes" in words
            or "maximum messages exceeded" in words
            or "insufficient" in words
            or "no space" in words
            or "resource" in words
        )

    @property
    def passing(self) -> bool:
        """It goes away by itself: no leader, a leader that changes, a batch that was cut off."""
        return not self.stale and not self.full and (self.code == 503 or self.err_code in _PASSING)


def mapped(error: Exception, url: str) -> LedgerError:
    """The error of ours for one of this module, for an operation that has not stored anything."""
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, Denied):
        return StoreUnavailable(
            f"this account may not {error.what} {error.subject} at {url}; nothing was stored, give it the permissions "
            "in docs/nats.md"
        )
    if isinstance(error, ApiError):
        if error.stale:
            return StoreUnavailable(
                f"other writers of {url} were faster each time; nothing was stored, try again, or "
                "let fewer processes write"
            )
        if error.full:
            return StoreFull(
                f"{url} has no space ({error.description}); nothing was stored, give the account or the stream more"
            )
        if error.err_code in _NO_JETSTREAM:
            return StoreUnavailable(
                f"JetStream is not on at {url} ({error.description}); switch it on in the server and for this account"
            )
        if error.err_code == 10059:
            return NotFound(f"no ledger at {url}; record something there first, or check the name")
        if error.err_code == 10109:
            return ReadOnly(f"the stream of {url} is sealed, so nothing can be recorded there")
        return StoreUnavailable(
            f"{url} answers {error.description!r} (error {error.err_code}); nothing was stored"
        )
    if isinstance(error, (Unsent, Unanswered)):
        return StoreUnavailable(
            f"{url} cannot be used at the moment ({error}); nothing was stored, try again, or see chatsnapshot doctor"
        )
    return StoreUnavailable(f"{url} cannot be used ({type(error).__name__}); nothing was stored, try again")


def plain(text: str) -> str:
    """What a driver said, without addresses with credentials and in one line."""
    return re.sub(r"//[^/@\s]*@", "//", " ".join(text.split()))[:200].removeprefix("nats: ")
