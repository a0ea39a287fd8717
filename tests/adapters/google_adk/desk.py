"""One step of a booking desk in a process of its own: ``desk.py LEDGER ask|approve|go-on|die``.

The tool must be approved; with ``die`` the process kills itself while the tool runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import chatsnapshot
from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService, GoogleADKRecorder
from chatsnapshot.testing.runtimes.google_adk import answered, call, scripted, user

STEPS = sys.argv[2:]


def book(city: str) -> dict[str, str]:
    """Book a night."""
    if "die" in STEPS:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"booked": city}


async def main() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App, ResumabilityConfig
    from google.adk.runners import Runner
    from google.adk.tools import FunctionTool

    with chatsnapshot.open(sys.argv[1]) as ledger:
        answers = (
            ["booked"]
            if STEPS[0] in ("approve", "go-on")
            else [[call("book", "call_1", city="Bruges")], "booked"]
        )
        tool = book if "free" in STEPS else FunctionTool(book, require_confirmation=True)
        app = App(
            name="desk",
            root_agent=LlmAgent(name="alpha", model=scripted(*answers), tools=[tool]),
            plugins=[GoogleADKRecorder(ledger).plugin],
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        sessions = ChatSnapshotSessionService(ledger)
        runner = Runner(app=app, session_service=sessions, auto_create_session=True)
        options: dict[str, Any] = {"user_id": "ann", "session_id": "case-7"}
        if STEPS[0] != "ask":
            session = await sessions.get_session(app_name="desk", **options)
            calls = [one for event in session.events for one in event.get_function_calls()]
            if STEPS[0] == "go-on":
                options["invocation_id"] = session.events[-1].invocation_id
            else:
                options["new_message"] = answered(calls[-1])
        else:
            options["new_message"] = user("Book it")
        async for event in runner.run_async(**options):
            for part in (event.content.parts or ()) if event.content else ():
                print(
                    part.text
                    or (part.function_call and part.function_call.name)
                    or part.function_response.response
                )


asyncio.run(main())
