"""What Agno waits for a person to say: requirements of tools and of the steps of workflows, asked and answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event

__all__ = ["answers", "asked", "said", "steps_asked", "steps_said"]

Said = tuple[str, dict[str, Any]]
"""The id of a question, and the facts of its answer."""


def asked(run: ObservedRun, requirements: Iterable[Any], run_id: str | None) -> list[Event]:
    """The calls that wait, and a question for each; what members of a team wait for is asked by their own runs."""
    made: list[Event] = []
    for question_id, one in _own(requirements, run_id):
        if one.is_resolved():
            continue
        tool = one.tool_execution
        if tool.tool_call_id not in run.calls:
            made.append(run.tool_call(tool.tool_call_id, tool.tool_name, tool.tool_args))
        waits = one.pause_type
        prompt = {"tool": tool.tool_name, "arguments": plain(tool.tool_args)}
        schema = one.user_feedback_schema if waits == "user_feedback" else one.user_input_schema
        if schema:
            prompt["fields"] = [plain(field.to_dict()) for field in schema]
        made.append(
            run.question(
                question_id,
                kind="approval" if waits == "confirmation" else "question",
                prompt=prompt,
                call_id=tool.tool_call_id,
                native={"requirement_id": one.id, "pause_type": waits},
            )
        )
    return made


def said(requirements: Iterable[Any], run_id: str | None) -> list[Said]:
    """What people answered, by the id of the question; to be taken before the run goes on, which changes it."""
    return [(question_id, _said(one)) for question_id, one in _own(requirements, run_id) if one.is_resolved()]


def answers(run: ObservedRun, given: Iterable[Said], at_ns: int) -> list[Event]:
    """The answers to the questions of the run that goes on; all, where none of its questions is known."""
    return [
        run.answer(question_id, at_ns=at_ns, **facts)
        for question_id, facts in given
        if question_id in run.questions or not run.questions
    ]


def _own(requirements: Iterable[Any], run_id: str | None) -> Iterator[tuple[str, Any]]:
    """Requirements of the run itself by the id of their question: the call's, unless one call asks twice."""
    seen: set[str] = set()
    for one in requirements:
        tool = getattr(one, "tool_execution", None)
        if tool is None or one.member_run_id not in (None, run_id):
            continue
        question_id = str(tool.tool_call_id or one.id)
        if question_id in seen:
            question_id = str(one.id)
        seen.add(question_id)
        yield question_id, one


def _said(one: Any) -> dict[str, Any]:
    tool, waited = one.tool_execution, one.pause_type
    if waited == "confirmation":
        agreed = one.confirmation if one.confirmation is not None else tool.confirmed
        if agreed:
            return {"decision": "approved"}
        return {"decision": "rejected", "content": one.confirmation_note or tool.confirmation_note}
    if waited == "external_execution":
        return {"content": one.external_execution_result or tool.result}
    if waited == "user_feedback":
        return {
            "content": {field.question: plain(field.selected_options) for field in one.user_feedback_schema}
        }
    return {"content": {field.name: plain(field.value) for field in one.user_input_schema or ()}}


def steps_asked(run: ObservedRun, requirements: Iterable[Any]) -> list[Event]:
    """A question for each step of a workflow that waits; an agent that waits in a step asks by its own run."""
    return [
        run.question(
            str(one.step_id),
            kind="question" if one.requires_user_input or one.requires_route_selection else "approval",
            prompt=_step_prompt(one),
        )
        for one in requirements
        if not one.is_resolved and not one.requires_executor_input
    ]


def steps_said(requirements: Iterable[Any]) -> list[Said]:
    """What people answered to the steps that a workflow waited at."""
    return [
        (str(one.step_id), _step_said(one))
        for one in requirements
        if one.is_resolved and not one.requires_executor_input
    ]


def _step_prompt(one: Any) -> dict[str, Any]:
    facts = {
        "step": one.step_name,
        "message": one.confirmation_message or one.user_input_message or one.output_review_message,
        "fields": [plain(field.to_dict()) for field in one.user_input_schema or ()],
        "choices": one.available_choices,
        "output": plain(getattr(one.step_output, "content", None)),
    }
    return {key: value for key, value in facts.items() if value}


def _step_said(one: Any) -> dict[str, Any]:
    if one.requires_user_input:
        return {"content": plain(one.user_input)}
    if one.requires_route_selection:
        return {"content": plain(one.selected_choices)}
    if one.confirmed and one.edited_output is not None:
        return {"decision": "edited", "content": plain(one.edited_output)}
    if one.confirmed:
        return {"decision": "approved"}
    return {"decision": "rejected", "content": one.rejection_feedback}
