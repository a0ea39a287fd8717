"""What each span of LlamaIndex is to us, from its beginning to its end."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.llama_index import calls, engines
from chatsnapshot.adapters.llama_index.flows import Flow
from chatsnapshot.adapters.llama_index.readers import Readers
from chatsnapshot.adapters.llama_index.snapshots import Snapshots
from chatsnapshot.adapters.llama_index.telling import is_a
from chatsnapshot.adapters.llama_index.watched import SILENT, Place

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["Watch"]

_PAST_MAX = 1_000
_ID_CHARS = 37
"""The random end of a span's id, with the dash before it."""
_MODELS = frozenset(
    prefix + name for name in ("chat", "complete", "stream_chat", "stream_complete") for prefix in ("", "a")
)
_ASKED = frozenset({"query", "aquery", "chat", "achat", "stream_chat", "astream_chat"})
_SEARCHED = frozenset({"retrieve", "aretrieve"})
_CALLED = frozenset({"call", "acall"})
_CALLS_TOOLS = frozenset({"predict_and_call", "apredict_and_call"})


class Watch:
    """The spans that are open, and the runs, steps and calls that they are to us."""

    def __init__(self, recorder: LlamaIndexRecorder) -> None:
        self.recorder = recorder
        self.snapshots = Snapshots(recorder)
        self._readers = Readers(self._dropped)
        self._places: dict[str, Place] = {}
        self._past: OrderedDict[str, Place] = OrderedDict()
        """Spans in steps and tools that are over: what their code sent or wrote may come after that."""
        self._streams: dict[str, Place] = {}
        """Calls of models whose answers are still being read."""
        self._flows: dict[str, Flow] = {}
        """Runs of workflows by LlamaIndex's id of the run."""

    # --- spans --------------------------------------------------------------------------------------------

    def enter(self, id_: str, bound: Any, instance: Any, parent_id: str | None) -> None:
        """A span begins."""
        above = self._places.get(parent_id or "")
        place = SILENT if above is SILENT else self._place(id_, bound, instance, above)
        if place is None:
            return  # nothing that we tell of, in nothing that we tell of
        self._places[id_] = place
        if place is not SILENT:
            place.watched.spans.add(id_)

    def _place(self, id_: str, bound: Any, instance: Any, above: Place | None) -> Place | None:
        method = id_[:-_ID_CHARS].rpartition(".")[2]
        if method == "run" and "init_state" in bound.arguments and is_a(instance, "Workflow"):
            return self._flow(id_, bound, instance, above)
        if instance is None:
            if above is None or above.kind != "flow":
                return above
            return flow_of(above).step(id_, method, bound, above)
        if method in _MODELS and is_a(instance, "BaseLLM"):
            read = self._readers.here()
            for outer in (above, read):
                if outer is not None and outer.kind == "model":
                    return outer
            return calls.model(self.recorder, id_, bound, instance, above or read)
        if method in _CALLS_TOOLS and (above is None or above.kind == "tool") and is_a(instance, "BaseLLM"):
            return engines.engine(self.recorder, id_, method, bound, instance, above)
        if method in _SEARCHED and is_a(instance, "BaseRetriever"):
            inner = above is not None and above.kind == "search"
            return above if inner else calls.search(self.recorder, id_, bound, instance, above)
        if method in _ASKED and is_a(instance, "BaseQueryEngine", "BaseChatEngine"):
            inner = above is not None and above.kind == "engine" and above.facts.get("instance") is instance
            return above if inner else engines.engine(self.recorder, id_, method, bound, instance, above)
        if method in _CALLED and above is not None and above.kind != "tool" and is_a(instance, "BaseTool"):
            return calls.tool(id_, bound, instance, above)
        return above

    def _flow(self, id_: str, bound: Any, instance: Any, above: Place | None) -> Place:
        flow = Flow.begin(self.recorder, self.snapshots, id_, bound, instance, above)
        if flow is None:
            return SILENT
        self._flows[flow.native_id] = flow
        return flow.place

    def exit(self, id_: str, result: Any) -> None:
        """A span ends well."""
        place = self._leave(id_)
        if place is None:
            return
        if place.kind == "flow":
            flow = self._over(place)
            flow.done(result)
        elif place.kind == "model":
            if hasattr(result, "__next__") or hasattr(result, "__anext__"):
                self._streams[id_] = place
                calls.streams(place)
                self._readers.add(result, place)
            else:
                self.answered(place, result)
        elif place.kind == "search":
            calls.found(place, result)
            self._ended(place)
        elif place.kind == "engine":
            if engines.answered(place, result):
                self._ended(place)
            elif (stream := engines.stream_of(result)) is not None:
                self._readers.add(stream, place)
        elif place.kind == "tool" and not _of_agent(place):
            place.outside()
            calls.returned(place, result)
        else:
            place.outside()
            flow_of(place).stepped(place, result)

    def drop(self, id_: str, error: BaseException | None) -> None:
        """A span ends with an error."""
        place = self._leave(id_)
        if place is None:
            return
        error = error or RuntimeError("dropped")
        if place.kind == "flow":
            self._over(place).broke(error)
        elif place.kind == "model":
            self.answered(place, None, error)
        elif place.kind == "search":
            calls.found(place, None, error)
            self._ended(place)
        elif place.kind == "engine":
            engines.broke(place, error)
            self._ended(place)
        elif place.kind == "tool" and not _of_agent(place):
            place.outside()
            calls.raised(place, error)
        else:
            place.outside()
            flow_of(place).failed(place, error)

    def _leave(self, id_: str) -> Place | None:
        """What ends with a span; ``None`` where nothing of ours does."""
        place = self._places.pop(id_, None)
        if place is not None and place is not SILENT and not place.context.is_run:
            self._past[id_] = place
            if len(self._past) > _PAST_MAX:
                self._past.popitem(last=False)
        return place if place is not None and place.span_id == id_ else None

    def _here(self) -> Place | None:
        """The place that the code of here and now was begun in."""
        from llama_index_instrumentation.span import active_span_id

        span_id = active_span_id.get() or ""
        return self._places.get(span_id) or self._past.get(span_id)

    def _over(self, place: Place) -> Flow:
        flow = flow_of(place)
        self._flows.pop(flow.native_id, None)
        self._ended(place)
        return flow

    def _ended(self, place: Place) -> None:
        if place.is_run:
            for span_id in place.watched.spans:
                self._places.pop(span_id, None)
                self._streams.pop(span_id, None)
                self._past.pop(span_id, None)

    def _dropped(self, place: Place) -> None:
        """Nobody can read an answer any more; whoever told of its end has done so."""
        watched = place.watched
        if place.done or not watched.lock.acquire(blocking=False):
            return
        try:
            with self.recorder.guarded():
                watched.record = self.recorder.safe.hand_over
                if place.kind == "model":
                    self.answered(place, None, GeneratorExit("dropped"))
                elif watched.closing and not watched.streams:
                    watched.closing = False
                    engines.broke(place, GeneratorExit("dropped"))
                    self._ended(place)
        finally:
            watched.record = self.recorder.record
            watched.lock.release()

    # --- answers of models that are read later ----------------------------------------------------------------

    def answered(self, place: Place, response: Any, error: BaseException | None = None) -> None:
        """A model answered, or failed to."""
        streamed = self._streams.pop(place.span_id, None) is not None
        calls.answered(place, response, error)
        if place.is_run or (streamed and engines.read(place, error)):
            self._ended(place)

    def heard(self, event: Any) -> None:
        """An event of LlamaIndex's instrumentation: the end of an answer that was read."""
        name = type(event).__name__
        if name not in ("LLMChatEndEvent", "LLMCompletionEndEvent", "ExceptionEvent"):
            return
        place = self._streams.get(event.span_id or "") or self._places.get(event.span_id or "")
        if place is None or place.kind != "model" or place.span_id != event.span_id:
            return
        if name == "ExceptionEvent":
            self.answered(place, None, event.exception)
        elif event.span_id in self._streams:
            self.answered(place, event.response)

    # --- the loop of a workflow ----------------------------------------------------------------------------

    def ticked(self, run_id: str, tick: Any) -> None:
        """The loop of a workflow has taken a step."""
        if (flow := self._flows.get(run_id)) is not None:
            flow.ticked(tick)

    def published(self, run_id: str, event: Any) -> None:
        """A workflow wrote an event for whoever reads its stream."""
        if (flow := self._flows.get(run_id)) is not None:
            flow.published(event, self._here())

    def sent(self, run_id: str, tick: Any) -> None:
        """The code of a step sent an event to other steps; it may be over by now."""
        if (flow := self._flows.get(run_id)) is not None:
            flow.sent(getattr(tick, "event", None), self._here())


def _of_agent(place: Place) -> bool:
    """Whether it is a tool that an agent calls, not one that other code does."""
    return "to" in place.facts


def flow_of(place: Place) -> Flow:
    """The run of a workflow that a place is in."""
    flow = place.watched
    assert isinstance(flow, Flow)
    return flow
