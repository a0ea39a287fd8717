"""One sample of an evaluation as a run: what was said, which models and tools were called, how it was scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.importers.base import Piece, Problem, name_text, title_of
from chatsnapshot.importers.chatrun import ChatRun, digest, moment, usage_of
from chatsnapshot.importers.inspect_ai.messages import Attachments, Heard
from chatsnapshot.importers.inspect_ai.scores import Scores
from chatsnapshot.importers.inspect_ai.steps import Steps

__all__ = ["SampleRun"]

_ABOUT = ("id", "epoch", "target", "metadata", "choices", "files", "setup", "sandbox", "uuid")
_TIMES = ("total_time", "working_time", "limit", "error", "invalidation")


class SampleRun:
    """Makes the events of one sample; ``counted`` says afterwards whether tokens were found in it."""

    def __init__(
        self,
        above: ChatRun,
        offset: int,
        facts: Mapping[str, Any],
        whole: bool,
        task: str | None,
        model: str | None,
    ) -> None:
        self.facts = facts
        self.offset = offset
        self.whole = whole
        self.task = task
        self.model = model
        self.above = above
        name = f"{above.correlation_id}-{_sample_name(facts)}"
        self.run = ChatRun(name if whole else f"{name}-partial", "inspect", cause=above.id_of("start"))
        self.counted = False

    def pieces(self) -> Iterator[Piece | Problem]:
        """The start, the steps of the transcript, messages that no step tells of, scores, the end."""
        facts, run = self.facts, self.run
        attached = Attachments(facts.get("attachments"))
        events = facts.get("events")
        events = events if isinstance(events, list) else []
        heard = Heard()
        scores = Scores(run, self.offset, facts.get("scores"))
        steps = Steps(run, self.offset, attached, heard, scores, _pool(facts), self.task)
        first = next((moment(one.get("timestamp")) for one in events if isinstance(one, Mapping)), None)
        yield self._started(attached, moment(facts.get("started_at")) or first)
        yield from steps.take(events)
        self.counted = steps.counted
        last = steps.last
        messages = facts.get("messages")
        messages = messages if isinstance(messages, list) else []
        for number, item in enumerate(messages):
            if not isinstance(item, Mapping):
                yield Problem(self.offset, f"message {number} of {run.correlation_id} is no object")
        for number, plain in heard.fresh(messages, attached):
            native = {"message_number": number}
            yield from run.said(self.offset, f"said {number}", plain, native=native, at=last)
        yield from self._totals(last)
        yield from scores.rest(last)
        if self.whole:
            yield self._ended(attached, moment(facts.get("completed_at")) or last)

    def _started(self, attached: Attachments, at: str | None) -> Piece:
        facts = attached.resolved(self.facts, ("input", "metadata", "target", "choices"))
        given = facts.get("input")
        asked = given if isinstance(given, str) else _last_text(given)
        started = {
            "name": title_of(asked) or self.task,
            "input": given,
            "session": self.above.correlation_id,
            "parent_run_id": self.above.correlation_id,
            "tags": [one for one in ("inspect", self.task, None if self.whole else "partial") if one],
            "native": {"format": "inspect", **{key: facts[key] for key in _ABOUT if key in facts}},
        }
        return self.run.event(
            self.offset, "execution.run_started", "start", started, origin="system", name=self.task, at=at
        )

    def _totals(self, at: str | None) -> Iterator[Piece]:
        """Tokens of a sample whose log tells of no single call: of each model together, else of its last output."""
        if self.counted:
            return
        given = self.facts.get("model_usage")
        output = self.facts.get("output")
        purpose = "all calls of the sample together: the log has no more"
        if not (isinstance(given, Mapping) and given) and isinstance(output, Mapping):
            given = {output.get("model") or self.model: output.get("usage")}
            purpose = "the call that gave the output: the log has no more"
        for model, one in given.items() if isinstance(given, Mapping) else ():
            if (usage := usage_of(one)) is None:
                continue
            self.counted = True
            call = {"model": name_text(model), "usage": usage, "purpose": purpose}
            yield self.run.event(
                self.offset, "execution.model_call", f"models {model}", call, at=at, follow=False
            )

    def _ended(self, attached: Attachments, at: str | None) -> Piece:
        facts = self.facts
        native = {key: facts[key] for key in _TIMES if facts.get(key)}
        retries = facts.get("error_retries")
        if isinstance(retries, list) and retries:
            # Newer logs keep the whole transcript of an attempt that failed there.
            native["error_retries"] = [
                {"message": one.get("message")} for one in retries if isinstance(one, Mapping)
            ]
        error = facts.get("error")
        if isinstance(error, Mapping):
            payload: dict[str, Any] = {"error": {"message": error.get("message")}, "native": native}
            return self.run.event(
                self.offset, "execution.run_failed", "end", payload, origin="system", name=self.task, at=at
            )
        output = attached.resolved(facts.get("output") if isinstance(facts.get("output"), Mapping) else {})
        choices = output.get("choices")
        choice = (
            choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        )
        message = choice.get("message")
        limit = facts.get("limit")
        stopped = f"limit: {limit.get('type')}" if isinstance(limit, Mapping) else choice.get("stop_reason")
        payload = {
            "output": message.get("content") if isinstance(message, Mapping) else None,
            "status": stopped if isinstance(stopped, str) else None,
            "native": native,
        }
        return self.run.event(
            self.offset, "execution.run_completed", "end", payload, origin="system", name=self.task, at=at
        )


def _sample_name(facts: Mapping[str, Any]) -> str:
    """Which sample it is: its id and epoch, which are one of a kind in a log."""
    given, epoch = facts.get("id"), facts.get("epoch")
    name = name_text(given, 80) or ""
    if name != str(given):
        name = f"{name}-{digest(given, 8)}"
    return f"{name}-epoch-{name_text(epoch, 20) or 1}"


def _pool(facts: Mapping[str, Any]) -> list[Any]:
    """Messages that newer logs keep once for all calls of models."""
    pooled = facts.get("events_data")
    messages = pooled.get("messages") if isinstance(pooled, Mapping) else None
    return messages if isinstance(messages, list) else []


def _last_text(given: object) -> str | None:
    for one in reversed(given if isinstance(given, list) else []):
        if isinstance(one, Mapping) and one.get("role") == "user" and isinstance(one.get("content"), str):
            return str(one["content"])
    return None
