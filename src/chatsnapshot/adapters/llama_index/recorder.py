"""``LlamaIndexRecorder``: records agents, workflows, engines, retrievers and models of LlamaIndex."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.llama_index.hooks import watch
from chatsnapshot.adapters.llama_index.spans import Watch

__all__ = ["LlamaIndexRecorder", "install"]


class LlamaIndexRecorder(RuntimeRecorder):
    """Records everything that LlamaIndex runs in this process, from :meth:`attach` to :meth:`detach`.

    >>> recorder = LlamaIndexRecorder(ledger)
    >>> recorder.attach()
    >>> await agent.run("Hello")

    Also as ``with LlamaIndexRecorder(ledger): …``. LlamaIndex has one root dispatcher a process, so there is nothing to
    attach to a single agent. A run of a workflow belongs to the conversation of its context, of the memory that it is
    given, or else of its own ``run_id``; ``correlation_id`` overrules them. The arguments are those of
    :class:`RuntimeRecorder`.

    LlamaIndex never notices: a ledger that fails, hangs or is closed changes nothing for it. :attr:`safe` counts what
    could not be recorded.
    """

    runtime = "llama_index"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self._watch = Watch(self)
        self._undo: Callable[[], None] | None = None
        self._mutex = threading.Lock()

    def attach(self) -> Callable[[], None]:
        """Record from now on; gives :meth:`detach`. Twice is once.

        Raises :class:`MissingExtra` without LlamaIndex, :class:`LedgerError` when its version lacks what recording
        needs.
        """
        with self._mutex:
            if self._undo is None:
                self._undo = watch(self._watch)
        return self.detach

    def detach(self) -> None:
        """Record nothing more."""
        with self._mutex:
            undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> LlamaIndexRecorder:
        self.attach()
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()


def install(recorder: LlamaIndexRecorder) -> Callable[[], None]:
    """Record every run of the process; gives the function that undoes it.

    Raises :class:`TypeError` for another kind of recorder.
    """
    if not isinstance(recorder, LlamaIndexRecorder):
        raise TypeError(f"install() takes a LlamaIndexRecorder, not {type(recorder).__name__}")
    return recorder.attach()
