"""Group-chat logs as AG2's studies of failing agents publish them: one JSON object a run, with the step that went wrong.

The files of ag2ai/Agents_Failure_Attribution ("Who&When"): ``history`` is the chat, beside it stand the question, the
right answer and what people marked. ``docs/importing.md`` has the table of what becomes what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from chatsnapshot import jsonvalue
from chatsnapshot.importers.base import Piece, Problem, event_id, name_text, title_of
from chatsnapshot.importers.chatrun import fitting
from chatsnapshot.importers.jsontext import Document, read_object

__all__ = ["AG2Logs"]

RUNTIME = "ag2"
LABELS = ("is_correct", "is_corrected", "mistake_agent", "mistake_step", "mistake_reason")
"""What people marked: no part of what the run is, so that a file with other marks is the same run."""

_STEP_KEYS = frozenset({"content", "role", "name"})
_ROLES = frozenset({"system", "user", "assistant", "tool", "function", "developer"})
_ASIDE = re.compile(r"(?P<name>[^()]+?) \((?:-> ?(?P<to>[^()]+)|(?P<aside>[^()]*))\)")
_EXECUTED = re.compile(r"exitcode: (-?\d{1,10}) \(execution (?:succeeded|failed)\)\nCode output:")
_CODE = re.compile(r"```[ \t]*(\w+)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```", re.DOTALL)
"""A block of code as AG2 finds it in the message before an execution."""


class Step(NamedTuple):
    """One item of the history, read."""

    number: int
    offset: int
    name: str | None
    role: str
    to: str | None
    thought: bool
    content: Any
    native_role: Any

    @property
    def person(self) -> bool:
        """Whether a person speaks."""
        return self.name == "human" and self.role == "user"


class AG2Logs:
    """Reads one log into one run."""

    kind = "ag2-logs"
    what = "an AG2 group-chat log with its marked mistake"

    def looks_like(self, head: bytes) -> float:
        """By the keys beside ``history``, else by the shape of its items."""
        document = read_object(head)
        history = document.members.get("history")
        marks = sum(key in document.members for key in ("mistake_agent", "mistake_step", "mistake_reason"))
        if not isinstance(history, list):
            # The history may begin behind a long prompt.
            return 0.9 if marks == 3 else 0.0
        if marks == 3 or not history:
            return 1.0 if marks == 3 else 0.4
        fitting = sum(isinstance(item, dict) and _STEP_KEYS >= item.keys() >= {"content"} for item in history)
        return 0.8 * fitting / len(history)

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The run of a log: its start, what was said and executed, its end, and what people marked."""
        document = read_object(data)
        if document.problem is not None:
            yield document.problem
        if "history" not in document.members:
            if document.problem is None:
                yield Problem(0, "there is no 'history'")
            return
        yield from _Run(document, len(data)).pieces()


