"""The tool service: plain Python. ``tools.py``, ledger by environment."""

from serving import serve
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import chatsnapshot
from chatsnapshot.adapters.web import LedgerMiddleware

snapshot = chatsnapshot.open()


@snapshot.task
def look_up(number: int) -> str:
    """The shelf."""
    return {1042: "left on Monday"}.get(number, "unknown")


async def order(request: Request) -> PlainTextResponse:
    """One look-up is a run of its own."""
    async with snapshot.run(name="look-up"):
        return PlainTextResponse(look_up(int(request.path_params["number"])))


app = Starlette(
    routes=[Route("/orders/{number:int}", order)],
    middleware=[Middleware(LedgerMiddleware, ledger=snapshot, service="tools")],
)

if __name__ == "__main__":
    serve(app, snapshot)
