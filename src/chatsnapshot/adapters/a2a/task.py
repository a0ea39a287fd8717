"""A task of an A2A agent as a run: its messages, states, questions, artifacts, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.a2a.wire import as_wire, kind_of, parts_of, role_of, state_of, text_of
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.policy import Event

__all__ = ["TaskRun"]

_WAITS = {"input-required": "waits for an answer", "auth-required": "waits for a permission"}
_FAILS = frozenset({"failed", "rejected"})
_CANCELLED = frozenset({"canceled", "cancelled"})


class TaskRun:
    """Turns what an agent tells of its task into the events of a run; recorded by whoever holds it.

    Ids are made of the task's own, so that what is recorded again is the same.
    """

    def __init__(self, run: ObservedRun, task_id: str) -> None:
        self.run = run
        self.task_id = task_id
        self.told = 0
        """How many things were told, for their ids."""
        self._state: str | None = None
        self._said: str | None = None
        self._artifact: dict[str, Any] | None = None
        """An artifact that may still grow: it is recorded once, whole."""
        self._artifacts: list[str] = []

    def opening(self, message: Mapping[str, Any] | None, call: str | None, **facts: Any) -> list[Event]:
        """The beginning: answers, when the task waited for one, then the start, then the message.

        ``call`` is the event of the client that brought the message, where it told.
        """
        made: list[Event] = []
        run = self.run
        parts = parts_of(message) if message else []
        for question_id in list(run.questions) if message else ():
            answer = text_of(message) or parts
            links = [call] if call else None
            made.append(run.answer(question_id, content=answer, links=links, native_id=self._id("answer")))
        made.append(run.started(native_id=self._id("start"), **facts))
        if message is not None and parts:
            made.append(self._message(message, parts))
        return made

    def saw(self, event: Any) -> list[Event]:
        """The events that one thing which the agent tells comes to."""
        kind, body = kind_of(as_wire(event))
        if kind == "artifact-update":
            return self._artifact_update(body)
        made = self._flushed()
        if kind == "message":
            return [*made, *self._spoken(body)]
        if kind == "task":
            for artifact in body.get("artifacts") or ():
                made += [*self._artifact_update({"artifact": artifact}), *self._flushed()]
        return made + (self._status(body) if kind in ("task", "status-update") else [])

    def returned(self) -> list[Event]:
        """The agent is done with this request."""
        run, made = self.run, self._flushed()
        if run.ended is None and (self._state is None or self._said is not None):
            made += _some(run.completed(self._said, native_id=self._id("end")))
        elif run.ended is None:
            made += _some(run.paused(f"the task is {self._state}", native_id=self._id("end")))
        return made

    def raised(self, error: BaseException, *, cancelled: bool) -> list[Event]:
        """The agent raised, or was stopped."""
        made, end = self._flushed(), self._id("end")
        run = self.run
        return made + _some(
            run.cancelled("cancelled", native_id=end) if cancelled else run.failed(error, native_id=end)
        )

    @property
    def waits(self) -> bool:
        """Whether the task waits for somebody."""
        return self._state in _WAITS

    def goes_on(self, run: ObservedRun) -> list[Event]:
        """The task goes on without a message; gives the beginning of the next stretch of the run."""
        self.run = run
        return [run.started(native_id=self._id("start"), task_id=self.task_id)]

    # --- what is told -------------------------------------------------------------------------------------

    def _id(self, what: str) -> str:
        self.told += 1
        return f"{self.task_id}:{self.run.native_run_id}:{self.told}:{what}"

    def _message(self, message: Mapping[str, Any], parts: list[dict[str, Any]]) -> Event:
        role, native = role_of(message), message.get("messageId") or self._id("message")
        return self.run.message(role, parts, native_id=str(native), message_id=message.get("messageId"))

    def _spoken(self, message: Mapping[str, Any]) -> list[Event]:
        if not (parts := parts_of(message)):
            return []
        if role_of(message) == "assistant":
            self._said = text_of(message) or self._said
        return [self._message(message, parts)]

    def _status(self, body: Mapping[str, Any]) -> list[Event]:
        state, run = state_of(body), self.run
        status: Mapping[str, Any] = body.get("status") or {}
        message = status.get("message")
        message = message if isinstance(message, Mapping) else None
        before, self._state = self._state, state
        if state is None:
            return []
        if state in _WAITS:
            question_id = str((message or {}).get("messageId") or f"{self.task_id}:{self.told}")
            asked = run.question(
                question_id,
                prompt=text_of(message) or (parts_of(message) if message else None) or _WAITS[state],
                native_id=self._id("question"),
            )
            return [asked, *_some(run.paused(_WAITS[state], native_id=self._id("end")))]
        made = self._spoken(message) if message else []
        end = self._id("end")
        if state == "completed":
            return made + _some(run.completed(self._said or self._artifacts or None, native_id=end))
        if state in _FAILS:
            told = {"type": state, "message": text_of(message) or f"the task was {state}"}
            return made + _some(run.failed(told, native_id=end))
        if state in _CANCELLED:
            return made + _some(run.cancelled(text_of(message), native_id=end))
        if state != before:
            made.append(run.state("task", value=state, native_id=self._id("state"), **{"from": before}))
        return made

    def _artifact_update(self, body: Mapping[str, Any]) -> list[Event]:
        artifact = body.get("artifact") or {}
        artifact_id = str(artifact.get("artifactId") or "")
        held = self._artifact
        if body.get("append") and held is not None and held["artifact_id"] == artifact_id:
            held["content"] += parts_of(artifact)
            made: list[Event] = []
        else:
            made = self._flushed()
            self._artifact = {
                "artifact_id": artifact_id,
                "name": artifact.get("name"),
                "title": artifact.get("description"),
                "content": parts_of(artifact),
            }
        return made + (self._flushed() if body.get("lastChunk") else [])

    def _flushed(self) -> list[Event]:
        """The artifact that was growing, whole."""
        held, self._artifact = self._artifact, None
        if held is None:
            return []
        self._artifacts.append(str(held["name"] or held["artifact_id"]))
        return [self.run.event("execution.artifact", {**held, "native_id": self._id("artifact")})]


def _some(event: Event | None) -> list[Event]:
    return [] if event is None else [event]
