"""What becomes of tool calls that are on record without a result: run once more, closed, or answered by the caller."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chatsnapshot.adapters.ag2.resuming.streams import NOBODY_KNOWS, Question
from chatsnapshot.adapters.ag2.saving.opencalls import OpenCall
from chatsnapshot.errors import InvalidEvent

__all__ = ["OpenCalls", "decide", "known_answers", "settled"]

OpenCalls = str | Mapping[str, Any] | Callable[[OpenCall], Any]
"""``"execute"``, ``"close"``, results by call id, or a function from an open call to its result."""


def decide(policy: OpenCalls, calls: Iterable[OpenCall]) -> dict[str, Any]:
    """The results of open calls that are not to be executed, by call id; a function may give an awaitable.

    Calls that a mapping does not name, and those for which a function gives ``NotImplemented``, are executed. Raises
    :class:`InvalidEvent` for another policy and for ids that are not open.
    """
    known = {call.call_id: call for call in calls}
    if policy == "execute":
        return {}
    if policy == "close":
        return dict.fromkeys(known, NOBODY_KNOWS)
    if isinstance(policy, Mapping):
        unknown = sorted(set(map(str, policy)) - known.keys())
        if unknown:
            raise InvalidEvent(
                f"open_calls names {', '.join(unknown)}, and the open calls are {', '.join(known) or '(none)'}",
                path="open_calls",
            )
        return {str(call_id): result for call_id, result in policy.items()}
    if callable(policy):
        return {
            call_id: result
            for call_id, result in ((call_id, policy(call)) for call_id, call in known.items())
            if result is not NotImplemented
        }
    raise InvalidEvent(
        'open_calls is "execute", "close", results by call id, or a function from an open call to its result, not '
        f"{policy!r}",
        path="open_calls",
    )


async def settled(results: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what was awaitable awaited."""
    out = {
        call_id: await result if inspect.isawaitable(result) else result
        for call_id, result in results.items()
    }
    return {call_id: result for call_id, result in out.items() if result is not NotImplemented}


def known_answers(questions: Iterable[Question], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions and the answers that they get when they are asked again, in order.

    What a person had answered is not asked twice, except approvals: they were given for another execution. ``given``
    names a question by its id or by the id of its event; raises :class:`InvalidEvent` for one that was not asked.
    """
    asked = list(questions)
    ids = {name for question in asked for name in (question.question_id, question.event_id)}
    unknown = sorted(set(map(str, given)) - ids)
    if unknown:
        waiting = ", ".join(f"{one.question_id} ({one.question})" for one in asked) or "(none)"
        raise InvalidEvent(
            f"answers names {', '.join(unknown)}, and the questions of the open calls are {waiting}",
            path="answers",
        )
    out = []
    for question in asked:
        answer = given.get(question.question_id, given.get(question.event_id))
        if answer is None and question.kind != "approval":
            answer = question.answer
        if answer is not None:
            out.append((question.question, str(answer)))
    return out
