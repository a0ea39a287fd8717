"""The classic line: the messages of a run, built again from what was recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chatsnapshot.adapters.ag2.resuming.reading import Recorded, Step
from chatsnapshot.adapters.ag2.resuming.streams import Question
from chatsnapshot.adapters.ag2.saving.opencalls import OpenCall, open_calls

__all__ = ["Result", "Said", "Talk", "rebuild"]

Message = dict[str, Any]
_MESSAGES = frozenset({"text", "tool_call", "function_call", "tool_response", "function_response"})
_EXECUTOR = "_Group_Tool_Executor"
_KEPT = ("content", "tool_calls", "function_call", "tool_responses", "refusal", "audio")


@dataclass(frozen=True)
class Said:
    """A message with who sent it and who got it."""

    message: Message
    sender: str
    recipient: str
    event_id: str


@dataclass(frozen=True)
class Result:
    """What a tool gave: the text that the model gets, and where the work goes next when the result says so."""

    text: str
    event_id: str
    target: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass
class Talk:
    """What was said in a run, and where it stopped.

    ``results`` are the recorded results of the last message's tool calls, by call id; ``questions`` what people were
    asked since that message.
    """

    said: list[Said] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    """Call id to the event of the call, of the last message."""
    results: dict[str, Result] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    called: str | None = None
    """Who was to speak next in a group, where that was decided."""

    @property
    def batch(self) -> list[OpenCall]:
        """The tool calls of the last message."""
        return open_calls([self.said[-1].message]) if self.said else []

    @property
    def open_calls(self) -> list[OpenCall]:
        """Those without a result."""
        return [call for call in self.batch if call.call_id not in self.results]

    def names(self) -> list[str]:
        """Everybody who sent or got a message, in order."""
        return list(dict.fromkeys(name for one in self.said for name in (one.sender, one.recipient)))


def rebuild(recorded: Recorded, *, group: bool = False) -> Talk:
    """The talk of a run out of its recorded events; of a ``group`` what was said to its manager."""
    talk = Talk()
    for step in recorded.steps:
        kind, data = str(step.native.get("type", "")), step.native.get("data")
        if kind in _MESSAGES and isinstance(data, dict):
            if not (group and talk.said and data.get("recipient") != talk.said[0].recipient):
                _say(talk, step, kind, data)
        elif step.entry.event_type == "execution.tool_call":
            talk.calls[str(step.payload.get("call_id") or step.payload.get("name"))] = step.entry.event_id
        elif step.entry.event_type == "execution.tool_result":
            _result(talk, step)
        elif step.entry.event_type == "execution.human_input_requested":
            question = str(step.payload.get("question") or "")
            talk.questions.append(Question(step.entry.event_id, step.entry.event_id, question))
        elif step.entry.event_type == "execution.human_input_received":
            _answer(talk, step.payload)
        elif kind == "group_chat_run_chat" and step.payload.get("speaker") != _EXECUTOR:
            talk.called = str(step.payload.get("speaker"))
        elif step.entry.event_type == "execution.handoff":
            talk.called = str(step.payload.get("to"))
        if isinstance(variables := step.payload.get("variables"), dict):
            talk.variables = dict(variables)
    return talk


def _say(talk: Talk, step: Step, kind: str, data: dict[str, Any]) -> None:
    _answer_before(talk, data)
    message = {key: data[key] for key in _KEPT if data.get(key) is not None}
    sender, recipient = str(data.get("sender") or ""), str(data.get("recipient") or "")
    if kind in ("tool_call", "function_call"):
        message = {"content": None, **message, "role": "assistant"}
    elif kind == "tool_response":
        message = {"content": "", **message, "role": "tool", "name": sender}
    elif kind == "function_response":
        message = {"content": "", **message, "role": "function", "name": str(data.get("name") or sender)}
    else:
        message = {"content": "", **message, "role": "user", "name": sender}
    talk.said.append(Said(message, sender, recipient, step.entry.event_id))
    talk.calls, talk.results, talk.questions = {}, {}, []
    if message["role"] not in ("tool", "function"):
        talk.called = None


def _answer_before(talk: Talk, data: dict[str, Any]) -> None:
    """Tool calls that were gone past without the message that answers them: a resumed run answered them."""
    calls = talk.batch
    if not calls or data.get("tool_responses") or not talk.results:
        return
    last = talk.said[-1]
    told = [
        {"tool_call_id": call.call_id, "role": "tool", "content": talk.results[call.call_id].text}
        for call in calls
        if call.call_id in talk.results
    ]
    content = "\n\n".join(str(one["content"]) for one in told)
    message = {"content": content, "tool_responses": told, "role": "tool", "name": last.recipient}
    talk.said.append(Said(message, last.recipient, last.sender, last.event_id))


def _result(talk: Talk, step: Step) -> None:
    payload = step.payload
    value, target, variables = payload.get("result"), None, {}
    if isinstance(value, dict) and value.keys() == {"message", "target", "context_variables"}:
        given = value["context_variables"]
        given = given.get("data", given) if isinstance(given, dict) else {}
        target, variables, value = value["target"], dict(given), value["message"]
    elif isinstance(value, dict) and value.keys() == {"kind", "name"}:
        target, value = value, value["name"]
    named = target.get("name") if isinstance(target, dict) else None
    call_id = str(payload.get("call_id") or payload.get("name"))
    text = value if isinstance(value, str) else "" if value is None else str(value)
    talk.results[call_id] = Result(text, step.entry.event_id, named, variables)


def _answer(talk: Talk, payload: dict[str, Any]) -> None:
    answer = payload.get("answer")
    for at, question in enumerate(talk.questions):
        if question.event_id == payload.get("answers") and answer is not None:
            talk.questions[at] = Question(
                question.question_id, question.event_id, question.question, answer=str(answer)
            )
