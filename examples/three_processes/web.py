"""The web application: takes a question, and asks the agent service. ``web.py AGENT_URL``, ledger by environment."""

import sys

import httpx
from serving import serve
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import chatsnapshot
from chatsnapshot.adapters.web import AsyncLedgerTransport, LedgerMiddleware

snapshot = chatsnapshot.open()
agents = httpx.AsyncClient(base_url=sys.argv[1], transport=AsyncLedgerTransport(snapshot))


async def ask(request: Request) -> JSONResponse:
    """One question of a customer is one run."""
    question = (await request.json())["question"]
    async with snapshot.run(name="question") as run:
        await snapshot.arecord("execution.message", {"role": "user", "content": question})
        found = await agents.post("/desk", json={"question": question})
        answer = found.json()["answer"]
        await snapshot.arecord("execution.message", {"role": "assistant", "content": answer})
    return JSONResponse({"answer": answer, "run": run.correlation_id})


# Strangers reach this one: nobody's word is taken for which run a request belongs to.
outermost = Middleware(LedgerMiddleware, ledger=snapshot, service="web", accept=False)
app = Starlette(routes=[Route("/ask", ask, methods=["POST"])], middleware=[outermost])

if __name__ == "__main__":
    serve(app, snapshot)
