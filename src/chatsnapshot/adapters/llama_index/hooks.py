"""Where LlamaIndex tells what happens: the handlers of its root dispatcher, and the loop of its workflows."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.llama_index.spans import Watch
from chatsnapshot.adapters.requiring import need

__all__ = ["VERSIONS", "watch"]

VERSIONS = "llama-index-core>=0.14.22,<0.15 with llama-index-workflows>=2.25,<3"
_EXTRA = "llama-index"

_lock = threading.Lock()
_watches: tuple[Watch, ...] = ()
"""Who hears of the loops of workflows."""
_before: dict[str, Any] = {}
"""The methods of the loop's adapter as they were."""
_TOLD = {"on_tick": Watch.ticked, "write_to_event_stream": Watch.published, "send_event": Watch.sent}


def watch(watch: Watch) -> Callable[[], None]:
    """Tell ``watch`` of everything in this process from now on; gives what undoes it.

    Questions and answers of workflows are in no span: they are heard at the adapter between the loop of a workflow and
    who runs it, as long as somebody watches.

    Raises :class:`MissingExtra` without LlamaIndex, :class:`LedgerError` when its version lacks what recording needs.
    """
    dispatcher, adapter = _found()
    spans, events = _handlers(watch)
    dispatcher.add_span_handler(spans)
    dispatcher.add_event_handler(events)
    _listen(adapter, watch)

    def undo() -> None:
        # New lists: another thread may be walking along these.
        dispatcher.span_handlers = [one for one in dispatcher.span_handlers if one is not spans]
        dispatcher.event_handlers = [one for one in dispatcher.event_handlers if one is not events]
        _listen_no_more(adapter, watch)

    return undo


def _found() -> tuple[Any, Any]:
    needed = {"extra": _EXTRA, "versions": VERSIONS, "what": "LlamaIndex"}
    need(
        "llama_index_instrumentation.dispatcher", "active_instrument_tags", "Dispatcher.span_enter", **needed
    )
    need("llama_index_instrumentation.span", "active_span_id.get", **needed)
    need("llama_index_instrumentation.span_handlers", "BaseSpanHandler.new_span", **needed)
    need("llama_index_instrumentation.event_handlers", "BaseEventHandler.handle", **needed)
    need("workflows.runtime.types.internal_state", "BrokerState.last_alive_stamp", **needed)
    basic = need(
        "workflows.plugins.basic",
        "InternalAsyncioAdapter.on_tick",
        "InternalAsyncioAdapter.write_to_event_stream",
        "InternalAsyncioAdapter.send_event",
        "InternalAsyncioAdapter.run_id",
        **needed,
    )
    dispatcher = need("llama_index_instrumentation", "get_dispatcher", **needed).get_dispatcher()
    return dispatcher, basic.InternalAsyncioAdapter


@functools.lru_cache(maxsize=1)
def _handler_classes() -> tuple[Any, Any]:
    base_spans: Any = importlib.import_module("llama_index_instrumentation.span_handlers").BaseSpanHandler
    base_events: Any = importlib.import_module("llama_index_instrumentation.event_handlers").BaseEventHandler

    class RecordingSpanHandler(base_spans):  # type: ignore[misc]
        """Hands the spans on; keeps none itself."""

        _watch: Any = None

        def new_span(
            self,
            id_: str,
            bound_args: Any,
            instance: Any = None,
            parent_span_id: str | None = None,
            tags: Any = None,
            **more: Any,
        ) -> None:
            with self._watch.recorder.guarded():
                self._watch.enter(id_, bound_args, instance, parent_span_id)

        def prepare_to_exit_span(
            self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **more: Any
        ) -> None:
            with self._watch.recorder.guarded():
                self._watch.exit(id_, result)

        def prepare_to_drop_span(
            self,
            id_: str,
            bound_args: Any,
            instance: Any = None,
            err: BaseException | None = None,
            **more: Any,
        ) -> None:
            with self._watch.recorder.guarded():
                self._watch.drop(id_, err)

    class RecordingEventHandler(base_events):  # type: ignore[misc]
        """Hands the events on."""

        _watch: Any = None

        def handle(self, event: Any, **more: Any) -> None:
            with self._watch.recorder.guarded():
                self._watch.heard(event)

    return RecordingSpanHandler, RecordingEventHandler


def _handlers(watch: Watch) -> tuple[Any, Any]:
    made = tuple(kind() for kind in _handler_classes())
    for handler in made:
        handler._watch = watch
    return made[0], made[1]


# --- the loop of a workflow -------------------------------------------------------------------------------


def _listen(adapter: Any, watch: Watch) -> None:
    global _watches
    with _lock:
        if not _watches:
            for name, tell in _TOLD.items():
                _before[name] = getattr(adapter, name)
                setattr(adapter, name, _telling(_before[name], tell))
        _watches = (*_watches, watch)


def _listen_no_more(adapter: Any, watch: Watch) -> None:
    global _watches
    with _lock:
        _watches = tuple(one for one in _watches if one is not watch)
        if not _watches:
            for name in [*_before]:
                before = _before.pop(name)
                if getattr(getattr(adapter, name), "__wrapped__", None) is before:
                    setattr(adapter, name, before)


def _telling(method: Any, tell: Callable[[Watch, str, Any], None]) -> Any:
    @functools.wraps(method)
    async def told(self: Any, *given: Any, **named: Any) -> Any:
        for watch in _watches:
            with watch.recorder.guarded():
                tell(watch, self.run_id, *given, *named.values())
        return await method(self, *given, **named)

    return told
