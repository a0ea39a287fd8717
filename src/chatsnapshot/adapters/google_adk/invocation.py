"""One invocation of ADK: what its callbacks and events become."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.custom import ObservedRun
from chatsnapshot.adapters.google_adk.contents import (
    answer_facts,
    is_request,
    parts_of,
    question_facts,
    text_of,
    usage_of,
)
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.google_adk.recorder import GoogleADKRecorder

__all__ = ["Invocation", "begun"]

_Step = tuple[str, str | None]
"""Which agent, in which branch: several go on beside each other."""

_LOOKED_AT_MAX = 2_000


class Invocation:
    """A run while it goes on. Its methods build events; the plugin records them."""

    def __init__(
        self,
        recorder: GoogleADKRecorder,
        run: ObservedRun,
        context: Any,
        sent: Any,
        forget: Callable[[Invocation], None],
    ) -> None:
        self.run = run
        self._recorder = recorder
        self._context = context
        self._sent = sent
        self._forget = forget
        self._output: Any = None
        self._asking: dict[_Step, tuple[str, int, int]] = {}
        self._replies: dict[_Step, str] = {}
        self._tools: dict[str, tuple[Any, int]] = {}
        """Call id to what :meth:`leave` needs and when it began."""
        self._done: dict[str, tuple[int, int, BaseException | None]] = {}
        """Call id to when the tool was done (1970), how long it took, and its error: the event that tells follows."""
        self._waiting: set[str] = set()
        """Long-running calls that nothing has answered."""
        self._tails: dict[str, list[str]] = {}
        """Branch (empty: the trunk) to the events that what comes next in it follows from."""
        task = asyncio.current_task()
        if task is not None:
            # ADK tells no plugin of a cancellation.
            task.add_done_callback(self._task_ended)

    # --- the ends -----------------------------------------------------------------------------------------

    def first(self) -> Iterator[Event | None]:
        """Answers to what the run before asked, the start, and what the user says."""
        context, run = self._context, self.run
        content = self._sent
        for answer in _responses(content):
            if answer.id in run.questions:
                yield run.answer(answer.id, user=context.user_id, **answer_facts(answer))
        native = {"invocation_id": context.invocation_id, "app": context.app_name}
        facts = {} if run.resumed else {"session": context.session.id}
        yield run.started(text_of(content), user=context.user_id, native=native, **facts)
        for answer in _responses(content):
            if answer.id in run.calls and not is_request(answer):
                yield run.tool_result(answer.id, answer.name, result=answer.response)
        parts = [part for part in parts_of(content) if part["type"] != "tool_call_response"]
        if parts:
            above = run.parent
            asking = above.agent if above is not None and above.inside_tool else None
            yield run.message("user", parts, name=asking or context.user_id)
        last = context.session.events[-1] if context.session.events else None
        if content is not None and last is not None and last.author == "user":
            yield self._state(last)
        self._tail(None, run.last)

    def end(self, *, error: BaseException | None = None, aborted: bool = False) -> Iterator[Event | None]:
        """The terminal event, after what was left open."""
        run = self.run
        yield from self._errors()
        if error is not None:
            yield run.failed(error)
        elif aborted:
            yield run.cancelled("the invocation was aborted")
        elif run.questions:
            yield run.paused("waits for a person")
        elif self._waiting & run.calls.keys():
            yield run.paused("waits for a long-running tool")
        else:
            yield run.completed(self._output)
        self._over()

    def _over(self) -> None:
        self._recorder.end(self.run)
        self._forget(self)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        if self.run.ended is not None or self._recorder.run(self.run.key) is not self.run:
            return
        with self._recorder.guarded():
            ended = self.run.cancelled("the task was cancelled" if task.cancelled() else "nobody read on")
            if ended is not None:
                self._recorder.safe.hand_over(ended)
            self._over()

    # --- the events of ADK --------------------------------------------------------------------------------

    def told(self, event: Any) -> Iterator[Event | None]:
        """What an event that ADK keeps in the session says."""
        run = self.run
        if event.author and event.author != "user":
            run.agent = event.author
        native = {"event": event.id, "branch": event.branch, "node": event.node_info.path or None}
        facts: dict[str, Any] = {"native": {name: one for name, one in native.items() if one is not None}}
        parts = [part for part in parts_of(event.content) if part["type"] != "tool_call_response"]
        if parts:
            cause = self._replies.pop((event.author, event.branch), None)
            follows = self._follows(event.branch) if cause is None else {"cause": cause}
            yield run.message("assistant", parts, **follows, **facts)
            self._tail(event.branch, run.last)
        waiting = set(event.long_running_tool_ids or ())
        for call in event.get_function_calls():
            if is_request(call):
                yield run.question(call.id, **question_facts(call))
            elif call.id not in run.calls:
                yield run.tool_call(call.id, call.name, plain(call.args or {}))
                self._waiting |= waiting & {call.id}
        yield from self._results(event)
        yield self._state(event)
        for name, version in (event.actions.artifact_delta or {}).items():
            yield run.event("execution.artifact", {"name": name, "version": version})
        if event.error_code and not event.content:
            yield from self._errors()
        if event.output is not None:
            self._output = plain(event.output)
            if not event.content:
                follows = self._follows(event.branch)
                named = {"name": event.node_info.name or event.author, "output": self._output}
                yield run.event("execution.output", {**named, **follows, **facts})
                self._tail(event.branch, run.last)
        elif event.is_final_response() and (said := text_of(event.content)):
            self._output = said

    def _results(self, event: Any) -> Iterator[Event | None]:
        run, actions = self.run, event.actions
        results: list[str] = []
        asked_for = {*(actions.requested_tool_confirmations or ()), *(actions.requested_auth_configs or ())}
        for answer in event.get_function_responses():
            done = self._done.pop(answer.id, None)
            if answer.id in asked_for or is_request(answer):
                continue  # it says that a person is asked, and the tool has not run
            call = run.calls.get(answer.id)
            facts = {"result": plain(answer.response), **_timing(done)}
            made = run.tool_result(answer.id, answer.name, **facts)
            results.append(made["event_id"])
            yield made
            if actions.transfer_to_agent:
                yield run.handoff(actions.transfer_to_agent, cause=call)
                actions = actions.model_copy(update={"transfer_to_agent": None})
        if results:
            self._tail(event.branch, *results)

    def _errors(self) -> Iterator[Event]:
        """Tools that failed, and whose error nobody turned into an answer."""
        for call_id, done in list(self._done.items()):
            if done[2] is not None and call_id in self.run.calls:
                yield self.run.tool_result(call_id, **_timing(done))
        self._done.clear()

    def _state(self, event: Any) -> Event | None:
        delta = event.actions.state_delta if event.actions else None
        return self.run.state("session state", to=plain(delta)) if delta else None

    # --- branches -----------------------------------------------------------------------------------------

    def _follows(self, branch: str | None) -> dict[str, Any]:
        """Cause and links of what comes next in a branch; in the trunk after branches, all of their ends."""
        tails, found = self._tails, branch or ""
        if found:
            while found and found not in tails:
                found = found.rpartition(".")[0]
            ends = tails.get(found, [])
        else:
            ends = [one for name, several in tails.items() if name for one in several] or tails.get("", [])
        return {"cause": ends[-1], "links": ends[:-1]} if ends else {}

    def _tail(self, branch: str | None, *ends: str | None) -> None:
        if not branch:
            self._tails.clear()
        self._tails[branch or ""] = [one for one in ends if one is not None]

    # --- models and tools ---------------------------------------------------------------------------------

    def asking(self, context: Any, request: Any) -> None:
        """A model is about to be called."""
        self._asking[_step(context)] = (str(request.model or ""), time.time_ns(), time.monotonic_ns())

    def asked(self, context: Any, *, response: Any = None, error: BaseException | None = None) -> Event:
        """A model answered or failed."""
        step = _step(context)
        model, at, began = self._asking.pop(step, ("", 0, 0))
        reason = getattr(response, "finish_reason", None)
        code = getattr(response, "error_code", None)
        if code:
            error_facts: Any = {"code": code, "message": getattr(response, "error_message", None)}
        else:
            error_facts = error
        self.run.agent = step[0]
        made = self.run.model_call(
            model=model or getattr(response, "model_version", None) or None,
            started_at=time_text(at) if at else None,
            duration_ns=time.monotonic_ns() - began if began else None,
            usage=usage_of(response),
            finish_reason=None if reason is None else str(getattr(reason, "value", reason)).lower(),
            error=error_facts,
            **self._follows(step[1]),
        )
        self._tail(step[1], made["event_id"])
        self._replies[step] = made["event_id"]
        return made

    def calling(self, tool: Any, arguments: Any, context: Any) -> Iterator[Event]:
        """A tool is about to be executed; what runs inside is caused by its call."""
        call_id = context.function_call_id
        if call_id is None:
            return
        if call_id not in self.run.calls:
            yield self.run.tool_call(call_id, tool.name, plain(arguments))
        self._tools[call_id] = (self.run.enter(call_id), time.monotonic_ns())

    def called(self, context: Any, error: BaseException | None) -> None:
        """A tool was executed; the event that tells its result follows."""
        token, began = self._tools.pop(context.function_call_id, (None, 0))
        self.run.leave(token)
        took = time.monotonic_ns() - began if began else 0
        self._done[context.function_call_id] = (time.time_ns(), took, error)


async def begun(
    recorder: GoogleADKRecorder, context: Any, sent: bool, forget: Callable[[Invocation], None]
) -> Invocation | None:
    """The invocation that a context is of; ``None`` when another recorder of the ledger observes it.

    ``sent`` says whether the user sent a message to it. It goes on with an earlier one when it has events in the session
    already, as after a question.
    """
    content = context.user_content
    events = context.session.events
    if sent and events and events[-1].author == "user":
        content = events[-1].content
    before = [event for event in events if event.invocation_id == context.invocation_id]
    resumed = len(before) > (1 if sent else 0)
    correlation = recorder.correlation_id or context.session.id
    earlier = await recorder.aleft_open(correlation) if resumed else None
    agent = getattr(context, "agent", None)
    run = recorder.begin(
        getattr(agent, "name", None) or context.app_name,
        key=context.invocation_id,
        correlation_id=context.session.id,
        resumed=resumed,
        earlier=earlier,
    )
    if run is None:
        return None
    return Invocation(recorder, run, context, content if sent else None, forget)


def _step(context: Any) -> _Step:
    inside = getattr(context, "_invocation_context", None)
    return context.agent_name, getattr(inside, "branch", None)


def _responses(content: Any) -> list[Any]:
    parts = getattr(content, "parts", None) or ()
    return [part.function_response for part in parts if part.function_response is not None]


def _timing(done: tuple[int, int, BaseException | None] | None) -> dict[str, Any]:
    if done is None:
        return {}
    at, took, error = done
    return {"at_ns": at, "duration_ns": took or None, "error": error}
