"""A program for the tests with processes: asks for approval, and goes on in another process.

``python booking.py ask LEDGER HISTORY`` runs until approval is needed, writes the messages and waits to be killed;
``python booking.py go LEDGER HISTORY`` approves and goes on.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import chatsnapshot
from chatsnapshot.adapters.pydantic_ai import PydanticAIRecorder


def main() -> None:
    """The command."""
    todo, ledger, history = sys.argv[1:]
    asking = [ToolCallPart("book", {"city": "Ghent"}, tool_call_id="c1")]
    snapshot = chatsnapshot.open(ledger)

    def answer(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=asking if todo == "ask" else [TextPart("done")])

    agent = Agent(
        FunctionModel(answer),
        name="alpha",
        output_type=[str, DeferredToolRequests],
        capabilities=[PydanticAIRecorder(snapshot).capability],
    )

    @agent.tool_plain(requires_approval=True)
    def book(city: str) -> str:
        return f"booked {city}"

    if todo == "ask":
        Path(history).write_bytes(agent.run_sync("Book").all_messages_json())
        print("asked", flush=True)
        signal.pause()
    messages = ModelMessagesTypeAdapter.validate_json(Path(history).read_bytes())
    said = DeferredToolResults(approvals={"c1": True})
    print(agent.run_sync(message_history=messages, deferred_tool_results=said).output)
    snapshot.close()


if __name__ == "__main__":
    main()
