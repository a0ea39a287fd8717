"""One turn of an AG2 1.x agent: the hooks that AG2 calls and the tap on its stream."""

from __future__ import annotations

import importlib
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2 import steps, streamed
from chatsnapshot.adapters.ag2.earlier import Earlier, result_of_nobody
from chatsnapshot.adapters.ag2.run import CURRENT, Place, Run, forget, open_run, remember, root_of
from chatsnapshot.adapters.plain import describe_error
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["Turn"]


class Turn:
    """Records one turn; mixed with AG2's ``BaseMiddleware``, one instance a turn.

    The tap interrupts: it sees every event before all others do, also those that a hook swallows, and hands
    the same event on. Nothing that recording does reaches AG2.
    """

    context: Any

    def begin(self, recorder: AG2Recorder, agent: str | None) -> None:
        """Put the tap on the stream; it is silent until the turn begins and after it ends."""
        self._recorder = recorder
        self._agent = agent
        self._run: Run | None = None
        self._held: list[Event] = []
        """What goes with the next event, which follows at once: a start with what was asked, a model call with its
        response, and a response that only asks for tools with the first call."""
        stream = self.context.stream
        self._stream_id = str(stream.id)
        subscription = stream.subscribe(_tap(weakref.ref(self), type(self.context)), interrupt=True)
        # A scope that is opened and never driven has no end of its own.
        self._release = weakref.finalize(self, stream.unsubscribe, subscription)

    # --- hooks that AG2 calls -----------------------------------------------------------------------------

    async def on_turn(self, call_next: Any, event: Any, context: Any) -> Any:
        """The whole turn: exactly one start, and exactly one end however it ends."""
        await self._start(event, context)
        try:
            reply = await call_next(event, context)
        except BaseException as error:
            await self._end(
                partial(steps.ended_by, error=error), may_wait=not isinstance(error, GeneratorExit)
            )
            raise
        await self._end(partial(steps.completed, reply=reply, context=context))
        return reply

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
        """One call of the model, recorded once at its end."""
        run = self._run
        if run is None:
            return await call_next(events, context)
        started_at, started = time_text(time.time_ns()), time.perf_counter_ns()
        try:
            response = await call_next(events, context)
        except BaseException as error:
            took = time.perf_counter_ns() - started
            if not isinstance(error, GeneratorExit):
                await self._write(partial(steps.model_call, run, context, started_at, took, error=error))
            raise
        took = time.perf_counter_ns() - started
        self._hold(partial(steps.model_call, run, context, started_at, took, response=response))
        return response

    async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
        """While the tool runs, what it starts is caused by its call."""
        run = self._run
        if run is None:
            return await call_next(event, context)
        call = run.calls.get(getattr(event, "id", ""))
        token = CURRENT.set(Place(run, call))
        try:
            with self._recorder.scope(run, call):
                return await call_next(event, context)
        finally:
            CURRENT.reset(token)

    async def on_human_input(self, call_next: Any, event: Any, context: Any) -> Any:
        """An answer that goes to a stream nobody records, that of a sub-agent without the middleware."""
        answer = await call_next(event, context)
        run = open_run(str(context.stream.id), self._recorder.ledger)
        if self._run is not None and (run is None or run.stored):
            await self._write(partial(steps.seen, run or self._run, answer, context))
        return answer

    # --- the tap ------------------------------------------------------------------------------------------

    async def tap(self, event: Any, context: Any) -> None:
        """Record an event of the stream, durably before anybody else sees it."""
        if self._run is not None:
            # A sub-agent's question is forwarded to this stream: it belongs to the sub-agent's run.
            run = open_run(str(context.stream.id), self._recorder.ledger) or self._run
            made = partial(steps.seen, run, event, context)
            if self._goes_with_the_next(event):
                self._hold(made)
            else:
                await self._write(made)

    # --- writing ------------------------------------------------------------------------------------------

    async def _start(self, event: Any, context: Any) -> None:
        known = open_run(self._stream_id, self._recorder.ledger)
        if known is not None and not known.stored:
            return  # the same turn is recorded already: the middleware was given twice
        recorder = self._recorder
        try:
            history = list(await context.stream.history.get_events())
            channel = await recorder.channel_of(event, context)
            # In a channel the stream is new each time, and its history retells what others have said.
            resumed = bool(history) and channel is None
            self._run = run = recorder.new_run(context, resumed=resumed, agent=self._agent, channel=channel)
            earlier = await recorder.earlier(run) if resumed and run.continues is None else Earlier()
            run.run_id = earlier.run_id or run.run_id  # what was left open is gone on with, as the same run
            resumed = resumed or run.continues is not None
            remember(self._stream_id, run)
            recorder.safe.runs_open += not run.inside
        except Exception as error:
            recorder.safe.note(error)
            return
        run.calls.update(earlier.calls)
        self._hold(lambda: steps.answers(run, event, earlier))
        if self._held:
            earlier = earlier._replace(cause=self._held[-1]["event_id"])
        self._hold(lambda: [recorder.opening(run, context, resumed=resumed, earlier=earlier)])
        if earlier.calls:
            self._hold(lambda: self._closed_meanwhile(run, history, earlier))

    def _closed_meanwhile(self, run: Run, history: list[Any], earlier: Earlier) -> list[Event]:
        """Results that AG2 wrote into the history since the run before without showing them."""
        closed = result_of_nobody(history, earlier.calls)
        return [made for one in closed for made in steps.closed(run, one)]

    async def _end(self, last: Callable[[Run], Event], *, may_wait: bool = True) -> None:
        run, self._run = self._run, None
        self._release()
        if run is None:
            return
        forget(self._stream_id, run)
        self._recorder.safe.runs_open -= not run.inside
        try:
            event = last(run)
        except Exception as error:
            self._recorder.safe.note(error)
            event = run.event("execution.run_failed", {"error": describe_error(error)})
        self._recorder.ended(run, event)
        events, self._held = (*self._held, event), []
        if may_wait:
            await self._recorder.safe.arecord(*events)
        else:
            self._recorder.safe.hand_over(*events)

    async def _write(self, make: Callable[[], list[Event]]) -> None:
        events = self._made(make)
        if events:
            events, self._held = [*self._held, *events], []
            await self._recorder.safe.arecord(*events)

    def _goes_with_the_next(self, event: Any) -> bool:
        try:
            return streamed.only_asks_for_tools(event)
        except Exception as error:
            self._recorder.safe.note(error)
            return False

    def _hold(self, make: Callable[[], list[Event]]) -> None:
        self._held += self._made(make)

    def _made(self, make: Callable[[], list[Event]]) -> list[Event]:
        try:
            return make()
        except Exception as error:
            self._recorder.safe.note(error)
            return []


def _tap(turn: weakref.ref[Turn], context_type: type) -> Any:
    """The subscriber. AG2 hands its context to whoever takes any argument; injecting it would cost a thread a time."""
    option = importlib.import_module(f"{root_of(context_type)}.utils").CONTEXT_OPTION_NAME

    async def tap(event: Any, **given: Any) -> Any:
        if (live := turn()) is not None:
            await live.tap(event, given.get(option) or live.context)
        return event

    return tap
