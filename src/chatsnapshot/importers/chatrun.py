"""One run as a file tells it: ids that follow from it, causes, calls with their results, times, payloads that fit."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import sha256
from typing import Any

from chatsnapshot import jsonvalue
from chatsnapshot.clock import timestamp_text
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.messages import Call, Result, read_messages
from chatsnapshot.events.validation import Validator
from chatsnapshot.importers.base import Piece, event_id, name_text

__all__ = ["ChatRun", "digest", "fitting", "moment", "usage_of"]

_NEXT: Any = object()
_SPOKEN = (
    "role",
    "content",
    "name",
    "tool_calls",
    "function_call",
    "refusal",
    "reasoning",
    "reasoning_content",
)
"""Keys of a message that its event has as they are; others go into ``native``."""

_TOOL_ROLES = ("tool", "function")
_PEOPLE = ("user", "human")
_TOLD = ("role", "content", "name", "tool_call_id", "tool_call_ids", "is_error", "error")
_COUNTS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_read": ("cache_read", "input_tokens_cache_read", "cache_read_input_tokens"),
    "cache_write": ("cache_write", "input_tokens_cache_write", "cache_creation_input_tokens"),
    "reasoning": ("reasoning", "reasoning_tokens"),
}
_DETAILS = {
    "cache_read": (("prompt_tokens_details", "cached_tokens"), ("input_tokens_details", "cached_tokens")),
    "reasoning": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ),
}


class ChatRun:
    """Makes the events of one run. ``cause`` is the event that the next one follows from.

    Every event has the ``run_id`` where one is given (else the run is named by its correlation), and says that its time
    is unknown where ``at`` is not given.
    """

    def __init__(
        self, correlation_id: str, runtime: str, *, run_id: str | None = None, cause: str | None = None
    ) -> None:
        self.correlation_id = correlation_id
        self.runtime = runtime
        self.run_id = run_id
        self.cause = cause
        self._prefix = "" if run_id is None else f"{run_id} "
        self._open: dict[str, list[tuple[str, str | None]]] = {}
        self._answered: dict[str, tuple[str, str | None]] = {}
        self.asked: dict[str | None, str | None] = {}
        """The messages that asked for calls which are made later, by call id."""

    def id_of(self, key: str) -> str:
        """The id of the event with that key."""
        return event_id(self.correlation_id, self._prefix + key)

    def event(
        self,
        offset: int,
        event_type: str,
        key: str,
        payload: Mapping[str, Any],
        *,
        origin: str = "agent",
        name: object = None,
        at: str | None = None,
        cause: Any = _NEXT,
        follow: bool = True,
    ) -> Piece:
        """One event; ``key`` is unique in the run. What comes next follows from it, unless ``follow`` is false."""
        filled = {one: value for one, value in payload.items() if value is not None}
        if self.run_id is not None:
            filled.setdefault("run_id", self.run_id)
        native = filled.get("native")
        native = dict(native) if isinstance(native, Mapping) else {}
        if at is None:
            native["time"] = "unknown"
        filled.pop("native", None)
        if native:
            filled["native"] = native
        source = {"origin": origin, "runtime": self.runtime}
        if (actor := name_text(name)) is not None:
            source["name"] = actor
        made = self.id_of(key)
        event = {
            "event_type": event_type,
            "event_id": made,
            "correlation_id": self.correlation_id,
            "causation_id": self.cause if cause is _NEXT else cause,
            "source": source,
            "payload": fitting(event_type, filled),
            "schema_version": None,  # arguments of record(), never taken for an envelope
        }
        if at is not None:
            event["timestamp"] = at
        if follow:
            self.cause = made
        return Piece(offset, event)

    # --- what is said, and the tools it asks for ---

    def said(
        self,
        offset: int,
        key: str,
        item: Mapping[str, Any],
        *,
        name: object = None,
        agent: object = None,
        native: Mapping[str, Any] | None = None,
        at: str | None = None,
        told: Mapping[str, Any] | None = None,
        later: Container[str] = (),
    ) -> Iterator[Piece]:
        """A message in OpenAI's form as it is, then the tools that it calls; one of a tool as that tool's result.

        ``told`` are further keys of that result; calls with an id in ``later`` are made when the file tells of them.
        """
        role = item.get("role")
        facts = {**(native or {})}
        if role in _TOOL_ROLES:
            rest = {one: value for one, value in item.items() if one not in _TOLD}
            if rest:
                facts["message"] = rest
            for number, result in enumerate(_results(item)):
                one_key = f"{key} {number}" if number else key
                yield self.result(offset, one_key, result, native=facts, at=at, agent=agent, more=told)
            return
        speaker = item.get("name") if name_text(item.get("name")) else name
        payload = {one: item[one] for one in _SPOKEN if item.get(one) is not None}
        payload["role"] = name_text(role) or "unknown"
        if role is not None and payload["role"] != role:
            facts["role"] = role
        if name_text(speaker) is not None:
            payload["name"] = name_text(speaker)
        if agent is not None:
            payload["agent"] = agent
        rest = {one: value for one, value in item.items() if one not in _SPOKEN}
        if rest:
            facts["message"] = rest
        payload["native"] = facts
        calls, results, said = _asked(item)
        for number, result in enumerate(results):
            yield self.result(offset, f"{key} result {number}", result, native=native, at=at, agent=agent)
        if results and not said:
            return
        origin = "ui" if role in _PEOPLE else "system" if role in ("system", "developer") else "agent"
        yield self.event(
            offset, "execution.message", key, payload, origin=origin, name=speaker if origin != "system" else None, at=at
        )  # fmt: skip
        asked = self.cause
        for number, call in enumerate(calls):
            if call.call_id in later:
                self.asked[call.call_id] = asked
                continue
            self.cause = asked
            yield self.call(
                offset, f"{key} call {number}", call, name=speaker, native=native, at=at, agent=agent
            )

    def call(
        self,
        offset: int,
        key: str,
        call: Call,
        *,
        name: object = None,
        agent: object = None,
        native: Mapping[str, Any] | None = None,
        at: str | None = None,
    ) -> Piece:
        """A tool is called; its result will follow from it."""
        tool = name_text(call.name)
        payload = {
            "name": tool or "unknown",
            "call_id": call.call_id,
            "arguments": call.arguments,
            "agent": agent,
            "native": native,
        }
        cause = self.asked.get(call.call_id, self.cause)
        made = self.event(offset, "execution.tool_call", key, payload, name=name, at=at, cause=cause)
        self._open.setdefault(_call_key(call.call_id, tool), []).append((self.id_of(key), tool))
        return made

    def result(
        self,
        offset: int,
        key: str,
        result: Result,
        *,
        agent: object = None,
        native: Mapping[str, Any] | None = None,
        at: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Piece:
        """What a tool gave: its cause is the call with that id that has no result yet, else the last one with it."""
        found = _call_key(result.call_id, result.name)
        waiting = self._open.get(found)
        call: tuple[str | None, str | None] = self._answered.get(found, (self.cause, None))
        if waiting:
            call = self._answered[found] = waiting.pop(0)
        nothing = result.call_id is None and result.result is None
        payload: dict[str, Any] = {
            "name": name_text(result.name) or call[1] or ("unknown" if nothing else None),
            "call_id": result.call_id,
            "result": result.result,
            "agent": agent,
        }
        if result.error is not None:
            payload |= {"is_error": True, "error": result.error}
        payload |= {**(more or {}), "native": native}
        return self.event(offset, "execution.tool_result", key, payload, name=agent, cause=call[0], at=at)


def _call_key(call_id: str | None, name: str | None) -> str:
    return f"id {call_id}" if call_id is not None else f"name {name}"


def _results(item: Mapping[str, Any]) -> list[Result]:
    """The result that a message of a tool holds; SWE-agent names several ids where one observation answers them."""
    ids = item.get("tool_call_id")
    several = item.get("tool_call_ids") if ids is None else [ids]
    error = item.get("error")
    told: str | None = None
    if isinstance(error, Mapping):
        told = ": ".join(str(error[one]) for one in ("type", "message") if isinstance(error.get(one), str))
        told = told or "failed"
    elif error:
        told = str(error)[:2_000]
    elif item.get("is_error") is True:
        told = "failed"
    name = name_text(item.get("name") or item.get("function"))
    named = [name_text(one) for one in several] if isinstance(several, list) and several else [None]
    return [Result(name, one, item.get("content"), told) for one in named]


def _asked(item: Mapping[str, Any]) -> tuple[list[Call], list[Result], bool]:
    """The tools that a message calls, the results that stand in its parts, and whether it says anything else."""
    calls: list[Call] = []
    results: list[Result] = []
    said = True
    if isinstance(item.get("content"), list):
        for one in read_messages({"role": "unknown", "content": item["content"]}):
            calls += one.calls
            results += one.results
            said = not one.empty or bool(one.calls)
    if isinstance(item.get("tool_calls"), list) or isinstance(item.get("function_call"), Mapping):
        asked = {one: item[one] for one in ("tool_calls", "function_call") if item.get(one) is not None}
        for one in read_messages({"role": "assistant", "content": None, **asked}):
            calls += one.calls
            said = True
    return calls, results, said


# --- facts ---


@lru_cache(maxsize=1)
def _validator() -> Validator:
    validator = Validator("off")
    validator.schemas.complete()
    return validator


def fitting(event_type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with what does not fit the schema of its type moved to ``native.unfit``."""
    moved: dict[str, Any] = {}
    for _ in range(len(payload)):
        whole = {**payload, "native": {**payload.get("native", {}), "unfit": moved}} if moved else payload
        payload_json = jsonvalue.encode(whole).json
        if _validator().fits(event_type, payload_json):
            return whole
        misfit = _validator().schemas.misfit(event_type, 1, payload_json)
        if misfit is None:
            return whole
        key = max((one for one in payload if misfit.path.startswith(f"$.{one}")), key=len, default=None)
        if key is None or key == "native":
            return whole
        payload = {one: value for one, value in payload.items() if one != key}
        moved[key] = whole[key]
    return payload


