"""What the tests of LlamaIndex ask: agents and workflows that wait for people, an index, and what was recorded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

import chatsnapshot
from chatsnapshot.adapters.llama_index import LlamaIndexRecorder
from chatsnapshot.testing.runtimes.llama_index import scripted


class Session(ChatMemoryBuffer):  # type: ignore[misc]
    """A memory with the id of a conversation, as ``Memory`` is, without its database."""

    session_id: str = "session-7"


def session() -> Session:
    """Such a memory."""
    return Session.from_defaults(token_limit=1_000)


class Thought(Event):  # type: ignore[misc]
    text: str


class Thinking(Workflow):  # type: ignore[misc]
    """Thinks with a model, asks a person, and says what it was told."""

    @step  # type: ignore[untyped-decorator]
    async def think(self, ev: StartEvent) -> Thought:
        asked = [ChatMessage(role="user", content=f"think of {ev.topic}")]
        return Thought(text=str((await scripted([["a thought"]]).achat(asked)).message.content))

    @step  # type: ignore[untyped-decorator]
    async def ask(self, ev: Thought) -> InputRequiredEvent:
        return InputRequiredEvent(prefix=f"Is {ev.text} right?")

    @step  # type: ignore[untyped-decorator]
    def say(self, ev: HumanResponseEvent) -> StopEvent:
        if ev.response == "fail":
            raise ValueError("no such city")
        return StopEvent(result=f"it is {ev.response}")


class Waiting(Workflow):  # type: ignore[misc]
    """Waits for a person inside of its one step."""

    @step  # type: ignore[untyped-decorator]
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        question = InputRequiredEvent(prefix="Who?", user="odile")
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=question)
        return StopEvent(result=answer.response)


class Part(Event):  # type: ignore[misc]
    number: int


class Done(Event):  # type: ignore[misc]
    number: int


class Sharing(Workflow):  # type: ignore[misc]
    """Sends two parts to steps at the same time, and collects them."""

    @step  # type: ignore[untyped-decorator]
    async def share(self, ctx: Context, ev: StartEvent) -> Part | None:
        for number in (1, 2):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=2)  # type: ignore[untyped-decorator]
    async def work(self, ev: Part) -> Done:
        return Done(number=ev.number)

    @step  # type: ignore[untyped-decorator]
    async def collect(self, ctx: Context, ev: Done) -> StopEvent | None:
        parts = ctx.collect_events(ev, [Done, Done])
        return None if parts is None else StopEvent(result=sum(one.number for one in parts))


class Sleeping(Workflow):  # type: ignore[misc]
    """Works for long."""

    @step  # type: ignore[untyped-decorator]
    async def sleep(self, ctx: Context, ev: StartEvent) -> StopEvent:
        ctx.write_event_to_stream(Thought(text="going to sleep"))
        await asyncio.sleep(60)
        return StopEvent(result="slept")


async def answering(handler: Any, answer: str = "yes") -> Any:
    """What a workflow comes to whose question is answered as soon as it waits."""
    async for event in handler.stream_events(expose_internal=True):
        if type(event).__name__ == "WorkflowIdleEvent":
            handler.ctx.send_event(HumanResponseEvent(response=answer))
    return await handler


def index() -> VectorStoreIndex:
    """Two documents."""
    documents = [Document(text="Paris is old"), Document(text="Rome is older")]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=4))


def model() -> MockLLM:
    """LlamaIndex's own mock, which says "text"."""
    return MockLLM(max_tokens=2)


@contextlib.contextmanager
def recorded(**options: Any) -> Iterator[tuple[Any, LlamaIndexRecorder]]:
    """A ledger that everything is recorded into, and the recorder: nothing may go wrong with it."""
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with LlamaIndexRecorder(ledger, **options) as recorder:
            yield ledger, recorder
        assert recorder.flush(10)
        assert (recorder.safe.failures, recorder.safe.runs_open) == (0, 0)


def kinds(ledger: Any) -> list[str]:
    """The event types, without their domain."""
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, event_type: str) -> list[Any]:
    """The entries of one type."""
    return list(ledger.read(event_type=event_type))


def said(ledger: Any) -> list[tuple[str, str]]:
    """Who said what."""
    return [
        (entry.payload["role"], entry.payload["parts"][0].get("content"))
        for entry in of(ledger, "execution.message")
    ]
