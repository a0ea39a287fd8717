"""A desk that adds, with AG2 1.x; it knows nothing of any recording."""

import asyncio
import os
import sys

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig


def add(a: int, b: int) -> int:
    """Add."""
    if number := os.environ.get("SIGNAL"):
        os.kill(os.getpid(), int(number))
    return a + b


async def main() -> None:
    asked = ToolCallEvent(name="add", arguments='{"a": 2, "b": 3}')
    agent = Agent("desk", "Be kind.", config=TestConfig(asked, "five"), tools=[add])
    reply = await agent.ask("What is 2+3?")
    print(reply.body)


asyncio.run(main())
print("done", sys.argv[1:], file=sys.stderr)
sys.exit(int(os.environ.get("CODE", "0")))
