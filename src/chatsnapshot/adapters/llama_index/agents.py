"""Agents of LlamaIndex: what they are asked, the tools that they call, and to whom they hand over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.llama_index.telling import is_a, parts_of, role_of, tool_answer
from chatsnapshot.adapters.llama_index.watched import Place
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.flows import Flow

__all__ = ["asked", "described", "failed", "name_of", "step", "stepped"]

_HANDOFF = "handoff"
"""The tool by which agents of an ``AgentWorkflow`` hand over; LlamaIndex keeps the name for it."""


def name_of(workflow: Any) -> str:
    """What its run is called: an agent's name, that of the first one of several, else the class of the workflow."""
    name: Any = None
    if is_a(workflow, "AgentWorkflow"):
        name = workflow.root_agent
    elif is_a(workflow, "BaseWorkflowAgent"):
        name = workflow.name
    return header_text(name or type(workflow).__name__) or "workflow"


def described(workflow: Any, name: str) -> dict[str, Any]:
    """What the start of a run tells of its agents."""
    agents = getattr(workflow, "agents", None)
    agent = agents.get(name) if isinstance(agents, dict) else workflow
    facts = {
        "description": getattr(agent, "description", None),
        "instructions": getattr(agent, "system_prompt", None),
        "agents": sorted(agents) if isinstance(agents, dict) and len(agents) > 1 else None,
    }
    return {key: value for key, value in facts.items() if value}


def asked(flow: Flow, run: ObservedRun, start_event: Any) -> list[Event]:
    """The messages that an agent is called with."""
    made = [
        run.message(role_of(one), parts_of(one))
        for one in start_event.get("chat_history", default=None) or ()
        if is_a(one, "ChatMessage")
    ]
    said = start_event.get("user_msg", default=None)
    if isinstance(said, str):
        made.append(run.message("user", [text(said)]))
    elif is_a(said, "ChatMessage"):
        made.append(run.message(role_of(said), parts_of(said)))
    return made


# --- steps ------------------------------------------------------------------------------------------------


def step(flow: Flow, id_: str, name: str, given: Any, above: Place) -> Place:
    """A step of an agent begins: a call of a tool, or what is told by the calls of the model in it."""
    if is_a(given, "AgentInput", "AgentSetup"):
        _acts(flow, str(given.current_agent_name))
    if name != "call_tool" or not is_a(given, "ToolCall"):
        return Place("turn", id_, flow, above, name) if name == "run_agent_step" else above
    place = Place("tool", id_, flow, above, str(given.tool_name))
    place.call_id = str(given.tool_id) or uuid_text(uuid7()[0])
    with flow.lock:
        known = flow.run.calls.get(place.call_id)
        if known is None:
            with flow.at(flow.place) as (run, events):
                events.append(run.tool_call(place.call_id, place.name, plain(given.tool_kwargs)))
                place.last = run.last
        else:
            place.last = known  # it waited for somebody, and is called again from its beginning
        place.facts = {"to": given.tool_kwargs.get("to_agent"), "call": place.last}
        place.within(flow.run, place.last)
    return place


def _acts(flow: Flow, name: str) -> None:
    """That agent acts now: another one handed over to it, or it did so in a run before."""
    with flow.lock:
        cause = flow.handing.get(name)
        flow.handing.clear()
        if flow.run.agent == name:
            return
        if cause is None:
            flow.run.agent = name
            return
        with flow.at(flow.place) as (run, events):
            events.append(run.handoff(name, cause=cause))
            flow.next_cause = run.last
            run.agent = name


def stepped(flow: Flow, place: Place, result: Any) -> None:
    """A step of an agent is over; a tool that gave nothing waits for somebody."""
    if place.kind == "tool":
        if is_a(result, "ToolCallResult"):
            _answered(flow, place, tool_answer(result.tool_output))
        return
    with flow.lock:
        for selected in getattr(result, "tool_calls", None) or ():
            if flow.last_message is not None and getattr(selected, "tool_id", None):
                flow.run.asked.setdefault(str(selected.tool_id), flow.last_message)


def failed(flow: Flow, place: Place, error: BaseException) -> None:
    """A step of an agent raised."""
    if place.kind == "tool":
        _answered(flow, place, {"error": error})


def _answered(flow: Flow, place: Place, facts: dict[str, Any]) -> None:
    with flow.at(flow.place) as (run, events):
        events.append(run.tool_result(place.call_id, place.name, **facts))
        to = place.facts.get("to")
        if place.name == _HANDOFF and isinstance(to, str) and "error" not in facts:
            flow.handing[to] = str(place.facts["call"])
