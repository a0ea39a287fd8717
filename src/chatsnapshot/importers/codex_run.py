"""One thread of Codex: what the lines of its rollout become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chatsnapshot.events.fields import text_of
from chatsnapshot.importers.base import Piece, name_text, title_of
from chatsnapshot.importers.codex_items import (
    CALLS,
    agent_begun,
    call_of,
    content_parts,
    digest_of,
    error_in,
    is_injected,
    output_of,
    picture,
    question_of,
    said_by_person,
    speaks,
    text_of_parts,
    thoughts_of,
    usage_of,
    without_history,
)
from chatsnapshot.importers.codex_meta import RUNTIME, Meta
from chatsnapshot.importers.codex_twins import Twins
from chatsnapshot.importers.narrating import Narration
from chatsnapshot.importers.transcripts import Found, Line

__all__ = ["CodexRun"]


Begun = Callable[[str, str, str], None]
"""Is told of a thread that a call began: its id, the event of the call, the correlation of that."""


class CodexRun:
    """Reads the lines of one thread in their order; ``begun`` is told of threads that it begins."""

    def __init__(
        self, meta: Meta, correlation: str, cause: str | None, parent: str | None, begun: Begun
    ) -> None:
        self.told = Narration(RUNTIME, correlation, meta.agent, cause=cause, first_holds=meta.child)
        self.start_id = self.told.id_of(f"{correlation} start")
        self.meta = meta
        self.history: list[tuple[str, str | None]] = []
        """The digest of each line's payload, and the event after it: what a fork copies."""
        self.reviews: list[tuple[str, str]] = []
        """The time and event of each review that was begun, of which the thread is not known."""
        self._parent = parent
        self._begun = begun
        self._waiting: list[Line] = []
        self._twins = Twins()
        self._context: dict[str, Any] = {}
        self._totals: Any = None
        self._asked: str | None = None
        self._turns: list[str | None] = []
        self._explicit = False
        self._rests = False
        self._compacted = False
        self._number = 0

    def take(self, line: Line) -> Found:
        """What a line tells; those before anything is said wait for the start, which is named by it."""
        if not self.told.started:
            if not speaks(line.facts):
                self._waiting.append(line)
                return
            yield self._start(line)
            waiting, self._waiting = self._waiting, []
            for early in waiting:
                yield from self._line(early)
        yield from self._line(line)

    def settle(self) -> Found:
        """What can be told when no line follows."""
        if not self.told.started and self._waiting:
            yield self._start(self._waiting[0])
            for early in self._waiting:
                yield from self._line(early)
        elif self.told.started and self._rests and not self._explicit and not self.told.unanswered:
            yield from self.told.ends(self._last)

    def _start(self, line: Line) -> Piece:
        facts = self.meta.facts
        text = said_by_person(line.facts)
        instructions = facts.get("base_instructions") or facts.get("instructions")
        if isinstance(instructions, Mapping) and set(instructions) == {"text"}:
            instructions = instructions["text"]
        payload = {
            "name": title_of(text) or ("review" if self.meta.review else "Codex session"),
            "run_id": self.told.correlation,
            "parent_run_id": self._parent,
            "session": name_text(facts.get("session_id") or facts.get("id")),
            "tags": [RUNTIME],
            "version": name_text(facts.get("cli_version")),
            "input": text or None,
            "instructions": instructions,
            "agent": self.told.agent,
        }
        known = ("instructions", "base_instructions", "id", "session_id", "timestamp", "cli_version")
        native = {name: value for name, value in facts.items() if name not in known}
        began = self._waiting[0] if self._waiting else line
        return self.told.starts(began, payload, native)

    # --- one line ---

    def _line(self, line: Line) -> Found:
        facts = line.facts
        kind, item = facts.get("type"), facts.get("payload")
        self._number += 1
        self._last = line
        key = f"{self.told.correlation} line {self._number} {line.digest[:16]}"
        if not isinstance(item, Mapping):
            item = facts  # the oldest rollouts have bare items
            kind = "session_meta" if "type" not in facts and "id" in facts else "response_item"
        if kind == "session_meta" or facts.get("record_type") == "state":
            pass  # the start has what it says
        elif kind == "response_item":
            yield from self._item(line, key, item)
        elif kind == "event_msg":
            yield from self._event(line, key, item)
        elif kind == "turn_context":
            yield from self._turn_context(line, key, item)
        elif kind == "compacted":
            self._compacted = True
            yield self._state(line, key, "compaction", item.get("message"), without_history(item))
        else:
            yield self._state(line, key, name_text(kind) or "line without a type", dict(item))
        self.history.append((digest_of(facts), self.told.last))

    def _item(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        kind = name_text(item.get("type"))
        if kind == "message":
            yield from self._message(line, key, item)
        elif kind == "reasoning":
            yield from self._thought(line, key, "item", thoughts_of(item))
        elif kind in CALLS:
            yield from self._call(line, key, item)
        elif kind is not None and kind.endswith("_output"):
            yield from self._output(line, key, item)
        elif kind != "ghost_snapshot":
            yield self._state(line, key, kind or "item", dict(item))

    def _event(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        kind = item.get("type")
        if kind == "user_message":
            yield from self._prompt(line, key, "event", text_of(item.get("message")), item)
        elif kind == "agent_message":
            yield from self._answer(
                line, key, "event", [{"type": "text", "content": text_of(item.get("message"))}], item
            )
        elif kind in ("agent_reasoning", "agent_reasoning_raw_content"):
            yield from self._thought(line, key, "event", [text_of(item.get("text"))])
        elif kind == "token_count":
            yield from self._tokens(line, key, item)
        elif kind in ("task_started", "turn_started"):
            yield from self._turn(line, key)
            self._explicit = True
        elif kind in ("task_complete", "turn_complete"):
            self._explicit = self._rests = False
            yield from self.told.ends(line, output=item.get("last_agent_message"))
        elif kind == "turn_aborted":
            self._explicit = self._rests = False
            yield from self.told.ends(line, "cancelled", reason=text_of(item.get("reason")) or "aborted")
        elif kind == "thread_rolled_back":
            yield from self._rolled_back(line, key, item)
        elif kind == "context_compacted" and self._compacted:
            self._compacted = False  # said by the line before
        elif kind in ("error", "stream_error"):
            payload = {"error": {"type": str(kind), "message": text_of(item.get("message")) or "failed"}}
            yield self.told.piece(
                line, "system.error", f"{key} error", payload, origin="system", native=_rest(item)
            )
        else:
            yield from self._noted(line, key, item)

    # --- what is said ---

    def _message(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        parts = content_parts(item.get("content"))
        text, role = text_of_parts(parts), name_text(item.get("role")) or "unknown"
        if role == "assistant":
            yield from self._answer(line, key, "item", parts, item)
        elif role == "user" and not is_injected(text):
            yield from self._prompt(line, key, "item", text, item, parts)
        else:
            payload = {"role": role, "name": RUNTIME, "parts": parts}
            yield self.told.piece(
                line, "execution.message", f"{key} message", payload, origin="system", native=_native(line)
            )

    def _prompt(
        self,
        line: Line,
        key: str,
        form: str,
        text: str,
        item: Mapping[str, Any],
        parts: list[dict[str, Any]] | None = None,
    ) -> Found:
        if self._twins.told("user", form, text):
            return
        if not self._explicit or not self.told.open:
            yield from self._turn(line, key)
        self._twins.told("user", form, text)
        if parts is None:
            urls = item.get("images")
            pictures = (
                [picture(url) for url in urls if isinstance(url, str)] if isinstance(urls, list) else []
            )
            parts = [{"type": "text", "content": text}, *pictures]
        person = not self.meta.child
        payload = {"role": "user", "name": None if person else RUNTIME, "parts": parts}
        yield self.told.piece(
            line,
            "execution.message",
            f"{key} message",
            payload,
            origin="ui" if person else "system",
            native=_native(line),
        )
        self._asked, self._rests = self.told.last, False

    def _answer(
        self, line: Line, key: str, form: str, parts: list[dict[str, Any]], item: Mapping[str, Any]
    ) -> Found:
        if self._twins.told("assistant", form, text_of_parts(parts)):
            return
        yield from self._goes_on(line, key)
        payload = {"role": "assistant", "parts": parts, "model": self._model}
        native = {**_native(line), "id": item.get("id"), "phase": item.get("phase")}
        yield self.told.piece(line, "execution.message", f"{key} message", payload, native=native)
        self._rests = True

    def _thought(self, line: Line, key: str, form: str, texts: list[str]) -> Found:
        new = [text for text in texts if text and not self._twins.told("thought", form, text)]
        if not new:
            return
        yield from self._goes_on(line, key)
        thoughts = [{"type": "reasoning", "content": text} for text in new]
        payload = {"role": "assistant", "parts": thoughts, "model": self._model}
        yield self.told.piece(line, "execution.message", f"{key} message", payload, native=_native(line))
        self._rests = False

    # --- tools ---

    def _call(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        name, arguments = call_of(item)
        call_id = name_text(item.get("call_id") or item.get("id")) or key
        yield from self._goes_on(line, key)
        yield self.told.calls_tool(
            line, f"{key} call", call_id, name_text(name), arguments, self.told.last, _native(line)
        )
        self._rests = False
        asked = question_of(name, arguments)
        if asked is not None:
            yield self.told.asks(line, f"{key} question", call_id, asked)
        if item.get("type") in ("web_search_call", "image_generation_call"):
            # Tools of the provider: the item is written when they have ended.
            result = item.get("result", item.get("status"))
            error = "failed" if item.get("status") == "failed" else None
            yield self.told.answers_tool(line, f"{key} result", call_id, result, error, None, {})

    def _output(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        call_id, output = name_text(item.get("call_id")), output_of(item)
        call = self.told.calls.get(call_id or "")
        error = error_in(item, output)
        if call is not None and call_id is not None and call.question is not None:
            yield self.told.answered(
                line, f"{key} answer", call_id, {"answer": output if output is not None else ""}
            )
        yield self.told.answers_tool(
            line, f"{key} result", call_id, output, error, self.told.last, _native(line)
        )
        self._asked, self._rests = self.told.last, False
        thread = agent_begun(call.name if call is not None else None, output)
        if thread is not None and call is not None:
            self._begun(thread, call.event_id, self.told.correlation)

    # --- what the program notes ---

    @property
    def _model(self) -> str | None:
        return name_text(self._context.get("model"))

    def _turn(self, line: Line, key: str) -> Found:
        self._twins.clear()
        self._turns.append(self.told.last)
        yield from self.told.turns(line, key)

    def _goes_on(self, line: Line, key: str) -> Found:
        """The model acts: a turn is under way, whether or not it was told."""
        if not self.told.open:
            self._turns.append(self.told.last)
            yield from self.told.turns(line, key, reason="the agent goes on")

    def _turn_context(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        """What the model works with; told when it changes."""
        facts = {
            name: value for name, value in item.items() if name not in ("turn_id", "trace_id", "current_date")
        }
        if facts != self._context:
            self._context = facts
            yield self._state(line, key, "turn_context", facts)

    def _tokens(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        """One model call, where the totals have moved: the same counts are written again with the rate limits."""
        info = item.get("info")
        totals = info.get("total_token_usage") if isinstance(info, Mapping) else None
        if not isinstance(info, Mapping) or totals is None or totals == self._totals:
            return
        self._totals = totals
        payload = {
            "model": self._model,
            "provider": name_text(self.meta.facts.get("model_provider")),
            "usage": usage_of(info),
        }
        yield self.told.piece(
            line,
            "execution.model_call",
            f"{key} model",
            payload,
            cause=self._asked or self.told.last,
            native=_native(line),
            aside=True,
        )

    def _rolled_back(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        """The last turns are taken back: what follows goes on from before them, and they stay on the record."""
        number = item.get("num_turns")
        number = min(number, len(self._turns)) if type(number) is int and number > 0 else 0
        left = self.told.last
        back = self._turns[-number] if number else left
        del self._turns[len(self._turns) - number :]
        yield from self.told.ends(line)
        payload = {"name": "rolled_back", "to": back, "value": item.get("num_turns")}
        links = [back] if back is not None and back != left else []
        yield self.told.piece(
            line,
            "execution.state_change",
            f"{key} state",
            payload,
            cause=left,
            links=links,
            origin="system",
            native=_native(line),
            aside=True,
        )
        self.told.last = back
        self._explicit = self._rests = False

    def _noted(self, line: Line, key: str, item: Mapping[str, Any]) -> Found:
        """Any other event; one that names a call follows from that."""
        kind = name_text(item.get("type")) or "event"
        call_id = name_text(item.get("call_id") or item.get("event_id"))
        call = self.told.calls.get(call_id or "")
        thread = name_text(item.get("new_thread_id") or item.get("agent_thread_id"))
        cause = call.event_id if call is not None else self.told.last
        value = {name: one for name, one in item.items() if name != "type"}
        yield self._state(line, key, kind, value, cause=cause, aside=call is not None)
        if thread is not None and call is not None:
            self._begun(thread, call.event_id, self.told.correlation)
        if kind == "entered_review_mode":
            self.reviews.append((line.at or line.order, self.told.last or self.start_id))

    def _state(
        self,
        line: Line,
        key: str,
        name: str,
        value: Any,
        more: Mapping[str, Any] | None = None,
        *,
        cause: str | None = None,
        aside: bool = False,
    ) -> Piece:
        native = {**_native(line), **(_rest(more) if more is not None else {})}
        return self.told.piece(
            line,
            "execution.state_change",
            f"{key} state",
            {"name": name, "value": value},
            cause=cause if cause is not None else self.told.last,
            origin="system",
            native=native,
            aside=aside,
        )


def _native(line: Line) -> dict[str, Any]:
    """The digest of a line, and the number that newer versions give it."""
    return {"line": line.digest, "ordinal": line.facts.get("ordinal")}


def _rest(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("type", "message")}
