"""A run of the OpenAI Agents SDK with a tool and a handoff, against a model server that answers from a script."""

import json

import httpx
from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


def called(name: str, arguments: dict[str, str], call_id: str) -> dict[str, object]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


said = {"type": "output_text", "text": "A letter is written.", "annotations": []}
SCRIPT = iter(
    [
        called("look_up", {"order": "7"}, "call-1"),
        called("transfer_to_scribe", {}, "call-2"),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]},
    ]
)


def answer(request: httpx.Request) -> httpx.Response:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": "completed",
        "model": "large-2",
        "output": [next(SCRIPT)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    return httpx.Response(200, json=body)


client = AsyncOpenAI(
    api_key="none",
    base_url="http://model.invalid/v1",
    http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer)),
)
model = OpenAIResponsesModel("large-2", client)


@function_tool
def look_up(order: str) -> str:
    """Tell what is known of an order."""
    return f"order {order}: a lamp"


scribe = Agent(name="scribe", model=model)
desk = Agent(name="desk", instructions="Be kind.", tools=[look_up], handoffs=[scribe], model=model)
Runner.run_sync(desk, "My lamp came broken.")
provider.shutdown()
