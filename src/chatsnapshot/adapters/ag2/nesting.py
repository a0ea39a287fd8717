"""A recorded call of the classic line: which run each of its events belongs to, and recording them in order.

AG2 tells everything on one stream: a chat that an agent holds before it replies (a nested chat) and a chat
that a tool holds are runs of their own in the record, children of the run they happen in.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from chatsnapshot.adapters.ag2.classicrun import ClassicRun, derived_id
from chatsnapshot.adapters.ag2.run import CURRENT, Parent, Place, Run
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["QUESTION", "Recording"]

_CHUNKS = frozenset({"stream"})
_SETTING_UP = frozenset({"safeguard", "print"})
"""What a group chat tells before it says whether it begins or goes on."""
_OPEN_A_CHAT = frozenset(
    {"text", "tool_call", "function_call", "tool_response", "function_response"}
    | {"post_carryover_processing", "group_chat_resume"}
)
_MESSAGES = _OPEN_A_CHAT - {"post_carryover_processing", "group_chat_resume"}

_SHOW_VARIABLES = frozenset({"group_chat_run_chat", "tool_response"})

QUESTION: ContextVar[str | None] = ContextVar("chatsnapshot_ag2_question", default=None)
"""The question that this context asked last."""


class _Chat(NamedTuple):
    """A chat inside a chat: its run and the two who hold it."""

    run: ClassicRun
    sender: str
    recipient: str


class _Tool(NamedTuple):
    """A tool that is being executed: its call, the place before it, and the chats that it holds.

    ``scope`` is what was entered in the context that executes it; there is none where we came too late for it.
    """

    run: ClassicRun
    call: str
    before: Place | None
    scope: AbstractContextManager[Any] | None
    chats: list[_Chat]


class Recording:
    """Records the events of one call; safe to use from several threads.

    ``chats_first`` says that a first event of a chat in a sequence is a chat inside this run already, as when
    ``initiate_chats`` holds several; ``live`` that events are taken where AG2 brings them about.
    """

    def __init__(
        self, recorder: AG2Recorder, run: ClassicRun, *, cause: str | None, live: bool, chats_first: bool
    ) -> None:
        self.recorder = recorder
        self.run = run
        self.cause = cause
        self.version: str | None = None
        self.previous: Recording | None = None
        """The call before this one in a sequence."""
        self._begun_at = time_text(time.time_ns())
        self.follows_task = False
        """Whether the run is an asyncio task of AG2, which ends without an event when it is cancelled."""
        self._live = live
        self._chats_first = chats_first
        self._chats: list[_Chat] = []
        self._tools: dict[str, _Tool] = {}
        """Event of the call to the tool that is being executed."""
        self._questions: dict[str, tuple[ClassicRun, bool]] = {}
        self.holders: list[Any] = []
        """Agents that share context variables, where they are known."""
        self._variables: Any = {}
        self._before: list[Any] = []
        self._last: Any = None
        self._lock = threading.RLock()

    # --- what the taps call; nothing here raises ----------------------------------------------------------

    def take(self, event: Any, *, here: bool = True) -> None:
        """Record an event before anybody else sees it; ``here`` is whether this context brought it about."""
        with self._lock:
            try:
                made = self._made(event, here and self._live)
            except Exception as error:
                self.recorder.safe.note(error)
                return
            if made:
                self.recorder.safe.record(*made)

    def answered(self, answer: Any) -> None:
        """Record what a person answered: to the question that this context asked last, or to the oldest."""
        with self._lock:
            try:
                question = QUESTION.get()
                if question not in self._questions:
                    # Asked before we came: then no context tells who asked.
                    question = next(iter(self._questions), None)
                if question is None:
                    return
                run, secret = self._questions.pop(question)
                made = run.answered(question, answer, secret=secret)
            except Exception as error:
                self.recorder.safe.note(error)
                return
            self.recorder.safe.record(made)

    def finish(self, error: BaseException | None = None, payload: Mapping[str, Any] | None = None) -> None:
        """End the run where AG2 has no event for it: with an error, cancelled, or completed."""
        with self._lock:
            try:
                made = [] if self.run.begun else self._beginning(None)
                if not self.run.ended:
                    made += self._close_all(error)
                    if error is None:
                        made.append(self.run.completed(payload or {}, self._end_id(self.run)))
                    else:
                        made.append(self.run.ended_by(error, self._end_id(self.run)))
            except Exception as mistake:
                self.recorder.safe.note(mistake)
                return
            if made:
                self.recorder.safe.record(*made)

    def interrupted(self, error: BaseException) -> None:
        """The reader was stopped while it waited; what AG2 tells all the same goes on in the record."""
        if self.run.begun and not self.run.ended and not isinstance(error, (Exception, GeneratorExit)):
            self.finish(error)

    # --- which run ----------------------------------------------------------------------------------------

    def _made(self, event: Any, here: bool) -> list[Event]:
        if event.type in _CHUNKS:
            return []
        self._last = event
        first = False
        if self.run.begun:
            made = [self.run.went_on(event)] if self.run.ended else []
        elif event.type in _SETTING_UP:
            self._before.append(event)
            return []
        else:
            made = self._beginning(event)
            first = not self._chats_first
            if event.type == "group_chat_resume":
                return made
        if event.type in ("run_completion", "error"):
            failed = event.content.error if event.type == "error" else None
            made += self._close_all(failed if isinstance(failed, BaseException) else None)
            return made + self.run.seen(event)
        run, inside, more = self._place(event, first)
        made += more
        made += run.seen(event, inside=inside)
        if event.type in _SHOW_VARIABLES:
            made += self._variables_of(event)
        self._follow(run, event, here)
        return made

    def _variables_of(self, event: Any) -> list[Event]:
        """The context variables of a group, when they have changed: a group that is gone on with needs them."""
        now: Any = next((shared for one in self.holders if (shared := shared_variables(one))), {})
        if now == self._variables:
            return []
        self._variables = now
        return [self.run.variables(event, now)]

    def _beginning(self, event: Any) -> list[Event]:
        """The first event of the run, and what came while AG2 was still setting it up."""
        made = [self._opening(event)]
        if self.follows_task and (task := asyncio.current_task()) is not None:
            task.add_done_callback(self._task_ended)
        for before in self._before:
            made += self.run.seen(before)
        self._before.clear()
        return made

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.interrupted(asyncio.CancelledError())

    def _opening(self, first: Any) -> Event:
        before = self.previous.run.last if self.previous is not None else None
        return self.run.opened(first, at=self._begun_at, cause=self.cause or before, version=self.version)

    def _place(self, event: Any, first: bool) -> tuple[ClassicRun, str | None, list[Event]]:
        """The run of an event, the tool call it happened in, and the ends and beginnings that come before."""
        tool = self._tool_here()
        if tool is None:
            opens = event.type == "post_carryover_processing" and not first
            return self._within(self.run, self._chats, event, opens, cause=None, at_least=0)
        if event.type == "executed_function" and tool.run.calls.get(_key(event)) == tool.call:
            return tool.run, None, self._end_tool(tool, event)
        if not tool.chats and event.type not in _OPEN_A_CHAT:
            return tool.run, tool.call, []
        opens = not tool.chats or event.type == "post_carryover_processing"
        return self._within(tool.run, tool.chats, event, opens, cause=tool.call, at_least=1)

    def _within(
        self,
        base: ClassicRun,
        chats: list[_Chat],
        event: Any,
        opens: bool,
        *,
        cause: str | None,
        at_least: int,
    ) -> tuple[ClassicRun, str | None, list[Event]]:
        """The innermost chat that an event belongs to; chats that it shows to be over are ended."""
        made: list[Event] = []
        inner = event.content
        if opens:
            while chats and chats[-1].recipient != inner.sender:
                made += self._close(base, chats)
            outer = chats[-1].run if chats else base
            made += self._open(chats, outer, outer.own if chats or cause is None else cause, event)
        elif event.type in _MESSAGES:
            while len(chats) > at_least and chats[-1].recipient not in (inner.sender, inner.recipient):
                made += self._close(base, chats)
        return (chats[-1].run if chats else base), None, made

    def _open(self, chats: list[_Chat], outer: ClassicRun, cause: str | None, event: Any) -> list[Event]:
        inner = event.content
        sender = str(getattr(inner, "sender", None) or outer.agent)
        recipient = str(getattr(inner, "recipient", None) or outer.agent)
        run = ClassicRun(
            ledger=outer.ledger,
            correlation_id=derived_id(event, f"run in {outer.run_id}") or str(uuid.uuid4()),
            agents=[sender, recipient],
            parent=Parent(outer.run_id, cause, outer.agent),
            dated=self._live,
        )
        chats.append(_Chat(run, sender, recipient))
        return [run.opened(event, version=self.version)]

    def _close(
        self, base: ClassicRun, chats: list[_Chat], error: BaseException | Mapping[str, Any] | None = None
    ) -> list[Event]:
        """End the innermost chat; what follows outside it is caused by its end."""
        chat = chats.pop()
        outer = chats[-1].run if chats else base
        event_id = self._end_id(chat.run)
        if error is None:
            made = chat.run.completed({"output": chat.run.said}, event_id)
        else:
            made = chat.run.ended_by(error, event_id)
        outer.last = made["event_id"]
        return [made]

    def _close_all(self, error: BaseException | None) -> list[Event]:
        made: list[Event] = []
        for tool in list(self._tools.values()):
            while tool.chats:
                made += self._close(tool.run, tool.chats, error)
            place = CURRENT.get()
            if place is not None and place.cause == tool.call:
                self._leave(tool)  # stopped in the middle, in this very context
        while self._chats:
            made += self._close(self.run, self._chats, error)
        return made

    def _end_id(self, run: ClassicRun) -> str | None:
        return derived_id(self._last, f"end of {run.run_id}")

    # --- tools --------------------------------------------------------------------------------------------

    def _tool_here(self) -> _Tool | None:
        place = CURRENT.get() if self._live else None
        if place is not None and place.cause in self._tools:
            return self._tools[place.cause]
        return next((tool for tool in reversed(self._tools.values()) if tool.scope is None), None)

    def _follow(self, run: ClassicRun, event: Any, here: bool) -> None:
        """Know which tool is being executed, and which question was asked."""
        if event.type == "execute_function" and run.last is not None:
            self._begin_tool(run, run.last, here)
        elif event.type in ("input_request", "async_input_request") and run.last is not None:
            self._questions[run.last] = (run, bool(event.content.password))
            if here:
                QUESTION.set(run.last)

    def _begin_tool(self, run: ClassicRun, call: str, here: bool) -> None:
        scope: AbstractContextManager[Any] | None = None
        before = CURRENT.get()
        if here:
            CURRENT.set(Place(cast(Run, run), call))
            scope = self.recorder.scope(cast(Run, run), call)
            scope.__enter__()
        self._tools[call] = _Tool(run, call, before, scope, [])

    def _leave(self, tool: _Tool) -> None:
        del self._tools[tool.call]
        if tool.scope is not None:
            CURRENT.set(tool.before)
            tool.scope.__exit__(None, None, None)

    def _end_tool(self, tool: _Tool, event: Any) -> list[Event]:
        self._leave(tool)
        failed = event.content.is_exec_success is False
        error = {"message": str(event.content.content)} if failed else None
        made: list[Event] = []
        while tool.chats:
            made += self._close(tool.run, tool.chats, error)
        return made


def _key(event: Any) -> str:
    return str(event.content.call_id or event.content.func_name)


def shared_variables(agent: Any) -> Any:
    """The context variables that an agent holds, as plain data."""
    held: Any = getattr(agent, "context_variables", None)
    return plain(held.to_dict()) if hasattr(held, "to_dict") else {}
