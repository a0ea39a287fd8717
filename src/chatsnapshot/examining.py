"""Lets a store examine itself on a thread of its own while ``verify`` hashes the rows."""

from __future__ import annotations

import threading

from chatsnapshot.stores.base import Finding, Store

__all__ = ["Examining"]


class Examining:
    """The store's own examination, on a thread of its own while the rows are hashed."""

    def __init__(self, store: Store) -> None:
        self._findings: list[Finding] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, args=(store,), name="chatsnapshot-examine", daemon=True
        )
        self._thread.start()

    def _run(self, store: Store) -> None:
        try:
            self._findings = list(store.examine())
        except Exception as error:
            self._error = error

    def findings(self) -> list[Finding]:
        """What it found; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._findings
