"""The ADK plugin: which of its callbacks means what for a recorded run."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.google_adk.invocation import Invocation, begun
from chatsnapshot.adapters.google_adk.runtime import adk
from chatsnapshot.adapters.google_adk.strand import Strand, branch_of

if TYPE_CHECKING:
    from chatsnapshot.adapters.google_adk.recorder import GoogleADKRecorder

__all__ = ["new_plugin"]

_numbers = itertools.count(1)
_PENDING_MAX = 1_000
_CALLBACKS = (
    "on_user_message_callback", "before_run_callback", "on_event_callback", "after_run_callback",
    "before_model_callback", "after_model_callback", "on_model_error_callback", "before_tool_callback",
    "after_tool_callback", "on_tool_error_callback", "on_run_error_callback",
)  # fmt: skip


class _Callbacks:
    """ADK's callbacks. Each gives ``None`` back, which changes nothing, and none raises."""

    def __init__(self, recorder: GoogleADKRecorder) -> None:
        # ADK refuses two plugins of one name.
        number = next(_numbers)
        super().__init__(name="chatsnapshot" if number == 1 else f"chatsnapshot-{number}")  # type: ignore[call-arg]
        self.recorder = recorder
        self._open: dict[str, Invocation] = {}
        self._sent: dict[str, None] = {}

    def _of(self, context: Any) -> Invocation | None:
        return self._open.get(context.invocation_id)

    # --- the life of an invocation ------------------------------------------------------------------------

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        self._sent[invocation_context.invocation_id] = None
        while len(self._sent) > _PENDING_MAX:
            self._sent.pop(next(iter(self._sent)))

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        with self.recorder.guarded():
            sent = invocation_context.invocation_id in self._sent
            self._sent.pop(invocation_context.invocation_id, None)
            made = await begun(self.recorder, invocation_context, sent, self._forget)
            if made is not None:
                self._open[invocation_context.invocation_id] = made
                await made.record(*made.first())

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(invocation_context)) is not None:
                aborted = bool(getattr(invocation_context, "is_aborted", False))
                await invocation.record(*invocation.end(aborted=aborted))

    async def on_run_error_callback(self, *, invocation_context: Any, error: BaseException) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(invocation_context)) is not None:
                await invocation.record(*invocation.end(error=error))

    def _forget(self, invocation: Invocation) -> None:
        if self._open.get(invocation.run.key) is invocation:
            del self._open[invocation.run.key]

    # --- what happens in it -------------------------------------------------------------------------------

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        with self.recorder.guarded():
            invocation = self._of(invocation_context)
            if invocation is not None and not event.partial:
                await invocation.record(*await invocation.told(event))

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(callback_context)) is not None:
                strand = await self._strand(invocation, callback_context)
                strand.asking(callback_context, llm_request)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        with self.recorder.guarded():
            invocation = self._of(callback_context)
            if invocation is not None and not llm_response.partial:
                strand = await self._strand(invocation, callback_context)
                # The event that tells the answer follows at once: both are one commit.
                invocation.held.append(strand.asked(callback_context, response=llm_response))

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Any) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(callback_context)) is not None:
                strand = await self._strand(invocation, callback_context)
                await invocation.record(strand.asked(callback_context, error=error))

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(tool_context)) is not None:
                strand = await self._strand(invocation, tool_context)
                await invocation.record(*strand.calling(tool, tool_args, tool_context))

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(tool_context)) is not None:
                (await self._strand(invocation, tool_context)).called(tool_context, None)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: BaseException
    ) -> None:
        with self.recorder.guarded():
            if (invocation := self._of(tool_context)) is not None:
                (await self._strand(invocation, tool_context)).called(tool_context, error)

    async def _strand(self, invocation: Invocation, context: Any) -> Strand:
        """The run that a context is in; it begins here when it is new."""
        strand, made = await invocation.at(branch_of(context))
        if made:
            await invocation.record(*made)
        return strand


@functools.lru_cache(maxsize=1)
def _plugin_class() -> Any:
    base = adk("plugins.base_plugin", *(f"BasePlugin.{name}" for name in _CALLBACKS)).BasePlugin
    return type("ChatSnapshotPlugin", (_Callbacks, base), {"__doc__": _Callbacks.__doc__})


def new_plugin(recorder: GoogleADKRecorder) -> Any:
    """A plugin of the installed ADK for this recorder."""
    return _plugin_class()(recorder)
