"""Every error as problem JSON of one shape (RFC 9457), and which status each error of a ledger has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot import errors

__all__ = ["Problem", "problem_of", "problem_response", "unplaced", "unsettled"]

_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^/\n:'\"()]+/)+")

_TITLES = {
    400: "The request cannot be understood",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Not a method of this resource",
    406: "Not available in that form",
    408: "The request took too long",
    409: "In conflict with what is recorded",
    413: "Too large",
    415: "Not a type that is taken here",
    421: "Not a host of this service",
    422: "The event cannot be recorded as given",
    429: "Too many requests",
    500: "An error of the service",
    503: "Not available now",
}


class Problem(Exception):
    """An answer that is no success.

    ``kind`` names what it is, as a word that programs compare; ``detail`` says it in one sentence with the next step;
    ``more`` are further members; ``retry_after`` are seconds.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.headers = dict(headers or {})
        self.more = more

    def body(self) -> dict[str, Any]:
        """The members of the problem: ``type``, ``title``, ``status``, ``detail`` and what is known beside."""
        return {
            "type": f"urn:chatsnapshot:problem:{self.kind}",
            "title": _TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def problem_response(problem: Problem) -> Response:
    """The answer to send."""
    headers = {"Cache-Control": "no-store", **problem.headers}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return Response(
        msgspec.json.encode(problem.body()),
        status_code=problem.status,
        headers=headers,
        media_type="application/problem+json",
    )


def unplaced(text: str) -> str:
    """A sentence of a store without the folders of this machine, which are nobody's business: file names stay."""
    return _FOLDERS.sub("", text)


def unsettled(error: errors.CommitUncertain) -> str:
    """Why it is open whether events are stored, without what a program in Python does about it."""
    return unplaced(str(error)).partition("; retry with")[0]


def problem_of(error: BaseException) -> Problem:
    """What an error of a ledger is over HTTP; an error of another kind is told without any of its text."""
    text = str(error)
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.InvalidEvent):
        more: dict[str, Any] = {
            name: value for name, value in (("path", error.path), ("line", error.line)) if value is not None
        }
        return Problem(422, "invalid-event", text, **more)
    if isinstance(error, errors.EventConflict):
        return Problem(
            409,
            "event-conflict",
            text,
            event_id=error.event_id,
            fields=list(error.fields),
            position=error.position,
        )
    if isinstance(error, errors.SequenceConflict):
        return Problem(
            409,
            "sequence-conflict",
            text,
            correlation_id=error.correlation_id,
            wanted=error.wanted,
            found=error.found,
        )
    if isinstance(error, errors.LimitExceeded):
        return Problem(
            413,
            "limit-exceeded",
            text,
            limit=error.limit,
            allowed=error.allowed,
            found=error.found,
            what_to_do=error.what_to_do,
        )
    if isinstance(error, errors.NotFound):
        return Problem(404, "not-found", text)
    text = unplaced(text)
    if isinstance(error, errors.ReadOnly):
        return Problem(403, "read-only", text)
    if isinstance(error, errors.CommitUncertain):
        why = f"{unsettled(error)}: send them again with the same ids, and each is stored once"
        return Problem(503, "commit-uncertain", why, retry_after=1)
    if isinstance(error, errors.StoreFull):
        return Problem(503, "store-full", text, retry_after=30)
    if isinstance(error, (errors.StoreUnavailable, errors.StorePoisoned, errors.LedgerClosed)):
        return Problem(503, "store-unavailable", text, retry_after=1)
    if isinstance(error, errors.Corrupt):
        return Problem(500, "corrupt", text, position=error.position)
    if isinstance(error, errors.FormatTooNew):
        return Problem(500, "format-too-new", text)
    if isinstance(error, errors.LedgerError):
        return Problem(500, "ledger-error", text)
    return Problem(500, "internal-error", "the service failed on this request; its log says why")
