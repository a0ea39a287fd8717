"""The agent service: an AG2 agent whose tool asks the tool service. ``agent.py TOOLS_URL``, ledger by environment.

Runs offline: the model follows a script.
"""

import sys

import httpx
from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig
from serving import serve
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.adapters.web import AsyncLedgerTransport, LedgerMiddleware

snapshot = chatsnapshot.open()
recorder = AG2Recorder(snapshot)
tools = httpx.AsyncClient(base_url=sys.argv[1], transport=AsyncLedgerTransport(snapshot))


async def find_order(number: int) -> str:
    """Where an order is."""
    return (await tools.get(f"/orders/{number}")).text


async def desk(request: Request) -> JSONResponse:
    """One question is one turn of the agent: a run below the one that asks."""
    model = TestConfig(ToolCallEvent("find_order", arguments='{"number": 1042}'), "It left on Monday.")
    agent = Agent("desk", config=model, tools=[find_order], middleware=[recorder.middleware])
    answer = await agent.ask((await request.json())["question"])
    return JSONResponse({"answer": answer.body})


app = Starlette(
    routes=[Route("/desk", desk, methods=["POST"])],
    middleware=[Middleware(LedgerMiddleware, ledger=snapshot, service="agents")],
)

if __name__ == "__main__":
    serve(app, snapshot)
