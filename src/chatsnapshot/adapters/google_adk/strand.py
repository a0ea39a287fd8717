"""What happens in one run of ADK: an invocation, or the work of an agent that was called in it as if it were a tool."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from chatsnapshot.adapters.custom import ObservedRun
from chatsnapshot.adapters.google_adk.contents import is_request, parts_of, question_facts, text_of, usage_of
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

__all__ = ["Strand", "branch_of"]

_Step = tuple[str, str]
"""Which agent, in which branch: several go on beside each other."""


class Strand:
    """A run while it goes on. Its methods build events; none records. ``branch`` is where it began (empty: the trunk)."""

    def __init__(self, run: ObservedRun, branch: str = "") -> None:
        self.run = run
        self.branch = branch
        self.output: Any = None
        """What was said or given last."""
        self._asking: dict[_Step, tuple[str, int, int]] = {}
        self._replies: dict[_Step, str] = {}
        self._tools: dict[str, tuple[Any, int]] = {}
        """Call id to what :meth:`ObservedRun.leave` needs and when it began."""
        self._done: dict[str, tuple[int, int, BaseException | None]] = {}
        """Call id to when the tool was done (1970), how long it took, and its error: the event that tells follows."""
        self._waiting: set[str] = set()
        """Long-running calls that nothing has answered."""
        self._tails: dict[str, list[str]] = {}
        """Branch to the events that what comes next in it follows from."""

    # --- the events of ADK --------------------------------------------------------------------------------

    def told(self, event: Any) -> Iterator[Event | None]:
        """What an event that ADK keeps in the session says."""
        run, branch = self.run, self._within(event.branch)
        if event.author and event.author != "user":
            run.agent = event.author
        native = {"event": event.id, "branch": event.branch, "node": event.node_info.path or None}
        facts: dict[str, Any] = {"native": {name: one for name, one in native.items() if one is not None}}
        parts = [part for part in parts_of(event.content) if part["type"] != "tool_call_response"]
        if parts:
            cause = self._replies.pop((event.author, branch), None)
            follows = self._follows(branch) if cause is None else {"cause": cause}
            yield run.message("assistant", parts, **follows, **facts)
            self.follow(run.last, branch=branch)
        waiting = set(event.long_running_tool_ids or ())
        for call in event.get_function_calls():
            if is_request(call):
                yield run.question(call.id, **question_facts(call))
            elif call.id not in run.calls:
                yield run.tool_call(call.id, call.name, plain(call.args or {}))
                self._waiting |= waiting & {call.id}
        yield from self._results(event, branch)
        yield self.state(event)
        for name, version in (event.actions.artifact_delta or {}).items():
            kept = {"name": name, "version": version}
            yield run.event("execution.artifact", {**kept, **self._follows(branch)})
        if event.error_code and not event.content:
            yield from self.errors()
        if event.output is not None:
            self.output = plain(event.output)
            if not event.content:
                named = {"name": event.node_info.name or event.author, "output": self.output}
                yield run.event("execution.output", {**named, **self._follows(branch), **facts})
                self.follow(run.last, branch=branch)
        elif event.is_final_response() and (said := text_of(event.content)):
            self.output = said

    def _results(self, event: Any, branch: str) -> Iterator[Event | None]:
        run, actions, results = self.run, event.actions, []
        asked_for = {*(actions.requested_tool_confirmations or ()), *(actions.requested_auth_configs or ())}
        transfer = actions.transfer_to_agent
        for answer in event.get_function_responses():
            done = self._done.pop(answer.id, None)
            if answer.id in asked_for or is_request(answer):
                continue  # it says that a person is asked, and the tool has not run
            call = run.calls.get(answer.id)
            made = run.tool_result(answer.id, answer.name, result=plain(answer.response), **_timing(done))
            results.append(made["event_id"])
            yield made
            if transfer:
                yield run.handoff(transfer, cause=call)
                transfer = None
        if results:
            self.follow(*results, branch=branch)

    def errors(self) -> Iterator[Event]:
        """Tools that failed, and whose error nobody turned into an answer."""
        for call_id, done in list(self._done.items()):
            if done[2] is not None and call_id in self.run.calls:
                yield self.run.tool_result(call_id, **_timing(done))
        self._done.clear()

    def state(self, event: Any) -> Event | None:
        """What an event changes in the state of the session, the user or the app."""
        delta = event.actions.state_delta if event.actions else None
        follows = self._follows(self._within(event.branch))
        return self.run.state("session state", to=plain(delta), **follows) if delta else None

    @property
    def waits_for(self) -> str | None:
        """What must come before it can go on, if anything."""
        if self.run.questions:
            return "waits for a person"
        return "waits for a long-running tool" if self._waiting & self.run.calls.keys() else None

    # --- branches -----------------------------------------------------------------------------------------

    def _within(self, branch: str | None) -> str:
        """A branch of ADK as seen from where this run began."""
        inside = (branch or "").removeprefix(self.branch)
        return inside.removeprefix(".") if inside != branch or not self.branch else ""

    def _follows(self, branch: str) -> dict[str, Any]:
        """Cause and links of what comes next in a branch; in the trunk after branches, all of their ends."""
        tails, found = self._tails, branch
        if found:
            while found and found not in tails:
                found = found.rpartition(".")[0]
            ends = tails.get(found, [])
        else:
            ends = [one for name in sorted(tails) if name for one in tails[name]] or tails.get("", [])
        return {"cause": ends[-1], "links": ends[:-1]} if ends else {}

    def follow(self, *ends: str | None, branch: str = "") -> None:
        """What comes next in a branch follows from these events."""
        if not branch:
            self._tails.clear()
        self._tails[branch] = [one for one in ends if one is not None]

    # --- models and tools ---------------------------------------------------------------------------------

    def asking(self, context: Any, request: Any) -> None:
        """A model is about to be called."""
        self._asking[self._step(context)] = (str(request.model or ""), time.time_ns(), time.monotonic_ns())

    def asked(self, context: Any, *, response: Any = None, error: BaseException | None = None) -> Event:
        """A model answered or failed."""
        step = self._step(context)
        model, at, began = self._asking.pop(step, ("", 0, 0))
        reason = getattr(response, "finish_reason", None)
        told: Any = error
        if code := getattr(response, "error_code", None):
            told = {"code": code, "message": getattr(response, "error_message", None)}
        self.run.agent = step[0]
        made = self.run.model_call(
            model=model or getattr(response, "model_version", None) or None,
            started_at=time_text(at) if at else None,
            duration_ns=time.monotonic_ns() - began if began else None,
            usage=usage_of(response),
            finish_reason=None if reason is None else str(getattr(reason, "value", reason)).lower(),
            error=told,
            **self._follows(step[1]),
        )
        self.follow(made["event_id"], branch=step[1])
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
        if context.function_call_id not in self._tools:
            return  # it failed, and somebody answered in its place
        token, began = self._tools.pop(context.function_call_id)
        self.run.leave(token)
        self._done[context.function_call_id] = (time.time_ns(), time.monotonic_ns() - began, error)

    def _step(self, context: Any) -> _Step:
        return context.agent_name, self._within(branch_of(context))


def branch_of(context: Any) -> str | None:
    """The branch that a context of ADK is in."""
    branch = getattr(getattr(context, "_invocation_context", None), "branch", None)
    return branch if isinstance(branch, str) else None


def _timing(done: tuple[int, int, BaseException | None] | None) -> dict[str, Any]:
    if done is None:
        return {}
    at, took, error = done
    return {"at_ns": at, "duration_ns": took, "error": error}
