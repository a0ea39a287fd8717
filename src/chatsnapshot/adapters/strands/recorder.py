"""``StrandsRecorder``: records the agents, swarms and graphs of Strands Agents through their hooks."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import need, version_of
from chatsnapshot.adapters.strands.flows import Flow, FlowLeft
from chatsnapshot.adapters.strands.turns import Left, Turn, asks_first, id_in
from chatsnapshot.clock import uuid7, uuid_text

__all__ = ["StrandsRecorder", "hooks"]

_VERSIONS = "strands-agents>=1.62,<2"
_EVENTS = {
    "BeforeInvocationEvent": "_on_begun",
    "AfterInvocationEvent": "_on_ended",
    "MessageAddedEvent": "_on_said",
    "MessageUpdatedEvent": "_on_replaced",
    "BeforeModelCallEvent": "_on_asking",
    "AfterModelCallEvent": "_on_answered",
    "BeforeToolCallEvent": "_on_calling",
    "AfterToolCallEvent": "_on_called",
    "AfterToolsEvent": "_on_all_called",
    "BeforeMultiAgentInvocationEvent": "_on_flow_begun",
    "AfterMultiAgentInvocationEvent": "_on_flow_ended",
    "BeforeNodeCallEvent": "_on_node_begun",
    "AfterNodeCallEvent": "_on_node_ended",
}
_ENDS = {"AfterInvocationEvent": "_on_ending", "AfterMultiAgentInvocationEvent": "_on_flow_ending"}
"""What is looked at before the hooks of everybody else too: one that raises keeps those after it from being called."""
_FIRST, _LAST = -1_000.0, 1_000.0
"""Behind the hooks of everybody else: what they change (cancelled, replaced, retried) is what is recorded."""

_conversations: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The correlation of an agent's conversation, of a swarm or of a graph, as long as the object lives."""
_here: ContextVar[tuple[Turn, ...]] = ContextVar("chatsnapshot_strands_turns", default=())
"""The runs that this context is in, for agents that run several at a time."""


def hooks() -> Any:
    """The module ``strands.hooks``; one clear error where it is missing or lacks what recording needs."""
    needed = (*_EVENTS, "HookRegistry.get_callbacks_for", "HookRegistry.add_callback", "HookOrder")
    return need("strands.hooks", *needed, extra="strands", versions=_VERSIONS, what="Strands Agents")


