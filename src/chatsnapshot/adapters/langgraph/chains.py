"""Graphs, their nodes and other chains: runs, state changes, handoffs, questions and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.langgraph.leaving import when_cancelled
from chatsnapshot.adapters.langgraph.place import Facts, Inside, Place
from chatsnapshot.adapters.langgraph.telling import commands_in, held_in, output_of, said
from chatsnapshot.adapters.langgraph.watch import Watch
from chatsnapshot.adapters.observed import ObservedRun, Unanswered
from chatsnapshot.adapters.plain import describe_error, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.events.fields import error_text

__all__ = ["ask", "chain_end", "chain_error", "chain_start", "hand_over", "interrupted", "interrupts_of"]

_START, _END = "__start__", "__end__"
_DECISIONS = {
    "approve": "approved",
    "accept": "approved",
    "reject": "rejected",
    "ignore": "rejected",
    "edit": "edited",
}


def chain_start(watch: Watch, facts: Facts, inputs: Any) -> None:
    """A graph, a node or another chain begins."""
    if watch.ignored(facts):
        return
    above = watch.above(facts)
    if above is None or above.kind == "tool":
        _begin(watch, facts, inputs)
    elif _is_node(facts, above):
        _node(watch, facts, above, inputs)
    else:
        watch.put(Place("chain", facts, above, above.run, above.tree, above.heard))


def _is_node(facts: Facts, above: Place) -> bool:
    """A node of a graph, or a task of the functional API, which is called inside of one."""
    if facts.is_node:
        return facts.name != _START
    node = facts.metadata.get("langgraph_node")
    task = node == facts.name and above.facts.metadata.get("langgraph_node") not in (None, node)
    return task and facts.name != _START


def _begin(watch: Watch, facts: Facts, inputs: Any) -> None:
    is_graph = facts.metadata.get("ls_integration") == "langgraph"
    resume = getattr(inputs, "resume", None) if type(inputs).__name__ == "Command" else None
    resumed = is_graph and (resume is not None or (inputs is None and facts.thread_id is not None))
    begun = watch.begin("chain", facts, facts.name, resumed=resumed)
    if begun is None:
        return
    place, events = begun
    place.is_graph = is_graph
    with Inside(place) as run:
        if resume is not None:
            events += _answers(run, resume)
        messages, rest = held_in(inputs)
        given = plain(resume) if resume is not None and not events else rest
        events.append(watch.started(place, given))
        if place.above is not None and run.resumed:
            place.heard.know(inputs)  # called again with what it was called with before
        else:
            events += watch.given(place, messages)
        watch.recorder.record(*events)
    place.unwatch = when_cancelled(lambda: _left(watch, facts.run_id))


def _left(watch: Watch, run_id: Any) -> None:
    with watch.recorder.guarded():
        chain_error(watch, run_id, asyncio.CancelledError())


def _answers(run: ObservedRun, resume: Any) -> list[Event]:
    """What a person said to the questions of the run before."""
    waiting = list(run.questions)
    if isinstance(resume, Mapping) and waiting and set(map(str, resume)) <= set(waiting):
        return [_answer(run, str(key), value) for key, value in resume.items()]
    return [_answer(run, waiting[0], resume)] if waiting else []


def _answer(run: ObservedRun, question_id: str, value: Any) -> Event:
    return run.answer(question_id, content=plain(value), decision=_decision(value))


def _decision(value: Any) -> str | None:
    """What a person decided, in the form that the middleware for approvals has."""
    given = value.get("decisions") if isinstance(value, Mapping) else value
    given = given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given
    kind = given.get("type") if isinstance(given, Mapping) else None
    return _DECISIONS.get(kind) if isinstance(kind, str) else None


def _node(watch: Watch, facts: Facts, above: Place, inputs: Any) -> None:
    graph, is_node = above, facts.is_node
    graph.is_graph = graph.is_graph or is_node
    above.heard.know(inputs)
    place = watch.put(Place("node", facts, above, above.run, above.tree, above.heard))
    step = facts.metadata.get("langgraph_step")
    with place.tree.lock:
        if graph.step != step or graph.step_cause is None:
            # What one step does side by side has one cause: what the step before came to.
            graph.step, graph.step_cause = step, graph.last or graph.context.last
            graph.step_results = (*(() if graph.asked else graph.step_results), *graph.came)
            graph.came, graph.asked = (), False
        elif not is_node and graph.asked:
            graph.came, graph.asked = (), False
        place.last = graph.step_cause
        # Tasks of the functional API have one step, and begin after each other or beside each other.
        place.unanswered = Unanswered(graph.step_results if is_node else graph.came)
        with Inside(place) as run:
            watch.recorder.record(run.state(facts.name, node=facts.name, step=step, status="started"))
            watch.enter(place)


def chain_end(watch: Watch, run_id: Any, outputs: Any) -> None:
    """A graph, a node or another chain is over."""
    place = watch.leave(run_id)
    if place is None:
        return
    _go_on_after(place)
    if place.kind != "node" and not place.is_run:
        return
    if place.kind == "node":
        _node_end(watch, place, outputs, "completed")
        return
    with Inside(place) as run:
        waits = place.paused or ("interrupt" if run.questions else None)
        if waits is not None:
            watch.end(place, run.paused(waits, native=_checkpoint(place)))
        else:
            watch.end(place, run.completed(output_of(outputs)))


def _go_on_after(place: Place) -> None:
    """What follows an inner graph in its node follows from what the graph came to."""
    if place.is_graph and not place.is_run and place.above is not None and place.last is not None:
        place.above.context.last = place.last


def _node_end(watch: Watch, place: Place, outputs: Any, status: str, reason: str | None = None) -> None:
    node = place.facts.metadata.get("langgraph_node") or place.name
    events: list[Event | None] = []
    messages, rest = held_in(outputs)
    with Inside(place) as run:
        for message in messages:
            if place.heard.knows(message):
                continue
            told = said(message)
            if told.role == "assistant" and not told.message_id and place.heard.said(told):
                place.heard.hear(message, told)  # the answer of a model, in a message of the node's own
                continue
            events.append(watch.message(place, message, told))
        events.append(
            run.state(
                place.name,
                node=node,
                step=place.facts.metadata.get("langgraph_step"),
                status=status,
                value=rest,
                reason=reason,
            )
        )
        for command in commands_in(outputs):
            events += hand_over(place, run, command.goto, inside_node=True)
        watch.recorder.record(*events)
    if (graph := place.above) is not None:
        graph.last = place.last
        results = [one for one in place.unanswered.results if one not in graph.step_results]
        graph.came = (*graph.came, *(one for one in results if one not in graph.came))


def hand_over(
    place: Place, run: ObservedRun, goto: tuple[str, ...], *, inside_node: bool = False, **more: Any
) -> list[Event]:
    """Handoffs to nodes, once each, however many levels a command passes through."""
    made: list[Event] = []
    for to in goto:
        if to == _END or to in place.handed or to == place.name:
            continue
        giver = place.name if inside_node and place.name.lower() not in ("tools", "agent", "model") else None
        level: Place | None = place
        while level is not None and level.run is place.run:
            level.handed.add(to)
            if level.is_graph or level.is_run:
                level.parties.update({to, giver} if giver else {to})
            level = level.above
        made.append(run.handoff(to, from_agent=giver or place.agent, **more))
    return made


def chain_error(watch: Watch, run_id: Any, error: BaseException) -> None:
    """A graph, a node or another chain ends with an exception; interrupts and commands are exceptions too."""
    place = watch.leave(run_id)
    if place is None:
        return
    _go_on_after(place)
    kind = _kind(error)
    if kind == "GraphInterrupt":
        ask(watch, place, error)
    if place.kind == "node":
        _node_error(watch, place, error, kind)
    elif place.is_run:
        with Inside(place) as run:
            watch.end(place, _ended(watch, place, run, error, kind))


def _node_error(watch: Watch, place: Place, error: BaseException, kind: str | None) -> None:
    if kind == "GraphInterrupt":
        _node_end(watch, place, None, "interrupted")
    elif kind == "ParentCommand":
        _node_end(watch, place, error.args[0], "completed")
    elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        _node_end(watch, place, None, "cancelled")
    else:
        _node_end(watch, place, None, "failed", error_text(describe_error(error)))


def _ended(
    watch: Watch, place: Place, run: ObservedRun, error: BaseException, kind: str | None
) -> Event | None:
    if kind == "GraphInterrupt":
        event = run.paused("interrupt", native=_checkpoint(place))
        watch.paused(place)
        for one in interrupts_of(error):
            if event is not None:
                place.tree.causes.setdefault(_id(one), event["event_id"])
        return event
    if kind == "ParentCommand":
        return run.completed(output_of(error.args[0]))
    if kind is not None:
        return run.paused(str(error), native=_checkpoint(place))
    if isinstance(error, GeneratorExit):
        return run.cancelled("the stream was closed before its end")
    if isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
        return run.cancelled(type(error).__name__)
    return run.failed(error)


def _kind(error: BaseException) -> str | None:
    """Which of LangGraph's signals an exception is; ``None`` for a real one. No class of it is imported for this."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "langgraph.errors"]
    if "GraphBubbleUp" not in names:
        return None
    return next((name for name in ("GraphInterrupt", "ParentCommand") if name in names), names[0])


