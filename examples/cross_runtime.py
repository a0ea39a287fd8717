"""One piece of work in three runtimes: AG2 asks LangGraph, which asks OpenAI Agents, and back. Runs offline."""

import asyncio
import sys

from ag2 import Agent as Ag2Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig
from agents import Agent as OpenAIAgent
from agents import set_trace_processors
from agents.testing import ScriptedModel, assistant_message
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.adapters.langgraph import LangGraphRecorder
from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder

set_trace_processors([])  # nothing is uploaded
ledger = chatsnapshot.open(sys.argv[1] if len(sys.argv) > 1 else "cross-runtime.db")
ag2_recorder = AG2Recorder(ledger, correlation_id="refund-question")
langgraph_recorder = LangGraphRecorder(ledger)
openai_recorder = OpenAIAgentsRecorder(ledger)

# --- OpenAI Agents: writes the answer ---

writer = OpenAIAgent(name="writer", model=ScriptedModel([[assistant_message("We pay back within 30 days.")]]))


async def write(facts: str) -> str:
    """Have the writer put facts into a sentence."""
    result = await openai_recorder.run(writer, facts)
    return str(result.final_output)


# --- LangGraph: finds the facts, and has them written ---

model = GenericFakeChatModel(
    messages=iter(
        [
            AIMessage("", tool_calls=[{"name": "write", "args": {"facts": "refunds: 30 days"}, "id": "w1"}]),
            AIMessage("The writer says: we pay back within 30 days."),
        ]
    )
)
builder = StateGraph(MessagesState)
builder.add_node("think", lambda state: {"messages": [model.invoke(state["messages"])]})
builder.add_node("tools", ToolNode([write]))
builder.add_edge(START, "think")
builder.add_conditional_edges("think", tools_condition)
builder.add_edge("tools", "think")
researcher = builder.compile(name="researcher")


async def research(topic: str) -> str:
    """Have the researcher look something up."""
    state = await researcher.ainvoke({"messages": [("user", topic)]}, langgraph_recorder.config())
    return str(state["messages"][-1].content)


# --- AG2: talks to the customer ---


async def main() -> None:
    """One question, through all three and back."""
    script = TestConfig(ToolCallEvent("research", arguments='{"topic": "refunds"}'), "Within 30 days.")
    desk = Ag2Agent("desk", config=script, tools=[research], middleware=[ag2_recorder.middleware])
    reply = await desk.ask("How long do refunds take?")
    print(f"desk: {reply.body}")


asyncio.run(main())
runs = {entry.correlation_id: entry.event.source.runtime for entry in ledger.read()}
print(f"{len(runs)} runs in {', '.join(dict.fromkeys(runs.values()))}; {ledger.head} events, ", end="")
print("verified" if ledger.verify().ok else "DAMAGED")
ledger.close()
