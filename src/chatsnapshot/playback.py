"""Plays recorded tool results back: the value that a call gave, by the call's id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.errors import NotFound
from chatsnapshot.events.fields import payload_of
from chatsnapshot.events.normaliser import read_call, read_result
from chatsnapshot.fields import checked_text
from chatsnapshot.scope import current_frame

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger

__all__ = ["RecordedFailure", "recorded"]

_CALL = "execution.tool_call"
_RESULT = "execution.tool_result"
_RESULT_KEYS = ("result", "output", "content", "response", "value", "return_value")


class RecordedFailure(Exception):
    """A tool had failed when it was recorded; ``type`` and ``message`` are those of its error."""

    def __init__(self, name: str | None, call_id: str, error: Any) -> None:
        facts = error if isinstance(error, Mapping) else {"message": str(error)}
        self.type: str | None = facts.get("type")
        self.message: str = str(facts.get("message") or "")
        kind = f"{self.type}: " if self.type else ""
        super().__init__(
            f"{name or 'the tool'} (call {call_id}) failed when it was recorded: {kind}{self.message}"
        )


def recorded(ledger: Ledger, call_id: object, correlation_id: object) -> Any:
    """The latest recorded result of a call, as a Python value.

    Looked for in ``correlation_id``, else in the correlation of the surrounding scope, else in the whole ledger.
    """
    wanted = checked_text(call_id, "call_id", ledger.limits.id_chars_max)
    frame = current_frame(ledger.scope_owner)
    if correlation_id is None and frame is not None:
        correlation_id = frame.correlation_id
    where = "" if correlation_id is None else f" of {correlation_id!r}"
    for entry in ledger.read(correlation_id=correlation_id, event_type=[_CALL, _RESULT], reverse=True):
        if entry.erased:
            continue
        payload = payload_of(entry)
        if entry.event_type == _CALL:
            if read_call(payload).call_id == wanted:
                raise NotFound(
                    f"tool call {wanted!r}{where} has no result in {ledger.url}; it was never answered"
                )
            continue
        result = read_result(payload)
        if result.call_id == wanted:
            return _value(entry, payload, result.name, wanted, result.error)
    raise NotFound(f"there is no tool call {wanted!r}{where} in {ledger.url}")


def _value(
    entry: LedgerEntry, payload: Mapping[str, Any], name: str | None, call_id: str, error: str | None
) -> Any:
    if error is not None:
        raise RecordedFailure(name, call_id, payload.get("error") or error)
    value = entry.value()
    inner = value.get("tool") if isinstance(value.get("tool"), Mapping) else {}
    for facts in (value, inner):
        for key in _RESULT_KEYS:
            if key in facts:
                return facts[key]
    return None
