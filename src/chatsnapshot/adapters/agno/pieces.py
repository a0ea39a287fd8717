"""What is recorded around a run of Agno, around a call of a model, and around a tool."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.agno.following import STOPPED, Piece, Told, acalled, astreamed, streamed
from chatsnapshot.adapters.agno.parts import calls_of, message_parts, result_of, usage_of
from chatsnapshot.adapters.agno.watching import CURRENT, Watch
from chatsnapshot.adapters.places import enter, leave
from chatsnapshot.adapters.plain import describe_error, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

__all__ = ["ATTEMPTS", "Around", "ModelPiece", "RunPiece", "ToolPiece", "recorded_in"]

ATTEMPTS: ContextVar[list[BaseException] | None] = ContextVar("chatsnapshot_agno_attempts", default=None)
"""The errors of the provider in this call of a model: Agno may try again after each."""


class Around(Piece):
    """A piece that several recorders watch, each for itself."""

    def __init__(self, watches: tuple[Watch, ...]) -> None:
        self.watches = watches

    def _told(self, make: Any) -> Told:
        told: Told = []
        for watch in self.watches:
            with watch.recorder.guarded():
                told.append((watch.recorder, make(watch)))
        return told


class RunPiece(Around):
    """A run of an agent, a team or a workflow."""

    in_background = False

    def begin(self) -> Told:
        response = self.watches[0].given.get("workflow_run_response")
        if response is None:
            return []
        return self._told(lambda watch: watch.begin(response))

    async def ready(self) -> None:
        for watch in self.watches:
            with watch.recorder.guarded():
                conversation = watch.conversation if watch.goes_on else None
                if conversation is not None:
                    watch.earlier = await watch.recorder.aleft_open(conversation)

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = CURRENT.set(self.watches)
        try:
            yield
        finally:
            with suppress(ValueError):  # what is left behind may be closed in another context
                CURRENT.reset(token)

    def saw(self, item: Any) -> None:
        for watch in self.watches:
            with watch.recorder.guarded():
                watch.saw(item)

    def over(self, result: Any, error: BaseException | None) -> Told:
        if self.in_background and (error is None or isinstance(error, STOPPED)):
            return []  # it goes on in a task of its own
        told = self._told(lambda watch: watch.over(result, error))
        for watch in self.watches:
            with watch.recorder.guarded():
                if watch.run is not None:
                    watch.recorder.end(watch.run)
        return told

    def goes_on(self, result: Any) -> Any:
        if inspect.iscoroutine(result):
            return acalled(self, lambda: result)
        if isinstance(result, AsyncIterator):
            return astreamed(self, result, begin=False)
        if isinstance(result, Iterator):
            return streamed(self, result, begin=False)
        return None


class ModelPiece(Around):
    """One request to a model and its answer; one that Agno makes beside the run (to parse, to sum up) has no message."""

    def __init__(self, watches: tuple[Watch, ...], model: Any, given: dict[str, Any]) -> None:
        super().__init__(watches)
        self.model = model
        self.messages = given.get("messages") or []
        self.answer = given.get("assistant_message")
        self.response = given.get("run_response")
        kind = getattr(model, "model_type", None)
        self.purpose = str(getattr(kind, "value", kind) or "model")
        self.own = self.response is not None and self.purpose == "model"
        self.attempts: list[BaseException] = []
        self._at_ns, self._began = 0, 0

    def begin(self) -> Told:
        told = self._told(self._asked) if self.own else []
        self._at_ns, self._began = time.time_ns(), time.monotonic_ns()
        return told

    def _asked(self, watch: Watch) -> list[Event | None]:
        return [*watch.begin(self.response, messages=self.messages), *watch.heard(self.messages)]

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = ATTEMPTS.set(self.attempts)
        try:
            yield
        finally:
            with suppress(ValueError):
                ATTEMPTS.reset(token)

    def over(self, result: Any, error: BaseException | None) -> Told:
        took = time.monotonic_ns() - self._began
        return self._told(lambda watch: self._answered(watch, error, took))

    def _answered(self, watch: Watch, error: BaseException | None, took: int) -> list[Event | None]:
        run = watch.run
        if run is None:
            return []
        facts: dict[str, Any] = {
            "model": getattr(self.model, "id", None),
            "provider": getattr(self.model, "provider", None) or getattr(self.model, "name", None),
            "started_at": time_text(self._at_ns),
            "duration_ns": took,
        }
        if not self.own:
            return [self._beside(watch, facts, error)]
        failed = [one for one in self.attempts if one is not error]
        made: list[Event | None] = [
            run.model_call(model=facts["model"], provider=facts["provider"], attempt=count, error=one)
            for count, one in enumerate(failed, 1)
        ]
        if failed:
            facts["attempt"] = len(failed) + 1
        if error is not None:
            watch.error = error
            ending = {"status": "cancelled"} if isinstance(error, STOPPED) else {"error": error}
            return [*made, run.model_call(**facts, **ending)]
        made.append(run.model_call(**facts, usage=usage_of(getattr(self.answer, "metrics", None))))
        watch.wanted = {call_id: (name, given) for call_id, name, given in calls_of(self.answer) if call_id}
        watch.executed.difference_update(watch.wanted)
        if parts := message_parts(self.answer):
            made.append(run.message("assistant", parts))
        return made

    def _beside(self, watch: Watch, facts: dict[str, Any], error: BaseException | None) -> Event | None:
        """Such a call may happen while the run's own model answers, so it is no part of that order."""
        run = watch.run
        if run is None:
            return None
        before = run.last
        native = {"purpose": self.purpose} if self.purpose != "model" else {"purpose": "beside"}
        more = {"usage": usage_of(getattr(self.answer, "metrics", None))} if error is None else {}
        ending = {} if error is None else {"error": describe_error(error)}
        payload = {**facts, **more, **ending, "native": native}
        made = run.event("execution.model_call", payload, cause=run.started_event)
        run.last = before
        return made


