"""Turns the problems that a service answers with into the errors that its ledger raised, with their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.errors import (
    CommitUncertain,
    Corrupt,
    EventConflict,
    FormatTooNew,
    InvalidEvent,
    LedgerError,
    LimitExceeded,
    NotFound,
    ReadOnly,
    SequenceConflict,
    StoreFull,
    StoreUnavailable,
)
from chatsnapshot.stores.http.connection import Answer

__all__ = ["BlobMissing", "Unclear", "error_of", "kind_of", "problem_of"]

_URN = "urn:chatsnapshot:problem:"


class Unclear(LedgerError):
    """An answer that leaves open what became of a write: from something in between, or of a service that failed."""


class BlobMissing(StoreUnavailable):
    """The service does not have a blob of which the parts were sent: it was started anew, or they lay too long."""


def problem_of(answer: Answer) -> Mapping[str, Any]:
    """The problem in an answer that is no success; of an answer that is not ours only its status."""
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            found = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        if isinstance(found, dict) and kind_of(found):
            return found
    return {"status": answer.status}


def kind_of(problem: Mapping[str, Any]) -> str:
    """The word for what a problem is; empty for one that is not ours."""
    kind = problem.get("type")
    return kind[len(_URN) :] if isinstance(kind, str) and kind.startswith(_URN) else ""


def error_of(problem: Mapping[str, Any], url: str) -> LedgerError:
    """The error of ours for a problem; :class:`Unclear` where it may stand for anything."""
    kind, text = kind_of(problem), str(problem.get("detail", ""))
    try:
        return _known(kind, text, problem, url)
    except (KeyError, TypeError):
        return Unclear(f"{url} answers with a problem that cannot be read ({kind or problem.get('status')})")


def _known(kind: str, text: str, problem: Mapping[str, Any], url: str) -> LedgerError:
    if kind == "event-conflict":
        return EventConflict(problem["event_id"], problem["fields"], problem["position"])
    if kind == "sequence-conflict":
        return SequenceConflict(problem["correlation_id"], problem["wanted"], problem["found"])
    if kind in ("invalid-event", "wire"):
        return InvalidEvent(text, path=problem.get("path"), line=problem.get("line"))
    if kind == "limit-exceeded":
        return LimitExceeded(problem["limit"], problem["allowed"], problem["found"], problem["what_to_do"])
    if kind == "body-too-large":
        return LimitExceeded(
            problem["limit"], problem["allowed"], problem["allowed"] + 1, "record less at a time"
        )
    if kind == "blob-missing":
        return BlobMissing(f"{url}: {text}; nothing was stored")
    if kind in ("not-found", "no-ledger", "which-ledger", "no-path"):
        return NotFound(f"{url}: {text}")
    if kind in ("read-only", "scope"):
        return ReadOnly(f"{url}: {text}")
    if kind == "commit-uncertain":
        return CommitUncertain(text)
    if kind == "store-full":
        return StoreFull(text)
    if kind == "corrupt":
        return Corrupt(text, position=problem.get("position"))
    if kind == "format-too-new":
        return FormatTooNew(text)
    if kind in ("internal-error", "ledger-error") or not kind:
        status = problem.get("status")
        if not kind and status is not None and 300 <= status < 500:
            return StoreUnavailable(
                f"{url} answers with status {status}, which is no answer of a ChatSnapshot service; check host, port and "
                "path of the URL"
            )
        return Unclear(f"{url} failed ({text or f'status {status}'})")
    return StoreUnavailable(f"{url}: {text}; nothing was stored")
