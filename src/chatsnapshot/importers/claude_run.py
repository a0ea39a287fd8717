"""One run of a Claude Code session, its own or a sub-agent's: what its lines become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.events.fields import text_of
from chatsnapshot.importers.base import Piece, name_text, title_of
from chatsnapshot.importers.claude_blocks import (
    answer_of,
    blocks_of,
    error_of,
    is_call,
    is_result,
    kind_of,
    native_of,
    parts_of,
    question_of,
    result_of,
    text_in,
    usage_of,
)
from chatsnapshot.importers.claude_spawns import Spawn, Spawns, agent_told
from chatsnapshot.importers.claude_tree import Node, Tree
from chatsnapshot.importers.narrating import Narration
from chatsnapshot.importers.transcripts import Found, Line

__all__ = ["ClaudeRun"]

RUNTIME = "claude-code"
ENDS = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
"""Why a model stopped, where nothing of its turn follows."""


class _Model(NamedTuple):
    """A model call that may not be over: one answer is written in several lines, each with its counts so far."""

    message_id: str
    key: str
    cause: str | None
    line: Line


class ClaudeRun:
    """Reads the lines of one run in their order."""

    def __init__(
        self,
        session: str,
        correlation: str,
        spawns: Spawns,
        *,
        spawn: Spawn | None = None,
        cause: str | None = None,
        parent: str | None = None,
        child: bool = False,
    ) -> None:
        agent = (spawn.kind if spawn is not None else None) or ("subagent" if child else RUNTIME)
        self.told = Narration(RUNTIME, correlation, agent, cause=cause, first_holds=child)
        self.start_id = self.told.id_of(f"{correlation} start")
        self.spawned: Callable[[str], ClaudeRun | None] = lambda _: None
        self._session = session
        self._spawns = spawns
        self._spawn = spawn
        self._parent = parent
        self._child = child
        self._waiting: list[Line] = []
        self._tree = Tree(session, correlation)
        self._said = -1
        self._rests = False
        self._model: _Model | None = None
        self._home: dict[str, Any] = {}

    def take(self, line: Line) -> Found:
        """What a line tells; those before anything is said wait for the start, which is named by it."""
        if not self.told.started:
            if line.facts.get("type") not in ("user", "assistant"):
                self._waiting.append(line)
                return
            yield self._start(line)
            waiting, self._waiting = self._waiting, []
            for early in waiting:
                yield from self._line(early)
        yield from self._line(line)

    def settle(self) -> Found:
        """What can be told when no line follows: a turn whose last word is said is over."""
        if not self.told.started:
            if self._waiting:
                yield self._start(self._waiting[0])
                for early in self._waiting:
                    yield from self._line(early)
            return
        if self._model is None:
            return
        line = self._model.line
        if all("thinking" in str(block.get("type")) for block in blocks_of(line.facts["message"])):
            return  # the answer itself is still to come, and the counts with it
        yield from self._model_call()
        yield from self._rested(line)

    def _rested(self, line: Line) -> Found:
        """Ends a turn whose last word is said, where something follows that is no part of it."""
        if self._rests and not self.told.unanswered:
            yield from self._model_call()
            yield from self.told.ends(line)

    def answered_by(self, line: Line, error: str | None) -> Found:
        """The call that began this run has its result."""
        yield from self._model_call()
        if error is None:
            yield from self.told.ends(line)
        else:
            yield from self.told.ends(line, "failed", error=error)

    # --- one line ---

    def _line(self, line: Line) -> Found:
        facts = line.facts
        key = self._tree.key(line)
        if key is None:
            return
        node = self._tree.node(facts.get("logicalParentUuid") or facts.get("parentUuid"))
        cause = node.event_id if node is not None and node.event_id is not None else self.told.last
        kind = facts.get("type")
        message = facts.get("message")
        if kind == "user" and isinstance(message, (Mapping, str)) and blocks_of(message):
            yield from self._user(line, key, cause, node)
        elif kind == "assistant" and isinstance(message, Mapping):
            yield from self._assistant(line, key, cause, message)
        elif kind == "progress":
            self._linked(facts)
            self._tree.note(facts, cause)
            return
        elif kind == "system":
            yield from self._system(line, key, cause)
        else:
            yield from self._other(line, key, cause)
        self._tree.note(facts, self.told.last)

    def _start(self, line: Line) -> Piece:
        facts = line.facts
        self._home = {name: facts.get(name) for name in ("cwd", "gitBranch", "version")}
        text = text_in(blocks_of(facts.get("message"))) if facts.get("type") == "user" else ""
        title = self._spawn.title if self._spawn is not None else None
        payload = {
            "name": title or title_of(text) or "Claude Code session",
            "run_id": self.told.correlation,
            "parent_run_id": self._parent,
            "session": name_text(self._session),
            "tags": [RUNTIME],
            "version": name_text(facts.get("version")),
            "input": text or None,
            "agent": self.told.agent,
        }
        native = {
            "cwd": facts.get("cwd"),
            "git_branch": facts.get("gitBranch"),
            "agent_id": facts.get("agentId"),
        }
        return self.told.starts(line, payload, native)

    def _native(self, line: Line) -> dict[str, Any]:
        return native_of(line, self._home)

    # --- what a person or a tool says ---

    def _user(self, line: Line, key: str, cause: str | None, node: Node | None) -> Found:
        facts = line.facts
        blocks = blocks_of(facts.get("message"))
        for number, block in enumerate(blocks):
            if is_result(block):
                yield from self._result(line, f"{key} result {number}", block, cause)
        rest = [block for block in blocks if not is_result(block)]
        if not rest:
            return
        text = text_in(rest)
        written = "told" if self._child and self.told.turn else kind_of(facts, text)
        if written == "prompt":
            yield from self._model_call()
            yield from self._rewound(line, key, node)
            yield from self.told.turns(line, key, cause=cause)
            cause = self.told.last
        else:
            yield from self._rested(line)
        self._rests = False
        person = written != "told" and not self._child
        payload = {"role": "user", "name": None if person else RUNTIME, "parts": parts_of(rest)}
        yield self.told.piece(
            line,
            "execution.message",
            f"{key} message",
            payload,
            cause=cause,
            origin="ui" if person else "system",
            native=self._native(line),
        )
        self._said = self._tree.size
        if written == "interruption":
            yield from self._model_call()
            yield from self.told.ends(line, "cancelled", reason="interrupted by the user")

    def _rewound(self, line: Line, key: str, node: Node | None) -> Found:
        """A prompt that goes on from further back than what was said last leaves that aside."""
        if node is None or node.number >= self._said or node.event_id is None:
            return
        left = self.told.last
        yield from self.told.ends(line)
        payload = {
            "name": "rewound",
            "to": node.event_id,
            "reason": "the person went on from an earlier message",
        }
        links = [node.event_id]
        yield self.told.piece(
            line, "execution.state_change", f"{key} rewound", payload, cause=left, links=links, aside=True
        )

    def _result(self, line: Line, key: str, block: Mapping[str, Any], cause: str | None) -> Found:
        structured = line.facts.get("toolUseResult")
        self._rests = False
        call_id = name_text(block.get("tool_use_id"))
        result, error = result_of(block), error_of(block)
        call = self.told.calls.get(call_id or "")
        native = self._native(line)
        if isinstance(structured, (Mapping, list)):
            native["result"] = structured
        if call is not None and call.question is not None and call_id is not None:
            answer = answer_of(call.name or "", structured, result, error)
            yield self.told.answered(line, f"{key} answer", call_id, answer)
        yield self.told.answers_tool(line, key, call_id, result, error, cause, native)
        agent, over = agent_told(structured, result)
        spawn = self._spawns.told(call_id, agent)
        self._spawns.answered(call_id)
        child = self.spawned(agent) if spawn is not None and agent is not None else None
        if child is not None and over:
            yield from child.answered_by(line, error)

    def _linked(self, facts: Mapping[str, Any]) -> None:
        """A note on how a sub-agent gets on names it and the call that began it."""
        data = facts.get("data")
        if isinstance(data, Mapping):
            self._spawns.told(facts.get("parentToolUseID"), data.get("agentId"))

    # --- what the model says ---

    def _assistant(self, line: Line, key: str, cause: str | None, message: Mapping[str, Any]) -> Found:
        message_id = name_text(message.get("id")) or key
        if self._model is None or self._model.message_id != message_id:
            yield from self._model_call()
            if not self.told.open:
                yield from self.told.turns(line, key, reason="the agent goes on", cause=cause)
                cause = self.told.last
            self._model = _Model(message_id, key, cause, line)
        else:
            self._model = self._model._replace(line=line)
        blocks = blocks_of(message)
        said = [block for block in blocks if not is_call(block) and not is_result(block)]
        if said:
            payload = {
                "role": "assistant",
                "parts": parts_of([block for block in blocks if not is_result(block)]),
                "model": name_text(message.get("model")),
                "finish_reason": name_text(message.get("stop_reason")),
            }
            native = self._native(line)
            yield self.told.piece(
                line, "execution.message", f"{key} message", payload, cause=cause, native=native
            )
            self._said, cause = self._tree.size, self.told.last
        for number, block in enumerate(blocks):
            if is_call(block):
                yield from self._call(line, f"{key} call {number}", block, cause)
            elif is_result(block):
                yield from self._result(line, f"{key} result {number}", block, cause)
        self._rests = bool(text_in(blocks)) and not any(is_call(block) for block in blocks)
        over = name_text(message.get("stop_reason")) in ENDS or line.facts.get("isApiErrorMessage") is True
        if over:
            yield from self._rested(line)

    def _call(self, line: Line, key: str, block: Mapping[str, Any], cause: str | None) -> Found:
        call_id, name = name_text(block.get("id")) or key, name_text(block.get("name"))
        arguments = block.get("input")
        yield self.told.calls_tool(line, key, call_id, name, arguments, cause, self._native(line))
        self._said = self._tree.size
        self._spawns.called(call_id, name, arguments, self.told.id_of(key), self.told.correlation)
        asked = question_of(name, arguments)
        if asked is not None:
            yield self.told.asks(line, f"{key} question", call_id, asked)

    def _model_call(self) -> Found:
        """The model call is over: what its last line says of it counts."""
        found, self._model = self._model, None
        if found is None:
            return
        message = found.line.facts["message"]
        failed = found.line.facts.get("isApiErrorMessage") is True
        model = name_text(message.get("model"))
        if model == "<synthetic>" and not failed:
            return  # the program's own words
        payload = {
            "model": None if model == "<synthetic>" else model,
            "provider": "anthropic",
            "usage": None if model == "<synthetic>" else usage_of(message),
            "finish_reason": name_text(message.get("stop_reason")),
            "error": text_in(blocks_of(message)) or "failed" if failed else None,
        }
        native = {"message_id": message.get("id"), "request_id": found.line.facts.get("requestId")}
        yield self.told.piece(
            found.line,
            "execution.model_call",
            f"{found.key} model",
            payload,
            cause=found.cause,
            native=native,
            aside=True,
            first_holds=True,
        )

    # --- what the program notes ---

    def _system(self, line: Line, key: str, cause: str | None) -> Found:
        facts = line.facts
        subtype = name_text(facts.get("subtype")) or "system"
        if subtype == "api_error":
            error = facts.get("error")
            status = error.get("status") if isinstance(error, Mapping) else None
            attempt = facts.get("retryAttempt")
            payload = {
                "provider": "anthropic",
                "error": {
                    "type": "api_error",
                    "message": text_of(facts.get("content") or status or error) or "failed",
                },
                "attempt": attempt if type(attempt) is int and attempt > 0 else None,
            }
            yield self.told.piece(
                line, "execution.model_call", f"{key} model", payload, cause=cause, native=self._native(line)
            )
            return
        name = "compaction" if subtype == "compact_boundary" else subtype
        value = facts.get("content") if facts.get("content") is not None else facts.get("durationMs")
        yield self._state(line, key, cause, name, value)
        if subtype == "turn_duration":
            yield from self._model_call()
            yield from self.told.ends(line)

    def _other(self, line: Line, key: str, cause: str | None) -> Found:
        facts = line.facts
        kind = name_text(facts.get("type")) or "line without a type"
        if kind == "queue-operation":
            payload = {
                "element": "queue",
                "action": name_text(facts.get("operation")),
                "value": facts.get("content"),
            }
            yield self.told.piece(
                line,
                "ui.interaction",
                f"{key} queue",
                payload,
                origin="ui",
                native=self._native(line),
                aside=True,
            )
            return
        value = next((facts[name] for name in (kind, "snapshot", "attachment") if name in facts), None)
        node = self._tree.node(facts.get("leafUuid"))
        if node is not None:
            cause = node.event_id
        raw = facts if kind in ("user", "assistant") or value is None else value
        yield self._state(line, key, cause, kind, raw, aside="uuid" not in facts)

    def _state(
        self, line: Line, key: str, cause: str | None, name: str, value: Any, aside: bool = False
    ) -> Piece:
        return self.told.piece(
            line,
            "execution.state_change",
            f"{key} state",
            {"name": name, "value": value},
            cause=cause,
            origin="system",
            native=self._native(line),
            aside=aside,
        )