class StrandsRecorder(RuntimeRecorder):
    """Records Strands agents, swarms and graphs into a ledger; it is a hook provider.

    >>> recorder = StrandsRecorder(ledger)
    >>> agent = Agent(name="triage", hooks=[recorder])
    >>> swarm = Swarm([researcher, writer], hooks=[recorder])

    Every invocation is a run under ``correlation_id``, or else under the id of the session manager's session, or else
    under one for the conversation that the agent holds. An agent that is a tool of a recorded agent is recorded with
    it, as a child run with a correlation of its own, caused by the tool call; so are the nodes of a recorded swarm or
    graph.

    Nothing changes for the agents: see :class:`~chatsnapshot.adapters.custom.RuntimeRecorder` for the other arguments.
    """

    runtime = "strands"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self.version = version_of("strands-agents")
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()
        """The registries that have the hooks."""
        self._turns: dict[int, list[Turn]] = {}
        """The open runs of each agent, by its identity."""
        self._flows: dict[int, Flow] = {}
        self.waiting: weakref.WeakKeyDictionary[Any, Left] = weakref.WeakKeyDictionary()
        """What the last run of an agent left that waits for somebody."""
        self.flows_left: weakref.WeakKeyDictionary[Any, FlowLeft] = weakref.WeakKeyDictionary()
        """The same of a swarm or a graph."""
        self.going_on: weakref.WeakKeyDictionary[Any, tuple[str, weakref.ref[Any]]] = (
            weakref.WeakKeyDictionary()
        )
        """The end of an agent's last run. Its event lives as long as the agent may go on from it by itself."""
        self._callbacks: tuple[dict[type, Callable[[Any], Any]], ...] | None = None
        self._registry: Any = None

    # --- hooks --------------------------------------------------------------------------------------------

    def register_hooks(self, registry: Any, **more: Any) -> None:
        """Called by Strands for ``hooks=[recorder]``; twice for the same agent does nothing more."""
        if registry in self.known:
            return
        self.known.add(registry)
        for callbacks, order in zip(self.callbacks(), (_FIRST, _LAST), strict=True):
            for kind, callback in callbacks.items():
                registry.add_callback(kind, callback, order=order)

    def attach(self, *runners: Any) -> Any:
        """Record agents, swarms and graphs that exist already; gives back the only one, or all of them.

        Raises :class:`TypeError` for anything else.
        """
        for runner in runners:
            if not self._within(runner):
                raise TypeError(
                    f"attach() takes agents, swarms and graphs of strands, not {type(runner).__name__}"
                )
        return runners[0] if len(runners) == 1 else runners

    def callbacks(self) -> tuple[dict[type, Callable[[Any], Any]], ...]:
        """What is called for each kind of event: before everybody else, and after."""
        if self._callbacks is None:
            module = hooks()
            self._registry = module.HookRegistry
            self._callbacks = tuple(
                {getattr(module, kind): getattr(self, name) for kind, name in names.items()}
                for names in (_ENDS, _EVENTS)
            )
        return self._callbacks

    def _within(self, runner: Any) -> bool:
        """Record an agent, swarm or graph from here on, where that is one of Strands in this process."""
        if runner is None:
            return False
        self.callbacks()
        if not isinstance(getattr(runner, "hooks", None), self._registry):
            return False
        self.register_hooks(runner.hooks)
        return True

    # --- agents -------------------------------------------------------------------------------------------

    def conversation(self, runner: Any, session: Any, fresh: bool) -> str:
        """The correlation of what ``runner`` does next: its stored session, or one as long as the object lives."""
        stored = getattr(session, "session_id", None)
        if stored:
            return str(stored)
        known = None if fresh else _conversations.get(runner)
        if known is None:
            known = _conversations[runner] = uuid_text(uuid7()[0])
        return known

    def knows(self, runner: Any, session: Any) -> bool:
        """Whether the correlation of what ``runner`` does is known."""
        return bool(getattr(session, "session_id", None)) or runner in _conversations

    def remember(self, runner: Any, correlation: str) -> None:
        """The correlation of what ``runner`` does, found in the ledger."""
        _conversations[runner] = correlation

    def _turn(self, agent: Any) -> Turn | None:
        turns = self._turns.get(id(agent))
        if not turns:
            return None
        if len(turns) > 1:
            here = _here.get()
            return next((turn for turn in reversed(turns) if turn in here), turns[-1])
        return turns[0]

    async def _on_begun(self, event: Any) -> None:
        with self.guarded():
            turn = await Turn.begin(self, event)
            if turn is None:
                return
            self._turns.setdefault(id(event.agent), []).append(turn)
            _here.set((*_here.get(), turn))
            try:
                await self.arecord(*turn.opening())
            except asyncio.CancelledError:  # the agent will not begin
                self.forget(event.agent, turn)
                self.end(turn.run)
                if (end := turn.run.cancelled("cancelled")) is not None:
                    self.safe.hand_over(end)
                raise

    def _on_ending(self, event: Any) -> None:
        self._seen(event, Turn.ending)

    async def _on_ended(self, event: Any) -> None:
        with self.guarded():
            turn = self._turn(event.agent)
            if turn is not None:
                self.forget(event.agent, turn)
                await self.arecord(*turn.closing(event))

    def forget(self, agent: Any, turn: Turn) -> None:
        """The run of an agent is over."""
        turns = self._turns.get(id(agent), [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._turns.pop(id(agent), None)
        _here.set(tuple(one for one in _here.get() if one is not turn))

    async def _on_said(self, event: Any) -> None:
        await self._told(event, Turn.said)

    async def _on_replaced(self, event: Any) -> None:
        await self._told(event, Turn.replaced)

    def _on_asking(self, event: Any) -> None:
        self._seen(event, Turn.asking)

    async def _on_answered(self, event: Any) -> None:
        await self._told(event, Turn.answered)

    async def _on_calling(self, event: Any) -> None:
        with self.guarded():
            self._within(getattr(event.selected_tool, "agent", None))
        with self.guarded():
            turn = self._turn(event.agent)
            if turn is not None and not asks_first(event, event.agent):
                call_id = id_in(event.tool_use)
                await self.arecord(*turn.calling(call_id, event))
                turn.inside(call_id)

    async def _on_called(self, event: Any) -> None:
        await self._told(event, Turn.called)

    def _on_all_called(self, event: Any) -> None:
        self._seen(event, Turn.all_called)

    def _seen(self, event: Any, see: Callable[[Turn, Any], None]) -> None:
        """Something to be known, of which nothing is recorded."""
        with self.guarded():
            turn = self._turn(event.agent)
            if turn is not None:
                see(turn, event)

    async def _told(self, event: Any, tell: Callable[[Turn, Any], list[Event]]) -> None:
        with self.guarded():
            turn = self._turn(event.agent)
            if turn is not None and (made := tell(turn, event)):
                await self.arecord(*made)

    # --- swarms and graphs --------------------------------------------------------------------------------

    def flows(self) -> Iterator[Flow]:
        """The swarms and graphs that run."""
        return iter(list(self._flows.values()))

    async def _on_flow_begun(self, event: Any) -> None:
        with self.guarded():
            before = self._flows.pop(id(event.source), None)
            if before is not None:  # its stream was dropped, and its end was never told
                await before.close(event, unread=True)
            self._flows[id(event.source)] = Flow(self, event.source)

    async def _on_flow_ending(self, event: Any) -> None:
        with self.guarded():
            flow = self._flows.get(id(event.source))
            if flow is not None:
                flow.ending(event, functools.partial(self._flows.pop, id(event.source), None))

    async def _on_flow_ended(self, event: Any) -> None:
        with self.guarded():
            flow = self._flows.pop(id(event.source), None)
            if flow is not None:
                await flow.close(event)

    async def _on_node_begun(self, event: Any) -> None:
        with self.guarded():
            node = event.source.nodes.get(event.node_id)
            self._within(getattr(node, "executor", None))
            flow = self._flows.get(id(event.source))
            if flow is not None:
                await flow.node_begun(event)

    async def _on_node_ended(self, event: Any) -> None:
        with self.guarded():
            flow = self._flows.get(id(event.source))
            if flow is not None:
                await flow.node_ended(event)
