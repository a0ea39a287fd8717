"""``GoogleADKRecorder``: records the runs of Google ADK through a plugin."""

from __future__ import annotations

from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.google_adk.runtime import RUNTIME

__all__ = ["GoogleADKRecorder"]


class GoogleADKRecorder(RuntimeRecorder):
    """Records every invocation of the runners that have its plugin.

    >>> app = App(name="desk", root_agent=agent, plugins=[GoogleADKRecorder(ledger).plugin])

    Put it first: a plugin before it that answers in place of the model or a tool hides that from those after it.
    The correlation is the id of the ADK session unless ``correlation_id`` is given. The arguments are those of
    :class:`RuntimeRecorder`.
    """

    runtime = RUNTIME
    adapter = RUNTIME
    _plugin: Any = None

    @property
    def plugin(self) -> Any:
        """The plugin for ``App(plugins=[…])``, always the same one.

        Raises :class:`MissingExtra` without ADK, :class:`LedgerError` when its version lacks what recording needs.
        """
        if self._plugin is None:
            from chatsnapshot.adapters.google_adk.plugin import new_plugin

            self._plugin = new_plugin(self)
        return self._plugin
