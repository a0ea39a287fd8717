"""LlamaIndex for the contract of adapters: agents, a handoff and a tool that waits, with LlamaIndex's own mock model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from chatsnapshot.adapters.llama_index import LlamaIndexRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["LlamaIndexBench", "agent", "call", "scripted"]

_SUM = "What is 2+3 and 4+5?"


class LlamaIndexBench(AdapterBench):
    """``FunctionAgent``, ``AgentWorkflow``, and a context that is stored while a tool waits for a person."""

    runtime = "llama_index"
    package = "llama-index-core"
    title = "LlamaIndex"
    usage = (5, 2)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plays = 0

    def recorder(self, ledger: Any) -> LlamaIndexRecorder:
        """A recorder of everything that LlamaIndex runs."""
        return LlamaIndexRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        story: Callable[[str], Any] = _STORIES.get(scenario, _asked)
        with self._watched(self.attached(recorder)):
            return Outcome.of(lambda: asyncio.run(story(scenario)))

    @contextlib.contextmanager
    def _watched(self, recorders: list[Any]) -> Iterator[None]:
        """Attached, and quiet: workflows log what they raise. Plays at once share both, one dispatcher a process."""
        with self._lock:
            self._plays += 1
            if self._plays == 1:
                logging.getLogger("workflows").setLevel(logging.CRITICAL + 1)
                for one in recorders:
                    one.attach()
        try:
            yield
        finally:
            with self._lock:
                self._plays -= 1
                if self._plays == 0:
                    logging.getLogger("workflows").setLevel(logging.NOTSET)
                    for one in recorders:
                        one.detach()


async def _asked(scenario: str) -> Any:
    answer = await _alpha(scenario, streaming=False).run(_SUM if scenario == "parallel_tools" else "Hello")
    return str(answer)


async def _streamed(scenario: str) -> Any:
    handler = _alpha("parallel_tools").run(_SUM)
    pieces = [event.delta async for event in handler.stream_events() if type(event).__name__ == "AgentStream"]
    return ["".join(pieces), str(await handler)]


async def _handed_over(scenario: str) -> Any:
    llama = importlib.import_module("llama_index.core.agent.workflow")
    to_beta = call("handoff", {"to_agent": "beta", "reason": "it knows"}, "call_1")
    alpha = agent("alpha", [[to_beta]], can_handoff_to=["beta"])
    beta = agent("beta", [["beta here"]])
    return str(await llama.AgentWorkflow(agents=[alpha, beta], root_agent="alpha").run("Hello"))


async def _interrupted(scenario: str) -> Any:
    """A tool waits for a person; its context is stored as JSON, and another agent goes on with that."""
    workflow = importlib.import_module("llama_index.core.workflow")
    memories: Any = importlib.import_module("llama_index.core.memory")
    memory = memories.ChatMemoryBuffer.from_defaults()
    handler = agent("alpha", [[call("book", {}, "call_1")]], tools=[_booking()]).run("Hello", memory=memory)
    async for event in handler.stream_events(expose_internal=True):
        if type(event).__name__ == "WorkflowIdleEvent":
            break
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a memory is no JSON: the program keeps it
        stored = json.dumps(handler.ctx.to_dict())
    await handler.cancel_run()
    again = agent("alpha", [["approved"]], tools=[_booking()])
    handler = again.run(ctx=workflow.Context.from_dict(again, json.loads(stored)))
    await handler.ctx.store.set("memory", memory)
    handler.ctx.send_event(workflow.HumanResponseEvent(response="yes"))
    answer = await handler
    return [*(str(one.tool_output.content) for one in answer.tool_calls), str(answer)]


def _booking() -> Callable[..., Any]:
    workflow = importlib.import_module("llama_index.core.workflow")

    async def book(ctx: Any) -> str:
        """Book a table, when a person agrees."""
        question = workflow.InputRequiredEvent(prefix="May I?")
        answer = await ctx.wait_for_event(workflow.HumanResponseEvent, waiter_event=question)
        return f"booked: {answer.response}"

    book.__annotations__["ctx"] = workflow.Context
    return book


_STORIES: dict[str, Callable[[str], Any]] = {
    "streaming": _streamed,
    "handoff": _handed_over,
    "interruption": _interrupted,
}


def _alpha(scenario: str, **options: Any) -> Any:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        in_tool()
        return a + b

    def fail() -> int:
        """Fail."""
        raise ValueError("no such city")

    async def ask_child(question: str) -> str:
        """Ask beta."""
        return str(await agent("beta", [["child says hi"]]).run(question))

    answers: dict[str, list[Any]] = {
        "plain": [["Hi there"]],
        "parallel_tools": [
            [call("add", {"a": 2, "b": 3}, "call_1"), call("add", {"a": 4, "b": 5}, "call_2")],
            ["5 and 9"],
        ],
        "sub_agent": [[call("ask_child", {"question": "hi?"}, "call_1")], ["done"]],
        "tool_error": [[call("fail", {}, "call_1")], ["sorry"]],
        "model_error": [RuntimeError("model is down")],
    }
    return agent("alpha", answers[scenario], tools=[add, fail, ask_child], **options)


def agent(name: str, answers: list[Any], **options: Any) -> Any:
    """A ``FunctionAgent`` whose model gives these answers in turn."""
    llama = importlib.import_module("llama_index.core.agent.workflow")
    return llama.FunctionAgent(name=name, description=f"It is {name}.", llm=scripted(answers), **options)


def call(name: str, arguments: dict[str, Any], call_id: str) -> Any:
    """What a model says to call a tool."""
    types = importlib.import_module("llama_index.core.base.llms.types")
    return types.ToolCallBlock(tool_call_id=call_id, tool_name=name, tool_kwargs=arguments)


def scripted(answers: list[Any]) -> Any:
    """A model that gives these answers in turn: lists of texts and calls, or an exception to raise."""
    types = importlib.import_module("llama_index.core.base.llms.types")
    left = list(answers)

    def answer(messages: Any, **options: Any) -> Any:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        blocks = [types.TextBlock(text=one) if isinstance(one, str) else one for one in given]
        return types.ChatMessage(role="assistant", blocks=blocks)

    return _model_class()(response_generator=answer, is_chat_model=True)


@functools.lru_cache(maxsize=1)
def _model_class() -> Any:
    """LlamaIndex's mock, which tells no tokens, with tokens."""
    mock: Any = importlib.import_module("llama_index.core.llms.mock")
    callbacks: Any = importlib.import_module("llama_index.core.llms.callbacks")
    usage = {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}

    class ScriptedLLM(mock.MockFunctionCallingLLM):  # type: ignore[misc]
        @callbacks.llm_chat_callback()  # type: ignore[untyped-decorator]
        def chat(self, messages: Any, **options: Any) -> Any:
            return mock.ChatResponse(message=self.response_generator(messages, **options), raw=usage)

        @callbacks.llm_chat_callback()  # type: ignore[untyped-decorator]
        async def achat(self, messages: Any, **options: Any) -> Any:
            return self.chat(messages, **options)

        @callbacks.llm_chat_callback()  # type: ignore[untyped-decorator]
        async def astream_chat(self, messages: Any, **options: Any) -> Any:
            async def pieces() -> Any:
                message = self.response_generator(messages, **options)
                yield mock.ChatResponse(message=message, delta=message.content or "", raw=usage)

            return pieces()

    return ScriptedLLM
