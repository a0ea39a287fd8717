"""Payloads of the system around the agents: workflows, tasks, states, limits, errors."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Attempt,
    Error,
    Id,
    Items,
    Labels,
    Name,
    Native,
    Number,
    Text,
    Time,
    Usage,
)

__all__ = ["SCHEMAS", "LimitReached", "StateTransition", "SystemError", "Task", "Workflow"]

_WorkflowId = Annotated[Id | None, Meta(description="id of the workflow (default: the correlation id)")]
_TaskId = Annotated[Id | None, Meta(description="id of the task, the same in all its events")]


class Workflow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A workflow began, went on or ended."""

    workflow_id: _WorkflowId = None
    name: Annotated[Name | None, Meta(description="what the workflow is called; its title in lists")] = None
    input: Annotated[Any, Meta(description="what it was given")] = None
    output: Annotated[Any, Meta(description="what it gave")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    reason: Annotated[Text | None, Meta(description="why it was paused, resumed or cancelled")] = None
    parent_run_id: Annotated[Id | None, Meta(description="id of the run that began it")] = None
    user: Annotated[Name | None, Meta(description="the user for whom it runs")] = None
    tags: Annotated[Labels | None, Meta(description="labels: a list, one text, or an object")] = None
    version: Annotated[Id | None, Meta(description="version of the workflow")] = None
    native: Native = None


class Task(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A task was planned, began, ended or is to be tried again."""

    task_id: _TaskId = None
    name: Annotated[Name | None, Meta(description="what the task is called")] = None
    depends_on: Annotated[
        Items | None, Meta(description="ids of the tasks that must be completed before")
    ] = None
    parent_task_id: Annotated[Id | None, Meta(description="id of the task that this one is a part of")] = None
    workflow_id: _WorkflowId = None
    attempt: Attempt = None
    input: Annotated[Any, Meta(description="what it was given")] = None
    output: Annotated[Any, Meta(description="what it gave")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    reason: Annotated[Text | None, Meta(description="why it was cancelled or is tried again")] = None
    retry_at: Annotated[Time | None, Meta(description="when it is tried again")] = None
    usage: Annotated[
        Usage | None, Meta(description="tokens of the whole task; metrics count the model calls instead")
    ] = None
    worker: Annotated[Name | None, Meta(description="which worker has it")] = None
    call_id: Annotated[Id | None, Meta(description="id of the tool call that it was begun by")] = None
    id: Annotated[Id | None, Meta(description="as `task_id`")] = None
    task_name: Annotated[Name | None, Meta(description="as `name`")] = None
    title: Annotated[Name | None, Meta(description="as `name`")] = None
    task: Annotated[Name | None, Meta(description="the task as an object, or its name")] = None
    native: Native = None


class StateTransition(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A process or another entity of the system went from one state to another."""

    entity: Annotated[Name | None, Meta(description="what changed its state")] = None
    from_: Annotated[Any, Meta(description="the state before")] = msgspec.field(default=None, name="from")
    to: Annotated[Any, Meta(description="the state after")] = None
    reason: Annotated[Text | None, Meta(description="why")] = None
    name: Annotated[Name | None, Meta(description="as `entity`")] = None
    process: Annotated[Name | None, Meta(description="as `entity`")] = None
    old: Annotated[Any, Meta(description="as `from`")] = None
    previous: Annotated[Any, Meta(description="as `from`")] = None
    new: Annotated[Any, Meta(description="as `to`")] = None
    state: Annotated[Any, Meta(description="as `to`")] = None
    status: Annotated[Any, Meta(description="as `to`")] = None
    value: Annotated[Any, Meta(description="as `to`: what was given instead of an object")] = None
    native: Native = None


class LimitReached(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A budget, a quota or another limit was reached."""

    name: Annotated[Name | None, Meta(description="which limit")] = None
    limit: Annotated[Number | str | None, Meta(description="the limit, in `unit`; a text names it")] = None
    used: Annotated[Number | None, Meta(description="how much was used or asked for, in `unit`")] = None
    unit: Annotated[Text | None, Meta(description="unit of both, such as tokens, USD, seconds, requests")] = (
        None
    )
    scope: Annotated[Name | None, Meta(description="what the limit is for: a run, a user, a key")] = None
    action: Annotated[Text | None, Meta(description="what was done because of it")] = None
    message: Annotated[Any, Meta(description="the same, for people")] = None
    reason: Annotated[Any, Meta(description="as `message`")] = None
    text: Annotated[Any, Meta(description="as `message`")] = None
    value: Annotated[Any, Meta(description="as `message`: what was given instead of an object")] = None
    error: Annotated[Error | None, Meta(description="the error that said so")] = None
    native: Native = None


class SystemError(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something failed outside of a run's own steps."""

    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    component: Annotated[Name | None, Meta(description="what failed")] = None
    message: Annotated[Any, Meta(description="what went wrong, where no error tells")] = None
    exception: Annotated[Error | None, Meta(description="as `error`")] = None
    reason: Annotated[Any, Meta(description="as `message`")] = None
    text: Annotated[Any, Meta(description="as `message`")] = None
    value: Annotated[Any, Meta(description="as `message`: what was given instead of an object")] = None
    native: Native = None


_ERROR = {"type": "TimeoutError", "message": "the courier did not answer"}
_WORKFLOW = {"workflow_id": "case-1", "name": "broken lamp"}
_TASK = {"task_id": "book", "name": "book the courier"}
_NAMED = ("task_id", "name", "id", "task_name", "title", "task")
_SAID = ("message", "reason", "text", "value", "error")

SCHEMAS: tuple[Schema, ...] = (
    schema("system.workflow_started", Workflow, {**_WORKFLOW, "input": {"order": "WW-1042"}}),
    schema("system.workflow_paused", Workflow, {**_WORKFLOW, "reason": "waits for the manager"}),
    schema("system.workflow_resumed", Workflow, {**_WORKFLOW, "reason": "the manager answered"}),
    schema("system.workflow_completed", Workflow, {**_WORKFLOW, "output": {"courier": "Saturday"}}),
    schema("system.workflow_failed", Workflow, {**_WORKFLOW, "error": _ERROR}),
    schema("system.workflow_cancelled", Workflow, {**_WORKFLOW, "reason": "the order was withdrawn"}),
    schema(
        "system.task_scheduled", Task, {**_TASK, "depends_on": ["decide"], "workflow_id": "case-1"}, _NAMED
    ),
    schema("system.task_started", Task, {**_TASK, "attempt": 1}, _NAMED),
    schema("system.task_completed", Task, {**_TASK, "output": {"day": "Saturday"}}, _NAMED),
    schema("system.task_failed", Task, {**_TASK, "attempt": 1, "error": _ERROR}, _NAMED),
    schema("system.task_cancelled", Task, {**_TASK, "reason": "no longer needed"}, _NAMED),
    schema(
        "system.task_retried",
        Task,
        {**_TASK, "attempt": 2, "error": _ERROR, "retry_at": "2026-11-30T02:27:00.000000Z"},
        _NAMED,
    ),
    schema(
        "system.state_transition",
        StateTransition,
        {"entity": "order WW-1042", "from": "open", "to": "settled", "reason": "the letter is sent"},
        ("to", "new", "state", "status", "value"),
    ),
    schema(
        "system.limit_reached",
        LimitReached,
        {
            "name": "tokens a run",
            "limit": 20_000,
            "used": 20_480,
            "unit": "tokens",
            "scope": "run-7",
            "action": "stopped",
        },
        ("name", "limit", *_SAID),
    ),
    schema(
        "system.error",
        SystemError,
        {"component": "courier", "error": _ERROR},
        ("error", "exception", *_SAID[:-1]),
    ),
)
