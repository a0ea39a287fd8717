"""What surrounds a classic run that goes on: a record under its old name, and answers that are known already."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.classicrun import ClassicRun
from chatsnapshot.adapters.ag2.resuming.reading import Recorded
from chatsnapshot.adapters.ag2.resuming.talks import Talk
from chatsnapshot.adapters.ag2.tee import Tee

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["Outcome", "going_on", "tell", "tell_result"]


@contextmanager
def going_on(
    recorder: AG2Recorder,
    recorded: Recorded,
    talk: Talk,
    answers: list[tuple[str, str]],
    holders: list[Any],
    *,
    again: bool,
) -> Iterator[Tee]:
    """Record what happens here in the old run; ``again`` says that AG2 sends the last message once more."""
    opening = recorded.opening.payload
    run = ClassicRun(
        ledger=recorder.ledger,
        correlation_id=recorded.correlation_id,
        run_id=recorded.run_id,
        agents=[str(name) for name in opening.get("agents") or talk.names()],
        name=str(opening.get("name") or "") or None,
    )
    waiting = [one.event_id for one in talk.questions if one.answer is None]
    last = talk.said[-1]
    run.goes_on(
        waiting[-1] if waiting else recorded.last.event_id,
        message=last.event_id,
        asked=[call.call_id or call.name for call in talk.batch],
        results={call_id: result.event_id for call_id, result in talk.results.items()},
        again=(last.sender, last.message.get("content")) if again else None,
    )
    with ExitStack() as stack:
        if answers:
            io = importlib.import_module("autogen.io").IOStream
            stack.enter_context(io.set_default(_Answering(io.get_default(), answers)))
        options = {"correlation_id": None, "cause": None, "name": None, "run": run}
        yield stack.enter_context(Tee(recorder, options, holders))


@dataclass(frozen=True)
class Outcome:
    """What a chat gave, in the shape of AG2's ``ChatResult``."""

    chat_history: list[dict[str, Any]]
    summary: Any
    cost: Any = None


class _Answering:
    """AG2's default stream, where questions whose answers are known are not put to anybody."""

    def __init__(self, inner: Any, answers: list[tuple[str, str]]) -> None:
        self._inner = inner
        self._answers = answers
        self.input = self._a_input if inspect.iscoroutinefunction(inner.input) else self._input

    def send(self, message: Any) -> None:
        self._inner.send(message)

    def print(self, *objects: Any, **options: Any) -> None:
        self._inner.print(*objects, **options)

    def _input(self, prompt: str = "", *, password: bool = False) -> Any:
        known = self._known(prompt)
        return self._inner.input(prompt, password=password) if known is None else known

    async def _a_input(self, prompt: str = "", *, password: bool = False) -> Any:
        known = self._known(prompt)
        return await self._inner.input(prompt, password=password) if known is None else known

    def _known(self, prompt: str) -> str | None:
        for at, (question, answer) in enumerate(self._answers):
            if question == prompt:
                del self._answers[at]
                return answer
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def tell(message: dict[str, Any], sender: Any, recipient: Any) -> None:
    """Show a message that no agent sends, as AG2 shows one that is sent."""
    events = importlib.import_module("autogen.events.agent_events")
    event = events.create_received_event_model(event=message, sender=sender, recipient=recipient)
    importlib.import_module("autogen.io").IOStream.get_default().send(event)


def tell_result(name: str, call_id: str, content: str, executor: Any) -> None:
    """Show a result that the caller gave in the place of an execution."""
    events = importlib.import_module("autogen.events.agent_events")
    event = events.ExecutedFunctionEvent(
        func_name=name,
        call_id=call_id,
        arguments=None,
        content=content,
        recipient=executor,
        is_exec_success=True,
    )
    importlib.import_module("autogen.io").IOStream.get_default().send(event)
