"""The events that every contestant gets."""

from __future__ import annotations

import json

PAYLOAD: dict[str, object] = {
    "role": "assistant",
    "content": "The parcel left the harbour this morning and arrives on Saturday. " * 3,
    "model": "large-3",
    "tokens": 123,
    "finish_reason": "stop",
    "ok": True,
}

assert 295 <= len(json.dumps(PAYLOAD, separators=(",", ":"))) <= 305


def batch(size: int) -> list[dict[str, object]]:
    """Arguments of ``record_many`` for that many events of one run."""
    return [
        {"event_type": "execution.message", "correlation_id": "run-1", "payload": PAYLOAD}
        for _ in range(size)
    ]
