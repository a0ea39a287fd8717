"""``LangGraphRecorder``: records graphs of LangGraph, and runnables, models and tools of LangChain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.langgraph.handler import handler_class
from chatsnapshot.adapters.langgraph.watch import Watch

__all__ = ["LangGraphRecorder"]


class LangGraphRecorder(RuntimeRecorder):
    """Records into a ledger what LangGraph and LangChain do with its handler among the callbacks.

    >>> recorder = LangGraphRecorder(ledger)
    >>> graph.invoke(state, recorder.config("thread-7"))
    >>> model.invoke("Hello", {"callbacks": [recorder.handler]})

    A call is a run in the correlation of its thread. Nodes are state changes in it, also those of inner graphs; a graph,
    chain or model inside of a tool is a child run, caused by the tool call. A call that resumes a thread is a
    ``run_resumed`` in the same correlation, caused by the answer.

    The graph never notices: a ledger that fails, hangs or is closed changes nothing for it. :attr:`safe` counts what
    could not be recorded; :meth:`flush` waits for what is kept for a second try.
    """

    runtime = "langgraph"

    def __init__(self, ledger: Any, **options: Any) -> None:
        """``options`` are those of :class:`RuntimeRecorder`: ``correlation_id``, ``cause``, ``redact`` …"""
        super().__init__(ledger, **options)
        self._handler: Any = None

    @property
    def handler(self) -> Any:
        """The callback handler, always the same one: for ``callbacks=[recorder.handler]``.

        Raises :class:`MissingExtra` where LangChain is not installed, and :class:`LedgerError` with one sentence where
        LangGraph is too old.
        """
        if self._handler is None:
            self._handler = handler_class()(Watch(self))
        return self._handler

    def config(
        self, thread_id: object = None, *, config: Mapping[str, Any] | None = None, name: str | None = None
    ) -> Any:
        """A config for ``invoke``, ``stream`` and their async kin, with this recorder among its callbacks.

        ``thread_id`` is that of LangGraph, ``config`` what else the call is to have, ``name`` what the run is called.
        Raises ``TypeError`` for a ``config`` that is no mapping.
        """
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config is a mapping, as LangGraph takes it, not {type(config).__name__}")
        made: dict[str, Any] = dict(config or {})
        given = made.get("callbacks")
        if given is None or isinstance(given, (list, tuple)):
            made["callbacks"] = [*(given or ()), self.handler]
        else:
            made["callbacks"] = given.copy()
            made["callbacks"].add_handler(self.handler, True)
        if thread_id is not None:
            made["configurable"] = {**made.get("configurable", {}), "thread_id": str(thread_id)}
        if name is not None:
            made["run_name"] = name
        return made
