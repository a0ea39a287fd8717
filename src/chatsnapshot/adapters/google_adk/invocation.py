"""One invocation of ADK: its run, and the runs of the agents that are called in it as if they were tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.custom import ObservedRun, Parent
from chatsnapshot.adapters.google_adk.contents import answer_facts, is_request, parts_of, text_of
from chatsnapshot.adapters.google_adk.strand import Strand
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.google_adk.recorder import GoogleADKRecorder

__all__ = ["Invocation", "begun"]

_CORRELATION_CHARS_MAX = 200


class Invocation:
    """An invocation while it goes on; the plugin records what its methods build.

    A sub-agent that is called like a tool works in a branch that ends with ``NAME@CALL``: that is a child run.
    """

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
        self._trunk = Strand(run)
        self._children: dict[str, Strand] = {}
        self._arguments: dict[str, tuple[str, Any]] = {}
        """Call id to the name and the arguments of the call: what an agent that is called is asked."""
        self.held: list[Event] = []
        """What is recorded together with what comes next."""
        task = asyncio.current_task()
        if task is not None:
            # ADK tells no plugin of a cancellation.
            task.add_done_callback(self._task_ended)

    async def record(self, *events: Event | None) -> None:
        """Record events behind those that are held."""
        held, self.held = self.held, []
        await self._recorder.arecord(*held, *events)

    # --- the beginning and the end ------------------------------------------------------------------------

    def first(self) -> Iterator[Event | None]:
        """Answers to what the run before asked, the start, and what the user says."""
        context, run, content = self._context, self.run, self._sent
        yield from self._answers(run)
        native = {"invocation_id": context.invocation_id, "app": context.app_name}
        facts = {} if run.resumed else {"session": context.session.id}
        yield run.started(text_of(content), user=context.user_id, native=native, **facts)
        for answer in _responses(content):
            if answer.id in run.calls and not is_request(answer):
                yield run.tool_result(answer.id, answer.name, result=answer.response)
        parts = [part for part in parts_of(content) if part["type"] != "tool_call_response"]
        if parts:
            yield run.message("user", parts, name=_asking(run) or context.user_id)
        last = context.session.events[-1] if context.session.events else None
        if content is not None and last is not None and last.author == "user":
            yield self._trunk.state(last)
        self._trunk.follow(run.last)

    def end(self, *, error: BaseException | None = None, aborted: bool = False) -> Iterator[Event | None]:
        """The terminal events, after what was left open; agents that were called end before the run that called them."""
        waits = self._trunk.waits_for
        for branch, child in reversed(list(self._children.items())):
            waits = child.waits_for or waits or "waits for a person"
            yield from self._ended(child, error, aborted, child.waits_for or "waits for a person")
            del self._children[branch]
        yield from self._ended(self._trunk, error, aborted, waits)
        self._forget(self)

    def _ended(
        self, strand: Strand, error: BaseException | None, aborted: bool, waits: str | None
    ) -> Iterator[Event | None]:
        run = strand.run
        yield from strand.errors()
        if error is not None:
            yield run.failed(error)
        elif aborted:
            yield run.cancelled("the invocation was aborted")
        elif waits is not None:
            yield run.paused(waits)
        else:
            yield run.completed(strand.output)
        self._recorder.end(run)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        if self.run.ended is not None or self._recorder.run(self.run.key) is not self.run:
            return
        with self._recorder.guarded():
            if self.held:
                self._recorder.safe.hand_over(*self.held)
            reason = "the task was cancelled" if task.cancelled() else "nobody read on"
            for strand in [*reversed(self._children.values()), self._trunk]:
                if (ended := strand.run.cancelled(reason)) is not None:
                    self._recorder.safe.hand_over(ended)
                self._recorder.end(strand.run)
            self._forget(self)

    # --- which run ----------------------------------------------------------------------------------------

    async def at(self, branch: str | None) -> tuple[Strand, list[Event | None]]:
        """The run that a branch belongs to, and the events with which it begins."""
        made: list[Event | None] = []
        strand, path = self._trunk, ""
        for step in (branch or "").split(".") if branch else ():
            path = f"{path}.{step}" if path else step
            name, _, call_id = step.partition("@")
            if path in self._children:
                strand = self._children[path]
            elif call_id in strand.run.calls:
                strand = await self._called(strand, path, name, call_id, made)
        return strand, made

    async def _called(
        self, above: Strand, branch: str, name: str, call_id: str, made: list[Event | None]
    ) -> Strand:
        parent = above.run
        correlation = f"{self.run.correlation_id}/{branch}"
        if len(correlation) > _CORRELATION_CHARS_MAX:
            correlation = ""
        before = any(event.branch == branch for event in self._context.session.events)
        resumed = bool(correlation and self.run.resumed and before)
        earlier = await self._recorder.aleft_open(correlation) if resumed else None
        if branch in self._children:
            return self._children[branch]  # it began meanwhile
        run = self._recorder.begin(
            name,
            key=f"{self.run.key}/{branch}",
            correlation_id=correlation or None,
            parent=Parent(parent.run_id, parent.calls[call_id], parent.agent, parent.correlation_id, True),
            resumed=resumed,
            earlier=earlier,
        )
        if run is None:
            return above
        child = self._children[branch] = Strand(run, branch)
        asked = self._arguments.get(call_id, ("", {}))[1]
        if resumed:
            made.extend(self._answers(run))
        made.append(run.started(None if resumed else asked))
        if not resumed:
            said = asked.get("request") if isinstance(asked, dict) else None
            said = said if isinstance(said, str) else json.dumps(asked, ensure_ascii=False, default=str)
            made.append(run.message("user", [text(said)], name=parent.agent))
        child.follow(run.last)
        return child

    def _answers(self, run: ObservedRun) -> Iterator[Event]:
        for answer in _responses(self._sent):
            if answer.id in run.questions:
                yield run.answer(answer.id, user=self._context.user_id, **answer_facts(answer))

    async def told(self, event: Any) -> list[Event | None]:
        """What an event that ADK keeps in the session says."""
        strand, made = await self.at(event.branch)
        for call in event.get_function_calls():
            self._arguments[call.id] = (call.name, plain(call.args or {}))
        for answer in event.get_function_responses():
            self._arguments.pop(answer.id, None)
            branch = next((one for one in self._children if one.endswith(f"@{answer.id}")), None)
            if branch is not None:
                child = self._children.pop(branch)
                made.extend(self._ended(child, None, False, None))
        made.extend(strand.told(event))
        return made


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


def _asking(run: ObservedRun) -> str | None:
    """The agent whose tool this run is."""
    above = run.parent
    return above.agent if above is not None and above.inside_tool else None


def _responses(content: Any) -> list[Any]:
    parts = getattr(content, "parts", None) or ()
    return [part.function_response for part in parts if part.function_response is not None]
