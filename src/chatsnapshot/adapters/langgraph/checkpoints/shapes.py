"""What checkpoints are called in the ledger: correlations, event types, payloads."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "FORMAT",
    "OPENED",
    "PREFIX",
    "REWRITTEN",
    "SAVED",
    "SOURCE",
    "WRITES",
    "correlation_of",
    "event",
    "opened",
    "saved",
    "written",
]

PREFIX = "langgraph.checkpoints:"
OPENED = "langgraph.thread_opened"
"""The first event of a thread: its ``thread_id``."""
SAVED = "langgraph.checkpoint_saved"
"""One checkpoint: what LangGraph keeps of it as typed bytes, and the channel values that are new in it."""
WRITES = "langgraph.writes_saved"
"""What one task of a super-step wrote before the next checkpoint."""
REWRITTEN = "langgraph.thread_rewritten"
"""What is kept was recorded anew; everything up to ``superseded_to`` (a position) counts no more."""

FORMAT = 1
"""Which shape the payloads have; a newer one is refused."""

SOURCE = {"origin": "system", "runtime": "langgraph", "name": "checkpoints"}

_ID_CHARS_MAX = 256


def correlation_of(thread_id: str) -> str:
    """The correlation of one thread's checkpoints; a thread id that is no good as an id stands in it as a hash."""
    plain = (
        0 < len(thread_id) <= _ID_CHARS_MAX - len(PREFIX)
        and not thread_id.startswith("sha256:")
        and thread_id.isprintable()
        and unicodedata.normalize("NFC", thread_id) == thread_id
    )
    if plain:
        return PREFIX + thread_id
    digest = hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{PREFIX}sha256:{digest}"


def event(event_type: str, correlation_id: str, payload: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The arguments of one ``record``."""
    return {
        "event_type": event_type,
        "correlation_id": correlation_id,
        "payload": {"format": FORMAT, **payload},
        "source": SOURCE,
        **more,
    }


def opened(correlation_id: str, thread_id: str) -> dict[str, Any]:
    """The event that opens a thread; however often it is recorded, it is there once."""
    return event(OPENED, correlation_id, {"thread_id": thread_id}, idempotency_key="thread_opened")


def saved(correlation_id: str, payload: Mapping[str, Any], cause: str | None) -> dict[str, Any]:
    """A checkpoint; ``payload`` has ``ns``, ``id``, ``parent``, ``checkpoint``, ``metadata``, ``versions``, ``values``.

    ``checkpoint`` and ``metadata`` are typed bytes (``[type, bytes]``), the former without values and versions.
    """
    facts = {"checkpoint_id": payload["id"], "run_id": payload.get("run_id")}
    attributes = {name: fact for name, fact in facts.items() if isinstance(fact, str) and len(fact) <= 256}
    return event(SAVED, correlation_id, payload, causation_id=cause, attributes=attributes)


def written(
    correlation_id: str,
    ns: str,
    checkpoint_id: str,
    task_id: str,
    task_path: str,
    writes: Sequence[tuple[int, str, str, bytes]],
    cause: str | None,
) -> dict[str, Any]:
    """What a task wrote: for each write its index, channel and typed bytes."""
    payload = {
        "ns": ns,
        "id": checkpoint_id,
        "task_id": task_id,
        "task_path": task_path,
        "writes": [list(write) for write in writes],
    }
    return event(
        WRITES, correlation_id, payload, causation_id=cause, attributes={"checkpoint_id": checkpoint_id}
    )