# --- questions --------------------------------------------------------------------------------------------


def interrupts_of(error: BaseException) -> list[Any]:
    """The interrupts that an exception carries."""
    found = error.args[0] if error.args else ()
    return list(found) if isinstance(found, (list, tuple)) else []


def ask(watch: Watch, place: Place, error: BaseException) -> None:
    """Record the questions that a run was interrupted with: in the run that the user called, who will answer it."""
    if place.is_top:
        _questions(watch, place, interrupts_of(error))


def interrupted(watch: Watch, event: Any) -> None:
    """A graph paused: by interrupts, or before or after a node as it was told to."""
    place = watch.find(event.run_id)
    if place is None or not place.is_run:
        return
    place.paused = "interrupt" if event.interrupts else str(event.status)
    place.checkpoint_id = event.checkpoint_id
    _questions(watch, place, list(event.interrupts))


def _questions(watch: Watch, place: Place, interrupts: list[Any]) -> None:
    asked: list[Event] = []
    with Inside(place) as run:
        for one in interrupts:
            question_id = _id(one)
            if question_id in place.tree.asked:
                continue
            place.tree.asked.add(question_id)
            value = getattr(one, "value", None)
            approval = isinstance(value, Mapping) and not value.keys().isdisjoint(
                ("action_requests", "action_request")
            )
            cause = place.tree.causes.get(question_id)
            more: dict[str, Any] = {} if cause is None else {"cause": cause}
            kind = "approval" if approval else "question"
            asked.append(run.question(question_id, kind=kind, prompt=value, call_id=place.call_id, **more))
        watch.recorder.record(*asked)


def _id(interrupt: Any) -> str:
    return str(getattr(interrupt, "id", None) or getattr(interrupt, "interrupt_id", None) or "interrupt")


def _checkpoint(place: Place) -> dict[str, str] | None:
    return None if place.checkpoint_id is None else {"checkpoint_id": place.checkpoint_id}
