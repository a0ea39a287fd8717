"""Runs of Strands swarms and graphs: their nodes as tasks, handoffs, and the agents in them as child runs."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import Token, enter, leave
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.strands.contents import output_of, parts_of
from chatsnapshot.adapters.strands.turns import (
    CLOSED_EARLY,
    asks_first,
    dropped,
    responses_of,
    stopped,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatsnapshot.adapters.strands.recorder import StrandsRecorder

__all__ = ["Flow", "FlowLeft"]


class FlowLeft(NamedTuple):
    """What a swarm or graph that waits for somebody has done."""

    calls: Counter[str]
    open: frozenset[str]
    done: dict[str, str]


class Flow:
    """One run of a swarm or a graph. It is told with its first node: only then does the runtime know the task."""

    def __init__(self, recorder: StrandsRecorder, source: Any) -> None:
        self.recorder = recorder
        self.source = source
        self.run: ObservedRun | None = None
        self._opened = False
        state = getattr(source, "_interrupt_state", None)
        self._resumed = bool(
            getattr(state, "activated", False) or getattr(source, "_resume_from_session", False)
        )
        self._around = sys.exc_info()[1]
        self._calls: Counter[str] = Counter()
        """How often each node was called."""
        self._begun: dict[str, Event] = {}
        self._done: dict[str, str] = {}
        """Node to the event that says how it ended."""
        self._goes_on: frozenset[str] = frozenset()
        """Nodes whose task goes on where it waited."""
        left = recorder.flows_left.pop(source, None)
        if left is not None and self._resumed:
            self._calls, self._goes_on, self._done = left.calls, left.open, left.done
        self._watched: Any = None
        self._handed: dict[str, str] = {}
        """Node to the handoff that gave it the work."""
        self._handing: dict[str, str] = {}
        """Node to the tool call that hands the work on."""
        self._tokens: dict[str, Token | None] = {}

    async def _open(self) -> ObservedRun | None:
        if self._opened:
            return self.run
        self._opened = True
        source, recorder = self.source, self.recorder
        name = header_text(getattr(source, "id", None)) or type(source).__name__.lower()
        session = getattr(source, "session_manager", None)
        own = recorder.conversation(source, session, fresh=not self._resumed)
        begin: dict[str, Any] = {"key": f"flow-{id(source):x}", "correlation_id": own}
        if self._resumed:
            parent = recorder.parent_here()
            inside = parent is not None and parent.inside_tool
            begin["resumed"] = True
            begin["earlier"] = await recorder.aleft_open(own if inside else recorder.correlation_id or own)
        self.run = recorder.begin(name, **begin)
        if self.run is None:
            return None
        made = []
        if self._resumed:
            made = [self.run.answer(asked, content=answer) for asked, answer in responses_of(source).items()]
        task = getattr(source.state, "task", None)
        facts = {
            "workflow": type(source).__name__,
            "nodes": list(source.nodes),
            "runtime_version": recorder.version,
        }
        made.append(self.run.started(_input_of(task), **{key: one for key, one in facts.items() if one}))
        await recorder.arecord(*made)
        return self.run

    # --- nodes --------------------------------------------------------------------------------------------

    async def node_begun(self, event: Any) -> None:
        """A node is about to run, unless a person is to be asked first; what runs in it is a child of this run."""
        run = await self._open()
        node = event.node_id
        if run is None or asks_first(event, event.source):
            return
        goes_on = node in self._goes_on
        self._goes_on -= {node}
        self._calls[node] += not goes_on
        task = {"task_id": f"{node}-{self._calls[node]}", "name": node, "workflow_id": run.run_id}
        handed = self._handed.pop(node, None)
        leading = [] if goes_on else [handed] if handed else self._before(node)
        cause, *links = leading or [run.started_event or ""]
        made = run.event("system.task_started", task, cause=cause, links=links or None)
        self._begun[node] = made
        await self.recorder.arecord(made)
        self._tokens[node] = enter(run.ledger, run.correlation_id, made["event_id"], run.run_id, run.agent)

    def _before(self, node: str) -> list[str]:
        """The ends of the nodes of a graph that lead to this one."""
        edges = getattr(self.source, "edges", None) or ()
        leading = sorted(edge.from_node.node_id for edge in edges if edge.to_node.node_id == node)
        return [self._done[one] for one in leading if one in self._done]

    async def node_ended(self, event: Any) -> None:
        """A node is through, or failed; in a swarm it may have handed the work on."""
        node, run = event.node_id, self.run
        leave(self._tokens.pop(node, None))
        begun = self._begun.pop(node, None)
        if run is None or begun is None:
            return
        result = getattr(self.source.state.results.get(node), "result", None)
        error = result if isinstance(result, BaseException) else sys.exc_info()[1]
        task = {name: begun["payload"][name] for name in ("task_id", "name", "workflow_id")}
        if error is not None and error is not self._around:
            made = [self._failed(run, task, begun, plain(error))]
        elif result is None:
            made = [self._failed(run, task, begun, {"message": "the node did not run"})]
        else:
            facts = {**task, "output": _output(result)}
            made = [run.event("system.task_completed", facts, cause=begun["event_id"])]
        self._done[node] = made[0]["event_id"]
        target = getattr(self.source.state, "handoff_node", None)
        if target is not None:
            cause = self._handing.pop(node, None) or self._done[node]
            message = getattr(self.source.state, "handoff_message", None)
            made.append(run.handoff(target.node_id, from_agent=node, cause=cause, message=message))
            self._handed[target.node_id] = made[-1]["event_id"]
        await self.recorder.arecord(*made)

    def _failed(self, run: ObservedRun, task: dict[str, Any], begun: Event, error: Any) -> Event:
        return run.event("system.task_failed", {**task, "error": error}, cause=begun["event_id"])

    def handing(self, agent: Any, call: str) -> None:
        """The tool call of an agent hands the work on, if the agent is a node of this swarm."""
        for node_id, node in self.source.nodes.items():
            if getattr(node, "executor", None) is agent:
                self._handing[node_id] = call

    # --- the end ------------------------------------------------------------------------------------------

    def ending(self, event: Any, forget: Callable[[], Any]) -> None:
        """The run ends; a hook that raises now keeps us from being told what it ends with."""
        run, recorder = self.run, self.recorder

        def lost() -> None:
            forget()
            if run is not None:
                dropped(recorder, run)

        self._watched = weakref.finalize(event, lost)
        self._watched.atexit = False

    async def close(self, event: Any, unread: bool = False) -> None:
        """The run is over: completed, waiting, cancelled or failed."""
        if self._watched is not None:
            self._watched.detach()
        run = self.run if unread else await self._open()
        while self._tokens:
            leave(self._tokens.popitem()[1])
        if run is None:
            return
        error = sys.exc_info()[1]
        state = self.source.state
        status = getattr(
            getattr(state, "status", None) or getattr(state, "completion_status", None), "value", ""
        )
        made: list[Event | None] = []
        if unread:
            made.append(run.cancelled(CLOSED_EARLY))
        elif error is not None and error is not self._around:
            made.append(stopped(run, error))
        elif status == "interrupted":
            made += [self._question(run, interrupt) for interrupt in unanswered(self.source)]
            made.append(run.paused("waits for a person"))
            left = FlowLeft(self._calls, frozenset(self._begun), self._done)
            self.recorder.flows_left[self.source] = left
        elif status == "completed":
            made.append(run.completed(self._output()))
        else:
            made.append(run.failed(self._error()))
        self.recorder.end(run)
        await self.recorder.arecord(*made)

    def _question(self, run: ObservedRun, interrupt: Any) -> Event:
        return run.question(
            str(interrupt.id), prompt=plain(interrupt.reason), name=header_text(interrupt.name)
        )

    def _output(self) -> Any:
        """What the last node of a swarm gave, or the nodes of a graph that nothing comes after."""
        results = self.source.state.results
        edges = getattr(self.source, "edges", None)
        if edges is None:
            history = [node.node_id for node in self.source.state.node_history]
            ends = history[-1:]
        else:
            leading = {edge.from_node.node_id for edge in edges}
            ends = [node for node in results if node not in leading] or list(results)
        found = {node: _output(results[node].result) for node in ends if node in results}
        return next(iter(found.values())) if len(found) == 1 else found or None

    def _error(self) -> Any:
        raised = [one.result for one in self.source.state.results.values()]
        known = next((error for error in reversed(raised) if isinstance(error, BaseException)), None)
        return known or "a limit was reached, or a node was cancelled"


def _output(result: Any) -> Any:
    nodes = getattr(result, "results", None)
    if isinstance(nodes, dict):  # of a swarm or graph inside
        return {name: _output(one.result) for name, one in nodes.items()}
    return plain(result) if isinstance(result, BaseException) else output_of(result)


def _input_of(task: Any) -> Any:
    """What a swarm or graph is asked: text, or content blocks as parts."""
    return parts_of({"content": task}) if isinstance(task, list) else task
