"""The callback handler: hands LangChain's and LangGraph's callbacks on, and lets no mistake of ours out."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.langgraph import calls, chains
from chatsnapshot.adapters.langgraph.place import Facts, Inside
from chatsnapshot.adapters.langgraph.watch import Watch
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.requiring import need

__all__ = ["VERSIONS", "handler_class", "has_langgraph"]

VERSIONS = "langgraph>=1.2"


def has_langgraph() -> bool:
    """Whether LangGraph itself is installed, and not only packages of its name space."""
    try:
        return importlib.util.find_spec("langgraph.pregel") is not None
    except ModuleNotFoundError:
        return False


def _base() -> Any:
    """What a handler derives from: LangGraph's, which also hears of interrupts, else LangChain's."""
    if not has_langgraph():
        core = need(
            "langchain_core.callbacks",
            "BaseCallbackHandler",
            extra="langgraph",
            versions="langchain-core>=1.0",
            what="LangChain",
        )
        return core.BaseCallbackHandler
    module = need(
        "langgraph.callbacks", "GraphCallbackHandler", extra="langgraph", versions=VERSIONS, what="LangGraph"
    )
    return module.GraphCallbackHandler


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        watch: Watch = self.watch
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            watch.recorder.note(error)

    return guarded


def _named(serialized: Any, kwargs: Mapping[str, Any], default: str) -> str:
    """The name of a model, tool or retriever."""
    given = serialized if isinstance(serialized, Mapping) else {}
    path = given.get("id")
    last = path[-1] if isinstance(path, (list, tuple)) and path else None
    return str(kwargs.get("name") or given.get("name") or last or default)


@functools.cache
def handler_class() -> Any:
    """The class of handlers, made at first use. Raises ``MissingExtra`` or ``LedgerError`` where nothing fits."""

    class RecordingHandler(_base()):  # type: ignore[misc]
        """Records what it is called with; called inline, so that the order is that of the run."""

        run_inline = True
        raise_error = False

        def __init__(self, watch: Watch) -> None:
            super().__init__()
            self.watch = watch

        @_harmless
        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            chains.chain_start(self.watch, Facts(**kwargs), inputs)

        @_harmless
        def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
            chains.chain_end(self.watch, run_id, outputs)

        @_harmless
        def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            chains.chain_error(self.watch, run_id, error)

        @_harmless
        def on_chat_model_start(
            self, serialized: Any, messages: Sequence[Sequence[Any]], **kwargs: Any
        ) -> None:
            flat = [one for batch in messages for one in batch]
            calls.model_start(self.watch, Facts(**kwargs), _named(serialized, kwargs, "model"), flat)

        @_harmless
        def on_llm_start(self, serialized: Any, prompts: Sequence[str], **kwargs: Any) -> None:
            calls.model_start(self.watch, Facts(**kwargs), _named(serialized, kwargs, "model"), list(prompts))

        @_harmless
        def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
            calls.model_end(self.watch, run_id, response)

        @_harmless
        def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            calls.model_error(self.watch, run_id, error)

        @_harmless
        def on_tool_start(
            self,
            serialized: Any,
            input_str: str,
            *,
            inputs: Any = None,
            tool_call_id: str | None = None,
            **kwargs: Any,
        ) -> None:
            arguments = input_str if inputs is None else inputs
            calls.tool_start(
                self.watch, Facts(**kwargs), _named(serialized, kwargs, "tool"), arguments, tool_call_id
            )

        @_harmless
        def on_tool_end(self, output: Any, *, run_id: Any, **kwargs: Any) -> None:
            calls.tool_end(self.watch, run_id, output)

        @_harmless
        def on_tool_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            calls.tool_error(self.watch, run_id, error)

        @_harmless
        def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
            calls.retriever_start(self.watch, Facts(**kwargs), _named(serialized, kwargs, "retriever"), query)

        @_harmless
        def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **kwargs: Any) -> None:
            calls.retriever_end(self.watch, run_id, documents)

        @_harmless
        def on_retriever_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            calls.retriever_end(self.watch, run_id, (), error)

        @_harmless
        def on_custom_event(self, name: str, data: Any, *, run_id: Any, **kwargs: Any) -> None:
            place = self.watch.find(run_id)
            if place is not None:
                with Inside(place) as run:
                    self.watch.recorder.record(run.state(name, value=plain(data)))

        @_harmless
        def on_interrupt(self, event: Any) -> None:
            chains.interrupted(self.watch, event)

    return RecordingHandler
