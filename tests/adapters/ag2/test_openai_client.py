"""AG2 1.x with its real OpenAI client against a server that speaks the wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from ag2 import Agent, MemoryStream
from ag2.config import OpenAIConfig

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

Models = Callable[..., Any]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def config(server: Any) -> OpenAIConfig:
    return OpenAIConfig(model="m", api_key="sk-none", base_url=server.url, max_retries=0)


def test_a_turn_is_recorded_with_model_usage_and_the_provider_s_ids(
    ledger: Ledger, models: Models, say: Any, steps: Any
) -> None:
    server = models({"m": [say("add", a=1, b=2), "It is 3."]})
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent(
        "assistant", "Be kind.", config=config(server), tools=[add], middleware=[recorder.middleware]
    )
    assert asyncio.run(agent.ask("1+2?")).body == "It is 3."
    assert steps(ledger.read()) == [
        ("run_started assistant", ""),
        ("message user", "run_started assistant"),
        ("model_call", "message user"),
        ("message assistant", "model_call"),
        ("tool_call call_1_0", "message assistant"),
        ("tool_result call_1_0", "tool_call call_1_0"),
        ("model_call", "tool_result call_1_0"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]
    first, second = [entry.payload for entry in ledger.read(event_type="execution.model_call")]
    assert (first["model"], first["provider"]) == ("m", "openai")
    assert (first["finish_reason"], second["finish_reason"]) == ("tool_calls", "stop")
    assert (first["response_id"], second["response_id"]) == ("chatcmpl-1", "chatcmpl-2")
    assert first["usage"] == {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    assert second["usage"] == {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}


def test_a_refused_model_call_is_recorded_with_the_client_s_error(ledger: Ledger, models: Models) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent("assistant", config=config(models({"m": [401]})), middleware=[recorder.middleware])
    with pytest.raises(openai.AuthenticationError):
        asyncio.run(agent.ask("hello"))
    model_call = next(ledger.read(event_type="execution.model_call")).payload
    failed = next(ledger.read(event_type="execution.run_failed")).payload
    assert (model_call["model"], model_call["provider"]) == ("m", "openai")
    assert model_call["error"]["type"] == failed["error"]["type"] == "AuthenticationError"
    assert failed["error"]["module"] == "openai"


def test_the_record_holds_the_history_that_the_runtime_holds(
    ledger: Ledger, models: Models, say: Any
) -> None:
    server = models({"m": [say("add", a=1, b=2), "It is 3."]})
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=config(server), tools=[add], middleware=[recorder.middleware])
    stream = MemoryStream()
    asyncio.run(agent.ask("1+2?", stream=stream))
    held = [type(event).__qualname__ for event in asyncio.run(stream.history.get_events())]
    kept = [
        entry.payload["native"]["type"].rpartition(".")[2]
        for entry in ledger.read(correlation_id=str(stream.id))
        if "native" in entry.payload
    ]
    # The containers repeat events that are recorded one by one; usage stands in the model call.
    assert kept == [name for name in held if name not in {"ToolCallsEvent", "ToolResultsEvent", "UsageEvent"}]