class ToolPiece(Around):
    """A tool that is executed; one that yields is over when its stream is."""

    def __init__(self, watches: tuple[Watch, ...], call: Any) -> None:
        super().__init__(tuple(watch for watch in watches if _is_of(watch, call)))
        self.call = call
        self.call_id, self.name = call.call_id, call.function.name
        self._began = time.monotonic_ns()
        self._said: list[Any] = []

    def begin(self) -> Told:
        told = self._told(self._called)
        self._began = time.monotonic_ns()
        return told

    def _called(self, watch: Watch) -> list[Event | None]:
        context = self.call.function._run_context
        made: list[Event | None] = [*watch.begin(None, context.run_id, context.session_id)]
        run = watch.run
        if run is None:
            return made
        cause = run.calls.get(self.call_id or "")
        if cause is None:
            made.append(run.tool_call(self.call_id, self.name, plain(self.call.arguments or {})))
            cause = made[-1]["event_id"] if made[-1] is not None else ""
            if to := _handed_to(self.call):
                made.append(run.handoff(to, call_id=self.call_id, native={"team": run.agent}))
        watch.executing[id(self.call)] = (self.call_id, self.name, cause)
        return made

    @contextmanager
    def inside(self) -> Iterator[None]:
        with ExitStack() as stack:
            for watch in self.watches:
                run, known = watch.run, watch.executing.get(id(self.call))
                if run is not None and known is not None:
                    stack.enter_context(recorded_in(run, known[2]))
            yield

    def saw(self, item: Any) -> None:
        kind = getattr(item, "event", None)
        if kind is None:
            self._said.append(item)
        elif kind in ("RunContent", "TeamRunContent") and item.content is not None:
            self._said.append(item.content)

    def over(self, result: Any, error: BaseException | None) -> Told:
        took = time.monotonic_ns() - self._began
        return self._told(lambda watch: self._gave(watch, result, error, took))

    def _gave(self, watch: Watch, outcome: Any, error: BaseException | None, took: int) -> list[Event | None]:
        run, known = watch.run, watch.executing.pop(id(self.call), None)
        if run is None or known is None:
            return []  # it was stopped with its run, which has ended
        if self.call_id:
            watch.executed.add(self.call_id)
        facts: dict[str, Any] = {"cause": known[2], "duration_ns": took}
        if isinstance(error, STOPPED):
            stopped = {"message": "cancelled with its run"}
            return [run.tool_result(self.call_id, self.name, error=stopped, **facts)]
        if error is not None:
            return [run.tool_result(self.call_id, self.name, error=error, **facts)]
        if outcome is None:
            said = self._said[0] if len(self._said) == 1 else "".join(map(str, self._said))
            return [run.tool_result(self.call_id, self.name, result=plain(said), **facts)]
        if outcome.status != "success":
            failure = {"message": str(outcome.error)}
            return [run.tool_result(self.call_id, self.name, error=failure, **facts)]
        return [run.tool_result(self.call_id, self.name, result=plain(result_of(outcome.result)), **facts)]

    def goes_on(self, result: Any) -> Any:
        given = getattr(result, "result", None)
        if inspect.isgenerator(given):
            followed: Any = streamed(self, given, begin=False)
        elif inspect.isasyncgen(given):
            followed = astreamed(self, given, begin=False)
        else:
            return None
        if self.call.result is given:
            self.call.result = followed
        result.result = followed
        return result


@contextmanager
def recorded_in(run: Any, cause: str) -> Iterator[None]:
    """What is recorded here, agents among it, is caused by that event of the run."""
    token = enter(run.ledger, run.correlation_id, cause, run.run_id, run.agent)
    try:
        yield
    finally:
        leave(token)


def _is_of(watch: Watch, call: Any) -> bool:
    """Whether it is a tool of the run: what Agno's own managers call (memories, learning) is none."""
    function = call.function
    context = getattr(function, "_run_context", None)
    if context is None or (watch.begun and watch.run is None):
        return False
    # In a step of a workflow the context is the workflow's.
    return (
        function._agent is watch.owner
        or function._team is watch.owner
        or watch.key in (None, str(context.run_id))
    )


def _handed_to(call: Any) -> str | None:
    """The member that gets the word, where a team lets its members answer for it."""
    team = call.function._team
    if call.function.name != "delegate_task_to_member" or not getattr(team, "respond_directly", False):
        return None
    wanted = str((call.arguments or {}).get("member_id"))
    members = team.members if isinstance(team.members, (list, tuple)) else ()
    for member in members:
        name = getattr(member, "name", None)
        if wanted in (getattr(member, "id", None), name) or (name and _letters(name) == _letters(wanted)):
            return str(name or wanted)
    return wanted


def _letters(name: str) -> str:
    """What is left of a name in the id that Agno makes of it."""
    return "".join(one for one in name.lower() if one.isalnum())
