"""The case: a lamp from Wick & Wane arrives broken, and two agents, a manager and three services put it right.

The models are scripted, so that it is the same each time and needs no network; the agents, the tools, the
sub-agent and the question to a person are real.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.demo.workflow import Task, Work
from chatsnapshot.errors import MissingExtra

__all__ = ["CUSTOMER", "LETTER", "NAME", "Shop", "tasks"]

NAME = "broken lamp"
CUSTOMER = "Odile Brandt"
LETTER = (
    "Hello! My harbour lamp (order WW-1042) came today with a crack right through its glass. "
    "It is a present for Sunday. What can we do?"
)
ORDER = {"order": "WW-1042", "item": "Harbour lamp, brass", "price": "48.00 EUR", "box": "small"}
POLICY = "Broken on the way, told within 30 days: a new part at once, and up to 15.00 EUR for the trouble."
MANAGER = "Yes to both. And put a box of wicks in: Odile has been with us since our first winter."


class Shop:
    """The world outside the ledger: every lasting thing that a task does is one line in a book."""

    def __init__(self, book: Path) -> None:
        self.book = book

    def write(self, line: str) -> None:
        """Do something that cannot be undone."""
        with self.book.open("a", encoding="utf-8") as book:
            book.write(line + "\n")


def tasks(shop: Shop) -> list[Task]:
    """The five tasks of the case; each does one lasting thing in the shop."""

    async def intake(work: Work) -> Any:
        shop.write("intake: case opened")
        return {"order": "WW-1042", "damage": "cracked glass", "needed_by": "Sunday"}

    async def triage(work: Work) -> Any:
        advice = await _triage(work)
        shop.write("triage: order checked")
        return advice

    async def decide(work: Work) -> Any:
        decision = await _decide(work)
        shop.write("decide: manager asked")
        return decision

    async def make_good(work: Work) -> Any:
        await _service(work, "payments", "refund", {"order": "WW-1042", "amount": "12.00 EUR"})
        await _service(work, "courier", "book", {"parcel": "lamp glass, box of wicks", "day": "Saturday"})
        shop.write("make_good: 12.00 EUR paid, courier booked")
        return {"refund": "12.00 EUR", "courier": "Saturday"}

    async def reply(work: Work) -> Any:
        letter = await _reply(work)
        await work.ledger.arecord(
            "ui.output_displayed", {"element": "letter", "user": CUSTOMER, "value": letter}
        )
        shop.write("reply: letter sent")
        return letter

    return [
        Task("intake", intake),
        Task("triage", triage, ("intake",)),
        Task("decide", decide, ("triage",)),
        Task("make_good", make_good, ("decide",)),
        Task("reply", reply, ("make_good",)),
    ]


# --- services and agents ----------------------------------------------------------------------------------


async def _service(work: Work, service: str, operation: str, request: dict[str, Any]) -> None:
    call_id, began = f"{service}-{work.workflow_id}", time.perf_counter_ns()
    facts = {"call_id": call_id, "service": service, "operation": operation}
    call = await work.ledger.arecord("integration.call", {**facts, "request": request})
    took = time.perf_counter_ns() - began
    await work.ledger.arecord(
        "integration.response", {**facts, "status": 200, "duration_ns": took}, causation_id=call
    )


def _agent(work: Work, name: str, prompt: str, *turns: Any, **options: Any) -> Any:
    """An agent with a scripted model whose every turn is recorded, caused by the task it works for."""
    try:
        from ag2 import Agent
        from ag2.testing import TestConfig
    except ImportError:
        raise MissingExtra("the demonstration", "ag2") from None
    recorder = AG2Recorder(
        work.ledger, correlation_id=f"{work.workflow_id}/{work.started.payload['task_id']}"
    )
    model = TestConfig(*turns, model="scripted", raise_tool_errors=False)
    return Agent(name, prompt, config=model, middleware=[recorder.middleware], **options)


def _call(tool: str, **arguments: Any) -> Any:
    from ag2.events import ToolCallEvent

    return ToolCallEvent(tool, arguments=json.dumps(arguments))


async def _triage(work: Work) -> str:
    archivist = _agent(
        work,
        "archivist",
        "You know where every order of the last forty years is.",
        _call("look_up_order", order="WW-1042"),
        _call("look_up_order", order="WW-1042"),
        "Harbour lamp, brass, 48.00 EUR. It went out in the small box, which has broken two glasses before.",
        tools=[_archive(work)],
    )
    desk = _agent(
        work,
        "desk",
        "You put things right at Wick & Wane, makers of lamps.",
        _call("task_archivist", objective="What was order WW-1042, and how was it packed?"),
        _call("check_policy", damage="cracked glass", days=0),
        "Our box broke it. I would send a new glass by Saturday and 12.00 EUR; the manager must agree.",
        tools=[archivist.as_tool(description="Ask the archive."), _check_policy],
    )
    return await _said(desk, f"{CUSTOMER} writes: {LETTER}")


def _archive(work: Work) -> Callable[[str], Any]:
    attempts = 0

    async def look_up_order(order: str) -> str:
        """Find an order in the archive."""
        nonlocal attempts
        attempts += 1
        facts = {"call_id": f"archive-{attempts}", "service": "archive", "operation": f"GET /orders/{order}"}
        call = await work.ledger.arecord("integration.call", facts)
        status = 504 if attempts == 1 else 200
        await work.ledger.arecord("integration.response", {**facts, "status": status}, causation_id=call)
        if status != 200:
            raise TimeoutError("the archive did not answer")
        return json.dumps(ORDER)

    return look_up_order


def _check_policy(damage: str, days: int) -> str:
    """Look up what the house rules say about a damage that many days after delivery."""
    return POLICY


_check_policy.__name__ = "check_policy"


async def _decide(work: Work) -> str:
    question = "Odile Brandt, WW-1042: may we send a new glass by Saturday and pay 12.00 EUR?"
    desk = _agent(
        work,
        "desk",
        "You put things right at Wick & Wane, makers of lamps.",
        _call("ask_manager", question=question),
        "Agreed: new glass on Saturday, 12.00 EUR back, and a box of wicks from the house.",
        tools=[_ask_manager()],
        hitl_hook=_manager,
    )
    return await _said(desk, f"Get a decision on this: {work.outputs['triage']}")


def _ask_manager() -> Callable[..., Any]:
    from ag2 import Context

    async def ask_manager(question: str, context: Context) -> str:
        """Put a question to the manager."""
        return await context.input(question)

    ask_manager.__annotations__ = {"question": str, "context": Context, "return": str}
    return ask_manager


async def _manager(event: Any) -> str:
    return MANAGER


async def _reply(work: Work) -> str:
    scribe = _agent(
        work,
        "scribe",
        "You write short, warm letters.",
        "Dear Odile, a new glass is on its way and arrives on Saturday, in time for the present; 12.00 EUR go back to "
        "you for the trouble. The wicks are on the house. Yours, Wick & Wane",
    )
    return await _said(scribe, f"Write to {CUSTOMER}: {work.outputs['decide']}")


async def _said(agent: Any, request: str) -> str:
    return str((await agent.ask(request)).body)