class _Run:
    """One run as it is written down; ``cause`` is the event that the next one follows from."""

    def __init__(self, document: Document, end: int) -> None:
        self.facts = document.members
        self.offsets = document.offsets.get("history", [])
        self.partial = document.problem is not None
        self.end = end
        self.correlation = _correlation(self.facts, self.partial)
        self.cause: str | None = None
        self.said: dict[int, str] = {}

    def pieces(self) -> Iterator[Piece | Problem]:
        yield self._started()
        history = self.facts["history"]
        last: Step | None = None
        for number, item in enumerate(history if isinstance(history, list) else ()):
            offset = self.offsets[number]
            if not isinstance(item, Mapping):
                yield Problem(offset, f"step {number} is no object")
                continue
            step = _step(number, offset, item)
            yield from self._between(last, step)
            yield self._said(step)
            last = step
        if not isinstance(history, list):
            yield Problem(0, "'history' is no list")
        elif not self.partial:
            ended = {"reason": "the log ends here", "native": _TIMES}
            yield self._event(self.end, "execution.run_completed", "end", ended)
        yield from self._judged()

    def _started(self) -> Piece:
        facts = self.facts
        question = facts.get("question")
        known = ("question_ID", "level", "ground_truth")
        payload = {
            "name": title_of(question),
            "input": question,
            "instructions": facts.get("system_prompt"),
            "session": name_text(facts.get("question_ID")),
            "tags": ["ag2-logs", "partial"] if self.partial else ["ag2-logs"],
            "native": {"format": "ag2-logs", **{key: facts[key] for key in known if key in facts}, **_TIMES},
        }
        payload = {key: value for key, value in payload.items() if value is not None}
        return self._event(0, "execution.run_started", "start", payload, source=_source("system", None))

    def _between(self, last: Step | None, step: Step) -> Iterator[Piece]:
        """What lies between two messages: the turn goes to another agent, and code is executed."""
        native = {"step": step.number, **_TIMES}
        if last is not None and _handed(last, step):
            given = {"from": last.name, "to": step.name, "native": native}
            source = _source("agent", last.name)
            yield self._event(
                step.offset, "execution.handoff", f"handoff {step.number}", given, source=source
            )
        found = _EXECUTED.match(step.content) if isinstance(step.content, str) else None
        if found is None:
            return
        call_id, source = f"step-{step.number}", _source("agent", step.name)
        blocks = _CODE.findall(last.content) if last is not None and isinstance(last.content, str) else []
        if blocks:
            code = [{"language": language, "code": text} for language, text in blocks]
            call = {
                "name": "execute_code",
                "call_id": call_id,
                "arguments": {"blocks": code},
                "native": native,
            }
            yield self._event(step.offset, "execution.tool_call", f"call {step.number}", call, source=source)
        status = int(found[1])
        result: dict[str, Any] = {"name": "execute_code", "call_id": call_id, "result": {"exit_code": status}}
        if status:
            result |= {"is_error": True, "error": f"exit code {status}"}
        result["native"] = native
        yield self._event(
            step.offset, "execution.tool_result", f"result {step.number}", result, source=source
        )

    def _said(self, step: Step) -> Piece:
        payload: dict[str, Any] = {"role": step.role, "name": step.name, "content": step.content}
        if step.thought:
            payload = {"role": step.role, "name": step.name, "content": None, "reasoning": step.content}
        if step.to is not None:
            payload["recipient"] = step.to
        payload["native"] = {"step": step.number, "role": step.native_role, **_TIMES}
        source = _source("ui" if step.person else "agent", step.name)
        key = f"message {step.number}"
        self.said[step.number] = event_id(self.correlation, key)
        return self._event(step.offset, "execution.message", key, payload, source=source)

    def _judged(self) -> Iterator[Piece | Problem]:
        """What people marked: whether the answer is right, and the step that went wrong."""
        for key in ("is_correct", "is_corrected"):
            if isinstance(correct := self.facts.get(key), bool):
                payload: dict[str, Any] = {
                    "run_id": self.correlation,
                    "name": "is_correct",
                    "label": str(correct).lower(),
                    "native": {"key": key, "ground_truth": self.facts.get("ground_truth"), **_TIMES},
                }
                yield self._judgement(payload, event_id(self.correlation, "start"))
        marked = self.facts.get("mistake_step")
        if marked in (None, ""):
            return
        number = _number(marked)
        native = {
            **{key: self.facts[key] for key in LABELS if key in self.facts and key.startswith("mistake")},
            **_TIMES,
        }
        payload = {
            "name": "mistake",
            "label": "faulty",
            "comment": self.facts.get("mistake_reason"),
            "native": native,
        }
        if number not in self.said:
            yield Problem(
                self.end, f"mistake_step is {marked!r:.40}, and there is no such step: the run is marked"
            )
            yield self._judgement(
                {"run_id": self.correlation, **payload}, event_id(self.correlation, "start")
            )
            return
        target = self.said[number]
        yield self._judgement({"target_event_id": target, **payload}, target)

    def _judgement(self, payload: dict[str, Any], target: str) -> Piece:
        # Other marks are another judgement, so that a file whose marks were mended adds the new ones.
        digest = sha256(jsonvalue.encode(payload).json).hexdigest()[:32]
        payload = {key: value for key, value in payload.items() if value is not None}
        payload["evaluator"] = "annotation"
        self.cause = target
        source = _source("system", "annotation")
        return self._event(self.end, "execution.evaluation", f"mark {digest}", payload, source=source)

    def _event(
        self,
        offset: int,
        event_type: str,
        key: str,
        payload: Mapping[str, Any],
        *,
        source: Mapping[str, str] | None = None,
    ) -> Piece:
        event = {
            "event_type": event_type,
            "event_id": event_id(self.correlation, key),
            "correlation_id": self.correlation,
            "causation_id": self.cause,
            "source": source or _source("system", None),
            "payload": fitting(event_type, {**payload}),
        }
        self.cause = event_id(self.correlation, key)
        return Piece(offset, event)


def _handed(last: Step, step: Step) -> bool:
    """Whether the turn goes from one agent to another; a person's request is no handoff."""
    return None not in (last.name, step.name) and last.name != step.name and not (last.person or step.person)


_TIMES = {"time": "unknown"}
"""The log has no times: what the ledger fills in is the time of the import, and views show none."""


def _correlation(facts: Mapping[str, Any], partial: bool) -> str:
    """The run's id: that of its question and of what the file says, marks apart; of a torn file one of its own."""
    told = {key: facts[key] for key in sorted(facts) if key not in LABELS}
    digest = sha256(jsonvalue.encode([[key, value] for key, value in told.items()]).json).hexdigest()
    question = name_text(facts.get("question_ID"), 64)
    return "-".join(filter(None, ("ag2", question, digest[:16], "partial" if partial else "")))


def _step(number: int, offset: int, item: Mapping[str, Any]) -> Step:
    role, content, name = item.get("role"), item.get("content"), name_text(item.get("name"))
    if name is not None or (isinstance(role, str) and role in _ROLES):
        return Step(number, offset, name, name_text(role) or "assistant", None, False, content, role)
    # Logs without names have the speaker in the role: "Orchestrator (-> WebSurfer)", "Orchestrator (thought)",
    # "Orchestrator (termination condition)", "human".
    speaker, to, thought = name_text(role), None, False
    found = _ASIDE.fullmatch(role) if isinstance(role, str) else None
    if found is not None:
        speaker, to, thought = name_text(found["name"]), name_text(found["to"]), found["aside"] == "thought"
    said = "user" if speaker == "human" else "assistant"
    return Step(number, offset, speaker, said, to, thought, content, role)


def _source(origin: str, name: str | None) -> dict[str, str]:
    source = {"origin": origin, "runtime": RUNTIME}
    return source if name is None else {**source, "name": name}


def _number(marked: object) -> int | None:
    if isinstance(marked, int) and not isinstance(marked, bool):
        return marked
    text = marked.strip() if isinstance(marked, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