def digest(value: Any, chars: int = 16) -> str:
    """A short name of what a file says, that is the same however it is written down."""
    return sha256(jsonvalue.encode(_sorted(value)).json).hexdigest()[:chars]


def _sorted(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [[key, value[key]] for key in sorted(value)]
    return [value]


def moment(value: object) -> str | None:
    """A time as it is recorded, of ISO 8601 text (without a zone: UTC) or seconds since 1970; else ``None``."""
    if isinstance(value, str):
        text = value.strip()
        for zone in ("", "Z"):
            try:
                return timestamp_text(text + zone)
            except InvalidEvent:
                pass
        try:
            return timestamp_text(datetime.fromisoformat(text).replace(tzinfo=timezone.utc))
        except (ValueError, InvalidEvent):
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return None
    try:
        return timestamp_text(datetime.fromtimestamp(value, timezone.utc))
    except (ValueError, OverflowError, OSError, InvalidEvent):
        return None


def usage_of(given: object) -> dict[str, int] | None:
    """Tokens by the names of the schema, of the names that providers use; ``None`` where there are none."""
    if not isinstance(given, Mapping):
        return None
    found: dict[str, int] = {}
    for name, keys in _COUNTS.items():
        values = [given.get(key) for key in keys]
        for outer, inner in _DETAILS.get(name, ()):
            details = given.get(outer)
            values.append(details.get(inner) if isinstance(details, Mapping) else None)
        counts = [int(value) for value in values if value is not None and _is_count(value)]
        if counts:
            found[name] = counts[0]
    return found or None


def _is_count(value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 2**53
        and value == int(value)
    )
