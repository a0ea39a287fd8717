"""People's answers: every one is recorded, also an empty one and ``exit``; a password never in clear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import autogen
import pytest
from autogen import ConversableAgent
from autogen.io import IOStream
from classic_chats import agent, one, said, types

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

ANSWERS = ["blue", "", "exit"]
ASYNC_ASKS = pytest.mark.skipif(
    autogen.__version__.startswith("0.10."), reason="AG2 0.10 never awaits the answer of an async stream"
)


def chat() -> tuple[ConversableAgent, ConversableAgent]:
    return agent("painter", "what colour?", "anything else?", "more?"), agent(
        "user", human_input_mode="ALWAYS"
    )


def by_run(recorder: AG2Recorder) -> None:
    painter, user = chat()
    answers = iter(ANSWERS)
    for event in recorder.watch(user.run(painter, message="paint")).events:
        if event.type == "input_request":
            event.content.respond(next(answers))


def by_run_iter(recorder: AG2Recorder) -> None:
    painter, user = chat()
    answers = iter(ANSWERS)
    for event in recorder.watch(user.run_iter(painter, message="paint")):
        if event.type == "input_request":
            event.content.respond(next(answers))


def by_a_run(recorder: AG2Recorder) -> None:
    async def main() -> None:
        painter, user = chat()
        answers = iter(ANSWERS)
        response = await recorder.watch(user.a_run(painter, message="paint"))
        async for event in response.events:
            if event.type == "input_request":
                await event.content.respond(next(answers))

    asyncio.run(main())


def by_a_run_iter(recorder: AG2Recorder) -> None:
    async def main() -> None:
        painter, user = chat()
        answers = iter(ANSWERS)
        async for event in recorder.watch(user.a_run_iter(painter, message="paint")):
            if event.type == "input_request":
                event.content.respond(next(answers))

    asyncio.run(main())


class Console:
    """A stream whose person answers from a list."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = iter(answers)
        self.sent: list[Any] = []
        self.printed: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message.type)

    def print(self, *objects: Any, **options: Any) -> None:
        self.printed.append(objects)

    def input(self, prompt: str = "", *, password: bool = False) -> str:
        return next(self.answers)


class AsyncConsole(Console):
    async def input(self, prompt: str = "", *, password: bool = False) -> str:  # type: ignore[override]
        await asyncio.sleep(0)
        return next(self.answers)


def by_tee(recorder: AG2Recorder) -> None:
    painter, user = chat()
    with IOStream.set_default(Console(ANSWERS)), recorder.tee() as block:
        block.returned(user.initiate_chat(painter, message="paint"))


@pytest.mark.parametrize("console", [Console, pytest.param(AsyncConsole, marks=ASYNC_ASKS)])
def test_an_async_chat_in_a_tee_asks_through_either_kind_of_stream(
    ledger: Ledger, recorder: AG2Recorder, console: type[Console]
) -> None:
    async def main() -> None:
        painter, user = chat()
        with IOStream.set_default(console(ANSWERS)), recorder.tee() as block:
            block.returned(await user.a_initiate_chat(painter, message="paint"))

    asyncio.run(main())
    check(ledger)


@pytest.mark.parametrize(
    "way", [by_run, by_run_iter, pytest.param(by_a_run, marks=ASYNC_ASKS), by_a_run_iter, by_tee]
)
def test_every_answer_is_recorded_with_its_question(
    ledger: Ledger, recorder: AG2Recorder, way: Callable[[AG2Recorder], None]
) -> None:
    way(recorder)
    check(ledger)
    assert recorder.safe.failures == 0


def check(ledger: Ledger) -> None:
    questions = list(ledger.read(event_type="execution.human_input_requested"))
    answers = list(ledger.read(event_type="execution.human_input_received"))
    assert [entry.payload["answer"] for entry in answers] == ANSWERS
    assert [entry.payload["answers"] for entry in answers] == [entry.event_id for entry in questions]
    assert [entry.causation_id for entry in answers] == [entry.event_id for entry in questions]
    assert all("painter" in entry.payload["question"] for entry in questions)
    assert ("user", "blue") in said(ledger)
    assert types(ledger)[-1] == "run_completed"


def test_a_password_is_never_recorded(ledger: Ledger, recorder: AG2Recorder) -> None:
    secret = "correct horse battery staple"
    got: list[str] = []

    def ask() -> str:
        got.append(IOStream.get_default().input("Password: ", password=True))
        return "thanks"

    user = agent("user", max_consecutive_auto_reply=1)
    for event in recorder.watch(user.run(agent("vault", ask), message="open", max_turns=1)).events:
        if event.type == "input_request":
            event.content.respond(secret)
    assert got == [secret]
    assert one(ledger, "execution.human_input_requested").payload["secret"] is True
    assert one(ledger, "execution.human_input_received").payload["secret"] is True
    assert secret not in "".join(str(entry.payload) for entry in ledger.read())


def test_a_question_inside_a_tool_is_caused_by_its_call(ledger: Ledger, recorder: AG2Recorder) -> None:
    from classic_chats import calls, causes, pair

    def ask(x: int) -> str:
        return str(IOStream.get_default().input("sure? "))

    assistant, user = pair(calls(("ask", {"x": 1})), "TERMINATE", tools=[ask])
    for event in recorder.watch(user.run(assistant, message="go")).events:
        if event.type == "input_request":
            event.content.respond("yes")
    assert ("human_input_requested", "tool_call call-1") in causes(ledger)
    assert ("human_input_received", "human_input_requested") in causes(ledger)
    assert one(ledger, "execution.tool_result").payload["result"] == "yes"
