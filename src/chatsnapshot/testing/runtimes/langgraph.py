"""LangGraph in the stories of the contract, with a scripted chat model of LangChain."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from chatsnapshot.adapters.langgraph import LangGraphRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["LangGraphBench", "agent", "calling", "scripted"]

_USAGE = (11, 7)


class LangGraphBench(AdapterBench):
    """Graphs of LangGraph, called with the handlers of ``LangGraphRecorder`` among the callbacks."""

    runtime = "langgraph"
    package = "langgraph"
    title = "LangGraph"
    usage = _USAGE

    def recorder(self, ledger: Any) -> LangGraphRecorder:
        """A ``LangGraphRecorder``."""
        return LangGraphRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        story = _Story(self.attached(recorder))
        return Outcome.of(getattr(story, scenario))


class _Story:
    def __init__(self, recorders: list[Any]) -> None:
        self.recorders = recorders

    def config(self, thread_id: str | None = None) -> Any:
        config: dict[str, Any] = {"callbacks": [one.handler for one in self.recorders]}
        return {**config, "configurable": {"thread_id": thread_id}} if thread_id else config

    def ask(self, graph: Any, asked: str) -> str:
        state = graph.invoke({"messages": [("user", asked)]}, self.config())
        return str(state["messages"][-1].content)

    def plain(self) -> str:
        return self.ask(agent("alpha", scripted("Hi there")), "Hello")

    def parallel_tools(self) -> str:
        return self.ask(agent("alpha", scripted(_both(), "5 and 9"), [add]), "What is 2+3 and 4+5?")

    def streaming(self) -> list[str]:
        """The tokens of the model, as they come."""
        graph = agent("alpha", scripted(_both(), "5 and 9"), [add])
        stream = graph.stream(
            {"messages": [("user", "What is 2+3 and 4+5?")]}, self.config(), stream_mode="messages"
        )
        said = [message.content for message, _ in stream if message.content]
        return [*said, "".join(said)]

    def sub_agent(self) -> str:
        beta = agent("beta", scripted("child says hi"))

        def ask_child(question: str) -> str:
            """Ask beta."""
            return str(beta.invoke({"messages": [("user", question)]})["messages"][-1].content)

        asking = calling("ask_child", question="Who is there?")
        return self.ask(agent("alpha", scripted([asking], "done"), [ask_child]), "Go")

    def handoff(self) -> str:
        graph: Any = importlib.import_module("langgraph.graph")
        types: Any = importlib.import_module("langgraph.types")
        first, second = scripted("over to beta"), scripted("beta here")

        def alpha(state: Any) -> Any:
            return types.Command(goto="beta", update={"messages": [first.invoke(state["messages"])]})

        def beta(state: Any) -> Any:
            return {"messages": [second.invoke(state["messages"])]}

        builder = graph.StateGraph(graph.MessagesState)
        builder.add_node("alpha", alpha, destinations=("beta",))
        builder.add_node("beta", beta)
        builder.add_edge(graph.START, "alpha")
        return self.ask(builder.compile(name="team"), "Go")

    def interruption(self) -> str:
        """A tool interrupts the graph; the caller resumes the thread with the answer."""
        memory: Any = importlib.import_module("langgraph.checkpoint.memory")
        types: Any = importlib.import_module("langgraph.types")

        def ask_person(question: str) -> str:
            """Ask a person."""
            return str(types.interrupt({"question": question}))

        asking = calling("ask_person", question="May I?")
        graph = agent("alpha", scripted([asking], "approved"), [ask_person], memory.InMemorySaver())
        config = self.config("thread-1")
        paused = graph.invoke({"messages": [("user", "Do it")]}, config)
        if "__interrupt__" not in paused:
            return "nobody was asked"
        return str(graph.invoke(types.Command(resume="yes"), config)["messages"][-1].content)

    def tool_error(self) -> str:
        return self.ask(agent("alpha", scripted([calling("fail")], "sorry"), [fail]), "Go")

    def model_error(self) -> str:
        return self.ask(agent("alpha", scripted(RuntimeError("model is down"))), "Go")


def agent(name: str, model: Any, tools: Any = (), checkpointer: Any = None, **options: Any) -> Any:
    """A graph that asks a model and calls the tools that it wants, until it wants none."""
    graph: Any = importlib.import_module("langgraph.graph")
    prebuilt: Any = importlib.import_module("langgraph.prebuilt")

    def ask(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def aask(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    runnables: Any = importlib.import_module("langchain_core.runnables")
    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("model", runnables.RunnableLambda(ask, aask))
    builder.add_edge(graph.START, "model")
    if tools:
        builder.add_node("tools", prebuilt.ToolNode(list(tools)))
        builder.add_conditional_edges("model", prebuilt.tools_condition)
        builder.add_edge("tools", "model")
    return builder.compile(checkpointer=checkpointer, name=name, **options)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    in_tool()
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


def calling(tool: str, call_id: str | None = None, /, **arguments: Any) -> dict[str, Any]:
    """A tool call of the model."""
    return {"name": tool, "args": arguments, "id": call_id or f"call_{tool}", "type": "tool_call"}


def _both() -> list[dict[str, Any]]:
    return [calling("add", "call_1", a=2, b=3), calling("add", "call_2", a=4, b=5)]


def scripted(*turns: Any) -> Any:
    """A chat model that gives these answers, one after the other: texts, lists of tool calls, or errors to raise."""
    return _model_class()(turns=list(turns))


@cache
def _model_class() -> Any:
    models: Any = importlib.import_module("langchain_core.language_models")
    messages: Any = importlib.import_module("langchain_core.messages")
    outputs: Any = importlib.import_module("langchain_core.outputs")
    usage = {
        "input_tokens": _USAGE[0],
        "output_tokens": _USAGE[1],
        "total_tokens": sum(_USAGE),
    }

    class ScriptedModel(models.BaseChatModel):  # type: ignore[misc]
        """Gives what it is told to."""

        turns: list[Any]

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _next(self) -> dict[str, Any]:
            turn = self.turns.pop(0)
            if isinstance(turn, BaseException):
                raise turn
            calls = turn if isinstance(turn, list) else []
            return {"content": "" if calls else turn, "tool_calls": calls}

        def _generate(self, messages_: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            message = messages.AIMessage(**self._next(), usage_metadata=usage)
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

        def _stream(
            self, messages_: Any, stop: Any = None, run_manager: Any = None, **options: Any
        ) -> Iterator[Any]:
            told = self._next()
            words = told["content"].split(" ")
            for place, word in enumerate(words):
                last = place == len(words) - 1
                made = messages.AIMessageChunk(
                    content=word if last else f"{word} ",
                    usage_metadata=usage if last else None,
                    tool_calls=told["tool_calls"] if last else [],
                    chunk_position="last" if last else None,
                )
                chunk = outputs.ChatGenerationChunk(message=made)
                if run_manager is not None:
                    run_manager.on_llm_new_token(made.content, chunk=chunk)
                yield chunk

    return ScriptedModel
