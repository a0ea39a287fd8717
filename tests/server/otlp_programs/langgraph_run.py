"""A LangGraph run with one tool, instrumented by OpenInference; exports where OTEL_EXPORTER_OTLP_ENDPOINT says."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def look_up(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def used(read: int, wrote: int) -> dict[str, int]:
    return {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}


asked = {"name": "look_up", "args": {"city": "Oslo"}, "id": "call-1"}
model = GenericFakeChatModel(
    messages=iter(
        [
            AIMessage(content="", tool_calls=[asked], usage_metadata=used(11, 3)),
            AIMessage(content="It is sunny.", usage_metadata=used(20, 4)),
        ]
    )
)
graph = StateGraph(MessagesState)
graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([look_up]))
graph.add_edge(START, "agent")
graph.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else END)
graph.add_edge("tools", "agent")
thread = {"configurable": {"thread_id": "thread-1"}}
graph.compile().invoke({"messages": [("user", "What is the weather?")]}, config=thread)
provider.shutdown()
