"""The capability that tells a recorder what happens in a run. It defines no ``on_event``: that would change the run.

(Pydantic AI streams every answer of a model as soon as a capability listens to events.)
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.pydantic_ai.watching import CURRENT, Watch

if TYPE_CHECKING:
    from chatsnapshot.adapters.pydantic_ai.recorder import PydanticAIRecorder

__all__ = ["capability_of"]


def capability_of(recorder: PydanticAIRecorder) -> Any:
    """A capability for ``Agent(capabilities=[...])`` or one run."""
    return _class()(recorder)


@cache
def _class() -> Any:
    from pydantic_ai import exceptions as raised
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

    class ChatSnapshotCapability(AbstractCapability[Any]):
        """Records the runs of the agents that have it; hands everything on as it came."""

        def __init__(self, recorder: PydanticAIRecorder) -> None:
            super().__init__()
            self._recorder = recorder
            self._watches: dict[str, Watch] = {}

        @classmethod
        def get_serialization_name(cls) -> None:
            """No part of an agent's specification."""
            return None

        def get_ordering(self) -> Any:
            """Around all others, so that what they change and recover from is seen as it comes out."""
            return CapabilityOrdering(position="outermost")

        def _watch(self, context: Any) -> Watch | None:
            return self._watches.get(str(context.run_id))

        async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
            recorder = self._recorder
            watch: Watch | None = None
            with recorder.guarded():
                if str(ctx.run_id) not in self._watches:  # else it is attached twice
                    watch = self._watches[str(ctx.run_id)] = Watch(recorder, ctx)
            if watch is None:
                return await handler()
            token = CURRENT.set((watch, *(one for one in CURRENT.get() if one.key == watch.key)))
            try:
                result = await handler()
            except BaseException as error:
                await self._over(watch, error=error)
                raise
            else:
                await self._over(watch, result=result)
                return result
            finally:
                self._watches.pop(watch.key, None)
                with suppress(ValueError):  # the caller may end its stream in another context
                    CURRENT.reset(token)

        async def _over(
            self, watch: Watch, *, result: Any = None, error: BaseException | None = None
        ) -> None:
            recorder = self._recorder
            made: list[Any] = []
            with recorder.guarded():
                if not watch.begun:
                    made += watch.begin(None, None, [], None)
                made += watch.finished(result) if error is None else watch.broke(error)
            if isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
                recorder.record(*made)
            else:
                await recorder.arecord(*made)
            with recorder.guarded():
                if watch.run is not None:
                    recorder.end(watch.run)

        async def before_node_run(self, ctx: Any, *, node: Any) -> Any:
            watch = self._watch(ctx)
            if watch is not None and not watch.begun:
                recorder, made = self._recorder, []
                try:
                    prompt = getattr(node, "user_prompt", None)
                    answers = getattr(node, "deferred_tool_results", None)
                    history = list(ctx.messages)
                    known = recorder.correlation_id or watch.conversation
                    needed = answers is not None or history
                    earlier = await recorder.aleft_open(known) if known and needed else None
                    made = watch.begin(prompt, answers, history, earlier)
                except Exception as error:
                    recorder.note(error)
                await recorder.arecord(*made)
            return node

        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
            watch = self._watch(ctx)
            if watch is None or watch.in_model:
                return await handler(request_context)
            watch.in_model = True
            try:
                return await self._model_request(watch, request_context, handler)
            finally:
                watch.in_model = False

        async def _model_request(self, watch: Watch, request_context: Any, handler: Any) -> Any:
            recorder = self._recorder
            made: list[Any] = []
            with recorder.guarded():
                made = watch.asking(request_context.messages[-1] if request_context.messages else None)
            await recorder.arecord(*made)
            watch.asked(request_context.model)
            made = []
            try:
                response = await handler(request_context)
            except BaseException as error:
                with recorder.guarded():
                    if not isinstance(error, raised.SkipModelRequest):
                        made = watch.model_failed(error)
                recorder.record(*made)
                raise
            with recorder.guarded():
                made = watch.answered(response)
            await recorder.arecord(*made)
            return response

        async def wrap_tool_execute(
            self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
        ) -> Any:
            watch, recorder = self._watch(ctx), self._recorder
            if watch is None or call.tool_call_id in watch.executing:
                return await handler(args)
            made: list[Any] = []
            with recorder.guarded():
                made = watch.tool_began(call, args)
            await recorder.arecord(*made)
            began = time.monotonic_ns()
            made = []
            try:
                with watch.run.inside(call.tool_call_id) if watch.run is not None else nullcontext():
                    result = await handler(args)
            except (raised.CallDeferred, raised.ApprovalRequired):
                watch.executing.pop(call.tool_call_id, None)
                raise
            except raised.SkipToolExecution as skipped:
                with recorder.guarded():
                    made = watch.tool_gave(call, skipped.result, began)
                recorder.record(*made)
                raise
            except BaseException as error:
                with recorder.guarded():
                    made = watch.tool_failed(call, _facts(error), began)
                recorder.record(*made)
                raise
            with recorder.guarded():
                made = watch.tool_gave(call, _returned(result), began)
            await recorder.arecord(*made)
            return result

    return ChatSnapshotCapability


def _facts(error: BaseException) -> Any:
    """What a tool raised: the runtime wraps what it tells the model about."""
    if isinstance(error, asyncio.CancelledError):
        return {"message": "cancelled with its run"}
    if type(error).__name__ == "ToolRetryError" and error.__cause__ is not None:
        return error.__cause__
    told = getattr(error, "tool_retry", None) or getattr(error, "tool_failed", None)
    if told is not None:
        return {"type": type(error).__name__, "message": str(told.content)}
    return error


def _returned(result: Any) -> Any:
    """The value of a tool that gives more than a value."""
    is_more = type(result).__name__ == "ToolReturn" and hasattr(result, "return_value")
    return result.return_value if is_more else result
