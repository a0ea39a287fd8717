"""An agent of Pydantic AI with two tools, of which one asks another agent, with its own OpenTelemetry instrumentation."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

scribe = Agent(TestModel(custom_output_text="Dear Odile"), name="scribe")
desk = Agent(TestModel(custom_output_text="Sent."), name="desk", instructions="Be kind.")


@desk.tool_plain
def look_up(order: str) -> str:
    """Tell what is known of an order."""
    return "a lamp"


@desk.tool
async def write(context: RunContext[None], text: str) -> str:
    """Let the scribe write."""
    return (await scribe.run(text)).output


desk.run_sync("My lamp came broken.")
provider.shutdown()
