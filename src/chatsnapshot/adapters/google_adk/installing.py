"""Auto mode for Google ADK: every runner of the process gets the recorder's plugin."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.google_adk.recorder import GoogleADKRecorder
from chatsnapshot.adapters.google_adk.runtime import adk

__all__ = ["install"]


def install(recorder: GoogleADKRecorder) -> Callable[[], None]:
    """Record every runner that is made from now on; gives the function that undoes it.

    The plugin comes first in a runner that has no plugin of this ledger yet. Runners that exist already are left alone.
    Raises :class:`TypeError` for another kind of recorder.
    """
    if not isinstance(recorder, GoogleADKRecorder):
        raise TypeError(f"install() needs a GoogleADKRecorder, not {type(recorder).__name__}")
    runner: Any = adk("runners", "Runner.run_async").Runner
    plugin = recorder.plugin
    original = runner.__init__
    active = True

    @functools.wraps(original)
    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        with recorder.guarded():
            plugins = self.plugin_manager.plugins
            if active and not any(type(one) is type(plugin) for one in plugins):
                plugins.insert(0, plugin)

    runner.__init__ = init

    def undo() -> None:
        nonlocal active
        active = False
        if runner.__init__ is init:
            runner.__init__ = original

    return undo
