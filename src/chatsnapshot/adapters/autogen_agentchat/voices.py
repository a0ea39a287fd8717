"""One who speaks in a run of AgentChat: an agent during its turn; builds the events of what it says and does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.autogen_agentchat.contents import (
    calls_in,
    dumped,
    is_chat,
    model_of,
    parts_of,
    usage_of,
)
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.payloads import reasoning, text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.autogen_agentchat.watching import Watch

__all__ = ["Voice"]

_STATES = {"MemoryQueryEvent": "memory", "SelectSpeakerEvent": "speaker", "SelectorEvent": "selector"}


class Voice:
    """Several agents of a team may speak at once: each has its own thread of causes, and they share the run."""

    def __init__(self, watch: Watch, run: ObservedRun) -> None:
        self.watch = watch
        self.run = run
        self._thoughts: list[str] = []
        self._asked_model = False
        """Whether the model call that comes to the next message is told."""
        self._question: str | None = None
        """What a person was asked through this agent."""
        self._began: dict[str, int] = {}
        self._code: list[dict[str, str]] = []
        """The code that was written last."""

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return self.watch.run.ended is None

    def another(self, name: str, cause: str | None = None) -> Voice:
        """Another one who speaks in the run from here on, because of that event."""
        run = self.run
        own = ObservedRun(
            runtime=run.runtime,
            ledger=run.ledger,
            key=run.key,
            run_id=run.run_id,
            native_run_id=run.native_run_id,
            correlation_id=run.correlation_id,
            agent=name,
        )
        own.last = cause or self.watch.spoken or run.last
        own.questions = run.questions
        return Voice(self.watch, own)

    # --- messages and events ------------------------------------------------------------------------------

    def heard(self, message: Any) -> list[Event]:
        """A message of somebody who is none of the agents."""
        if not (parts := parts_of(message)):
            return []
        said = self.run.message("user", parts, name=message.source, **_ids(message))
        return [self._made(said, whole=True)]

    def says(self, item: Any, kind: str) -> list[Event]:
        """What an agent says or tells of."""
        told = getattr(self, f"_on_{kind}", None)
        if told is not None:
            made: list[Event] = told(item)
        elif is_chat(item):
            made = self._message(item, parts_of(item))
        else:
            made = [self.run.state(_STATES.get(kind, kind), value=dumped(item))]
        for event in made:
            self._made(event, whole=is_chat(item))
        return made

    def _message(self, item: Any, parts: list[dict[str, Any]], **facts: Any) -> list[Event]:
        question, self._question = self._question, None
        if question is not None:
            return [self.run.answer(question, content=item.to_model_text(), user=item.source, **_ids(item))]
        made = []
        if item.models_usage is not None and not self._asked_model:
            made.append(self.run.model_call(usage=usage_of(item.models_usage)))
        self._asked_model = False
        thoughts, self._thoughts = self._thoughts, []
        if parts := [*map(reasoning, thoughts), *parts]:
            made.append(self.run.message("assistant", parts, **_ids(item), **facts))
        return made

    def _on_ThoughtEvent(self, item: Any) -> list[Event]:
        self._thoughts.append(item.content)
        return []

    def _on_ToolCallSummaryMessage(self, item: Any) -> list[Event]:
        return self._message(item, parts_of(item), summary_of=[call.id for call in item.tool_calls])

    def _on_ToolCallRequestEvent(self, item: Any) -> list[Event]:
        calls = calls_in(item)
        made = self._message(item, calls)
        for call in calls:
            self._began[str(call["id"])] = time.time_ns()
            made.append(self.run.tool_call(call["id"], call["name"], call["arguments"]))
        return made

    def _on_ToolCallExecutionEvent(self, item: Any) -> list[Event]:
        return [self._gave(result) for result in item.content if result.call_id in self.run.calls]

    def _on_HandoffMessage(self, item: Any) -> list[Event]:
        if self._question is not None:
            return self._message(item, [])
        made = self._message(item, []) if self._thoughts else []
        return [*made, self.run.handoff(item.target, message=item.content, **_ids(item))]

    def _on_UserInputRequestedEvent(self, item: Any) -> list[Event]:
        self._question = str(item.request_id)
        return [self.run.question(self._question, prompt=self.watch.said())]

    def _on_CodeGenerationEvent(self, item: Any) -> list[Event]:
        self._code = [{"language": block.language, "code": block.code} for block in item.code_blocks]
        return self._message(item, [text(item.content)])

    def _on_CodeExecutionEvent(self, item: Any) -> list[Event]:
        result, known = item.result, str(item.id)
        facts = {"exit_code": result.exit_code, "retry": item.retry_attempt or None}
        failed = {"error": result.output} if result.exit_code else {"result": result.output}
        return [
            self.run.tool_call(known, "execute_code", {"code_blocks": self._code} if self._code else {}),
            self.run.tool_result(known, **failed, **facts),
        ]

    def asks(self, handoff: Any) -> Event:
        """The word goes to somebody outside of the team, who must give the answer."""
        asked = self.run.question(str(handoff.id), prompt=handoff.content, to=handoff.target)
        return self._made(asked)

    def left(self) -> list[Event]:
        """What was thought and came to no message."""
        thoughts, self._thoughts = self._thoughts, []
        return [self._made(self.run.message("assistant", [*map(reasoning, thoughts)]))] if thoughts else []

    # --- tools and models ---------------------------------------------------------------------------------

    async def tool_done(self, call_id: str, result: Any = None, error: BaseException | None = None) -> None:
        """A tool gave its result, or raised."""
        if call_id not in self.run.calls or not self.goes_on:
            return
        recorder = self.watch.recorder
        with recorder.guarded():
            made = self._gave(result) if error is None else self.run.tool_result(call_id, error=error)
            await recorder.arecord(self._made(made))

    def _gave(self, result: Any) -> Event:
        began = self._began.pop(result.call_id, None)
        took = None if began is None else time.time_ns() - began
        outcome = {"error" if result.is_error else "result": result.content}
        return self.run.tool_result(result.call_id, result.name, **outcome, duration_ns=took)

    async def asked_model(
        self, client: Any, began: int, result: Any = None, error: BaseException | None = None
    ) -> None:
        """A model answered, or failed."""
        if not self.goes_on:
            return
        recorder = self.watch.recorder
        with recorder.guarded():
            self._asked_model = error is None
            made = self.run.model_call(
                model=model_of(client),
                client=type(client).__name__,
                usage=usage_of(getattr(result, "usage", None)),
                finish_reason=getattr(result, "finish_reason", None),
                cached=getattr(result, "cached", None) or None,
                started_at=time_text(began),
                duration_ns=time.time_ns() - began,
                error=error,
            )
            await recorder.arecord(self._made(made, whole=self is self.watch.main))

    def _made(self, event: Event, *, whole: bool = False) -> Event:
        """The end of the run follows from this; where it is ``whole``, also what is said next."""
        self.watch.run.last = event["event_id"]
        if whole:
            self.watch.spoken = event["event_id"]
            self.watch.chosen = self is self.watch.main and event["event_type"] == "execution.model_call"
        return event


def _ids(item: Any) -> dict[str, Any]:
    return {"message_id": getattr(item, "id", None), "metadata": getattr(item, "metadata", None) or None}
