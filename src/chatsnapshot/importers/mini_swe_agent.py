"""Trajectories of mini-swe-agent (``.traj.json``): messages, the shell commands in them, and what these gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.events.messages import Call, Result
from chatsnapshot.importers.base import Piece, Problem, name_text, title_of
from chatsnapshot.importers.chatrun import ChatRun, digest, moment, usage_of
from chatsnapshot.importers.jsontext import Document, read_array, read_object
from chatsnapshot.importers.openai_chat import looks_like_messages

__all__ = ["MiniSweAgentTrajectories"]

_COMMAND = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
"""A command as the versions of the agent find it in a message of the model."""

_CODE = re.compile(r"<returncode>\s*(-?\d{1,10})\s*</returncode>")
_TIMED_OUT = re.compile(r"\A\s*The last command\b.{0,20000}?timed out and has been killed", re.DOTALL)
_MARKS = ("mswea_bash_command", "<returncode>", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
_AGENT = "mini-swe-agent"
_NAMES = ("exit_status", "submission", "result")


class MiniSweAgentTrajectories:
    """Reads one trajectory, with what stands around its messages or without, into one run."""

    kind = _AGENT
    what = "a mini-swe-agent trajectory (.traj.json)"

    def looks_like(self, head: bytes) -> float:
        """By the name of its format, else by the marks that the agent's prompts leave in a list of messages."""
        document = _document(head)
        if str(document.members.get("trajectory_format", "")).startswith(_AGENT):
            return 1.0
        info = document.members.get("info")
        if isinstance(info, Mapping) and "mini_version" in info:
            return 1.0
        messages = _messages(document)
        if not isinstance(messages, list) or looks_like_messages(messages) < 0.5:
            return 0.0
        told = [item.get("content") for item in messages if isinstance(item, Mapping)]
        return 0.9 if any(mark in text for text in told if isinstance(text, str) for mark in _MARKS) else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The run: its start, each message with its commands and what they gave, each model call, and the end."""
        document = _document(data)
        if document.problem is not None:
            yield document.problem
        messages = _messages(document)
        if isinstance(messages, list):
            yield from _Trajectory(document, messages, len(data)).pieces()
        elif document.problem is None:
            yield Problem(0, "there is no list of 'messages'")


def _document(data: bytes) -> Document:
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return read_array(data) if start == b"[" else read_object(data)


def _messages(document: Document) -> Any:
    return document.members.get("items" if "items" in document.offsets else "messages")


class _Trajectory:
    def __init__(self, document: Document, messages: list[Any], end: int) -> None:
        self.whole = document.problem is None
        self.messages = messages
        self.places = document.offsets.get("items") or document.offsets.get("messages", [])
        self.facts = {key: value for key, value in document.members.items() if value is not messages}
        self.info = _mapping(self.facts.get("info"))
        self.end = end
        self.task = name_text(self.facts.get("instance_id"), 80)
        name = digest([self.facts, messages])
        self.run = ChatRun(
            "-".join(filter(None, (_AGENT, self.task, name, "" if self.whole else "partial"))), _AGENT
        )
        self.waiting: list[str] = []
        """Ids of the commands of the last message whose output is not told yet."""

    def pieces(self) -> Iterator[Piece | Problem]:
        yield self._started()
        for number, item in enumerate(self.messages):
            offset = self.places[number]
            if isinstance(item, Mapping):
                yield from self._item(offset, number, item)
            else:
                yield Problem(offset, f"message {number} is no object")
        if self.whole:
            yield self._ended()

    def _started(self) -> Piece:
        config = _mapping(self.info.get("config"))
        asked = self._first("user").get("content")
        extra = _mapping(self._first("user").get("extra"))
        at = moment(extra.get("timestamp")) or moment(
            _mapping(self._first("system").get("extra")).get("timestamp")
        )
        started = {
            "name": self.task or title_of(asked),
            "input": asked,
            "instructions": self._first("system").get("content"),
            "session": self.task,
            "tags": [_AGENT] if self.whole else [_AGENT, "partial"],
            "version": name_text(self.info.get("mini_version")),
            "native": {"format": name_text(self.facts.get("trajectory_format")) or _AGENT, "config": config},
        }
        return self.run.event(0, "execution.run_started", "start", started, origin="system", at=at)

    def _first(self, role: str) -> Mapping[str, Any]:
        return next(
            (one for one in self.messages if isinstance(one, Mapping) and one.get("role") == role), {}
        )

    def _item(self, offset: int, number: int, item: Mapping[str, Any]) -> Iterator[Piece]:
        extra, role = _mapping(item.get("extra")), item.get("role")
        key = f"message {number}"
        at = moment(extra.get("timestamp")) or moment(item.get("timestamp"))
        native: dict[str, Any] = {"message_number": number}
        if self.waiting and role in ("user", "tool") and not extra.get("interrupt_type"):
            yield self._gave(offset, key, item, extra, {**native, "role": role}, at)
            return
        if role == "exit":  # how it ended is said at the end
            return
        self.waiting = []
        plain = {one: value for one, value in item.items() if one not in ("extra", "timestamp")}
        rest = {one: value for one, value in extra.items() if one not in ("response", "timestamp", "actions")}
        if rest:
            native["extra"] = rest
        if role == "assistant":
            if (call := self._asked_model(offset, key, extra, at)) is not None:
                yield call
            calls = item.get("tool_calls")
            name = _AGENT
            yield from self.run.said(offset, key, plain, name=name, agent=name, native=native, at=at)
            if isinstance(calls, list):
                self.waiting = [
                    one["id"] for one in calls if isinstance(one, Mapping) and isinstance(one.get("id"), str)
                ]
                return
            yield from self._commands(offset, key, number, item, extra, at)
            return
        yield from self.run.said(offset, key, plain, native=native, at=at)

    def _commands(
        self,
        offset: int,
        key: str,
        number: int,
        item: Mapping[str, Any],
        extra: Mapping[str, Any],
        at: str | None,
    ) -> Iterator[Piece]:
        """The commands that the agent finds in a message: its own list, else the one block of code there is."""
        actions = extra.get("actions")
        content = item.get("content")
        if isinstance(actions, list):
            found = [one.get("command") if isinstance(one, Mapping) else one for one in actions]
        else:
            found = list(_COMMAND.findall(content)) if isinstance(content, str) else []
            found = found if len(found) == 1 else []  # the agent takes none of several
        asked = self.run.cause
        for place, command in enumerate(found):
            call_id = f"message-{number}" if len(found) == 1 else f"message-{number}-{place}"
            self.waiting.append(call_id)
            self.run.cause = asked
            call = Call("bash", call_id, {"command": command})
            native = {"message_number": number}
            made = f"{key} command {place}"
            yield self.run.call(offset, made, call, name=_AGENT, agent=_AGENT, native=native, at=at)

    def _gave(
        self,
        offset: int,
        key: str,
        item: Mapping[str, Any],
        extra: Mapping[str, Any],
        native: dict[str, Any],
        at: str | None,
    ) -> Piece:
        """What a command gave; one that failed, or ran too long, is an error of the tool."""
        named = item.get("tool_call_id")
        call_id = named if isinstance(named, str) and named in self.waiting else self.waiting[0]
        self.waiting.remove(call_id)
        content = item.get("content")
        text = content if isinstance(content, str) else ""
        code = extra.get("returncode")
        if not isinstance(code, int) or isinstance(code, bool):
            found = _CODE.search(text[:2_000])
            code = int(found[1]) if found else None
        error = name_text(extra.get("exception_info"), 2_000)
        if error is None and _TIMED_OUT.match(text):
            error = "timed out"
        elif error is None and code:
            error = f"exit code {code}"
        result = Result("bash", call_id, content, error)
        return self.run.result(offset, key, result, agent=_AGENT, native=native, at=at, more={"status": code})

    def _asked_model(self, offset: int, key: str, extra: Mapping[str, Any], at: str | None) -> Piece | None:
        """The call of the model that a message came from, where its raw response is kept."""
        response = _mapping(extra.get("response"))
        usage = usage_of(response.get("usage"))
        if not response:
            return None
        model = _mapping(_mapping(self.info.get("config")).get("model")).get("model_name")
        call = {
            "model": name_text(response.get("model")) or name_text(model),
            "usage": usage,
            "response_id": name_text(response.get("id")),
            "agent": _AGENT,
            "native": {one: extra[one] for one in ("cost",) if one in extra},
        }
        return self.run.event(offset, "execution.model_call", f"{key} model", call, name=_AGENT, at=at)

    def _ended(self) -> Piece:
        last = self.messages[-1] if self.messages and isinstance(self.messages[-1], Mapping) else {}
        extra = _mapping(last.get("extra"))
        at = moment(extra.get("timestamp"))
        leaving = extra if last.get("role") == "exit" else {}
        facts = {**leaving, **self.info}
        status, output = name_text(facts.get("exit_status")), facts.get("submission", facts.get("result"))
        native = {one: value for one, value in self.info.items() if one not in (*_NAMES, "config")}
        if status is None:
            native["said"] = "the file says no more than that the run ends here"
        if status in (None, "Submitted"):
            ended = {"output": output, "status": status, "native": native}
            return self.run.event(self.end, "execution.run_completed", "end", ended, origin="system", at=at)
        error = {
            "type": status,
            "message": output if isinstance(output, str) and output else f"ended with {status}",
        }
        return self.run.event(
            self.end, "execution.run_failed", "end", {"error": error, "native": native}, origin="system", at=at
        )  # fmt: skip


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
