"""``ResumedRun``: an AG2 1.x agent with the run that another process left unfinished."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.continuing import Continuation, adopt, expect, forget_expected
from chatsnapshot.adapters.ag2.resuming.deciding import OpenCalls, decide, known_answers, settled
from chatsnapshot.adapters.ag2.resuming.reading import Recorded
from chatsnapshot.adapters.ag2.resuming.streams import History, Question
from chatsnapshot.adapters.ag2.saving.lines import root_of
from chatsnapshot.adapters.ag2.saving.opencalls import OpenCall
from chatsnapshot.adapters.ag2.streamed import kinds
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["ResumedRun"]


class ResumedRun:
    """A recorded run of an agent, ready to go on.

    ``stream`` holds the history under its old id, ``variables`` and ``prompt`` are those recorded last; ``open_calls``
    are tool calls without a result, ``questions`` what these calls asked a person; ``ended`` says that the run had
    come to its end. ``reply`` is what :meth:`go_on` gave.
    """

    def __init__(
        self, recorder: AG2Recorder, agent: Any, recorded: Recorded, history: History, stream: Any
    ) -> None:
        self.agent = agent
        self.correlation_id = recorded.correlation_id
        self.run_id = recorded.run_id
        self.ended = recorded.completed
        self.variables = history.variables
        self.prompt = [str(one) for one in recorded.opening.payload.get("instructions") or ()]
        self.questions: list[Question] = history.questions
        self.open_calls = [
            OpenCall(call.id, call.name, call.arguments)
            for call in history.batch
            if call.id not in history.results
        ]
        self.reply: Any = None
        self._begun = False
        self._recorder = recorder
        self._recorded = recorded
        self._history = history
        root = root_of(agent)
        self._events = importlib.import_module(f"{root}.events")
        self._context = importlib.import_module(f"{root}.annotations").Context
        self.stream = stream if stream is not None else _stream(root, recorded.opening.payload)
        self._results: dict[str, Any] = {}
        self._answers: list[tuple[str, str]] = []

    async def prepare(self, open_calls: OpenCalls, answers: Mapping[str, Any]) -> None:
        """Fill the stream and decide on the open calls."""
        self._answers = known_answers(self.questions, answers)
        calls = {call.id: call for call in self._history.batch}
        for call_id, result in (await settled(decide(open_calls, self.open_calls))).items():
            self._results[call_id] = self._events.ToolResultEvent.from_call(calls[call_id], result)
        self.open_calls = [call for call in self.open_calls if call.call_id not in self._results]
        await self.stream.history.replace(self.events)
        adopt(str(self.stream.id), self._recorder.ledger, self.correlation_id)

    @property
    def events(self) -> list[Any]:
        """The history as it is on record: what :meth:`go_on` goes on from."""
        history = self._history
        batch = [self._events.ToolCallsEvent(list(history.batch)), *history.loose] if history.batch else []
        return [*history.events, *batch]

    async def go_on(self, **options: Any) -> Any:
        """Run the turn to its end and give AG2's reply: recorded results go to the model, open calls are executed.

        ``options`` are those of ``agent.resume``. What happens is recorded in the same run, after a ``run_resumed``.
        Raises :class:`InvalidEvent` for a run that had ended or that has gone on, and what AG2 raises.
        """
        if self.ended or self.reply is not None:
            raise InvalidEvent(f"run {self.run_id!r} has ended; go on with ask()")
        if self._begun:
            raise InvalidEvent(f"run {self.run_id!r} has gone on since it was read; resume it anew")
        self._begun = True
        *before, driver = self._to_go_on()
        subscribed = [self.stream.subscribe(self._tap(self._completed_batch), interrupt=True)]
        stream_id = str(self.stream.id)
        expect(stream_id, self._continuation(driver))
        middleware = [self._recorder.named(str(self._recorded.opening.payload.get("name") or "agent"))]
        if self._answers:
            middleware.append(self._answering(subscribed))
        options["middleware"] = [*options.get("middleware", ()), *middleware]
        standing = {"stream": self.stream, "variables": self.variables, "prompt": self.prompt}
        try:
            self.reply = await self.agent.resume(*before, driver, **{**standing, **options})
        finally:
            forget_expected(stream_id)
            for subscription in subscribed:
                self.stream.unsubscribe(subscription)
        self.variables = dict(self.reply.context.variables)
        self.open_calls, self.questions = [], []
        return self.reply

    async def ask(self, *messages: Any, **options: Any) -> Any:
        """``agent.ask`` on this stream with these variables: the next turn of a run that has ended.

        Raises :class:`InvalidEvent` for a run that stopped on the way.
        """
        if not self.ended and self.reply is None:
            raise InvalidEvent(f"run {self.run_id!r} stopped on the way; finish it with go_on() first")
        return await self.agent.ask(
            *messages, **{"stream": self.stream, "variables": self.variables, **options}
        )

    def _to_go_on(self) -> list[Any]:
        """The trajectory that ``agent.resume`` takes; its last event drives the turn."""
        history, events = self._history, self._events
        if self.open_calls:
            missing = {call.call_id for call in self.open_calls}
            rest = [call for call in history.batch if call.id in missing]
            return [*history.events, events.ToolCallsEvent(rest)]
        if history.batch:
            return [*self.events, events.ToolResultsEvent(self._all_results({}))]
        if not history.events:
            raise InvalidEvent(
                f"nothing of run {self.run_id!r} but its start is on record; ask the agent again",
                path="run_id",
            )
        return list(history.events)

    def _continuation(self, driver: Any) -> Continuation:
        history = self._history
        waiting = [one.event_id for one in self.questions if one.answer is None]
        known = history.result_events
        on_record = not history.batch
        return Continuation(
            ledger=self._recorder.ledger,
            correlation_id=self.correlation_id,
            run_id=self.run_id,
            cause=waiting[-1] if waiting else self._recorded.last.event_id,
            agent=str(self._recorded.opening.payload.get("name") or "agent"),
            calls=history.calls,
            answered=set(known),
            results=[known[call.id] for call in history.batch if call.id in known],
            asked_by=history.asked_by,
            again=driver if on_record else None,
        )

    def _all_results(self, made: Mapping[str, Any]) -> list[Any]:
        """The results of the batch in the order of its calls: executed now, decided, or recorded."""
        known = {**self._history.results, **self._results, **made}
        return [known[call.id] for call in self._history.batch if call.id in known]

    async def _completed_batch(self, event: Any, context: Any) -> Any:
        """Put the results that are on record beside those of the calls that were executed now."""
        if "ToolResultsEvent" not in kinds(event):
            return event
        made = {result.parent_id: result for result in event.results}
        if not made.keys() <= {call.call_id for call in self.open_calls} or not self._history.batch:
            return event
        return self._events.ToolResultsEvent(self._all_results(made))

    def _answering(self, subscribed: list[Any]) -> Any:
        """A middleware that answers known questions, after they were recorded and before anybody is asked."""
        base = importlib.import_module(f"{root_of(self.agent)}.middleware").BaseMiddleware

        def middleware(event: Any, context: Any) -> Any:
            subscribed.append(context.stream.subscribe(self._tap(self._answer), interrupt=True))
            return base(event, context)

        return middleware

    async def _answer(self, event: Any, context: Any) -> Any:
        if "HumanInputRequest" not in kinds(event):
            return event
        for at, (question, answer) in enumerate(self._answers):
            if question == event.content:
                del self._answers[at]
                await context.send(self._events.HumanMessage(answer, parent_id=event.id))
                return None
        return event

    def _tap(self, method: Any) -> Any:
        """The subscriber: AG2 reads the annotations to know what to hand in."""

        async def tap(event: Any, context: Any) -> Any:
            return await method(event, context)

        tap.__annotations__ = {"context": self._context}
        return tap


def _stream(root: str, opening: Mapping[str, Any]) -> Any:
    module = importlib.import_module(root)
    try:
        return module.MemoryStream(id=uuid.UUID(str(opening.get("stream_id"))))
    except ValueError:
        return module.MemoryStream()
