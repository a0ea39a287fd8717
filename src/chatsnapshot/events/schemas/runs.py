"""Payloads of a run's life: started, resumed, paused, completed, failed, cancelled."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Agent,
    Error,
    ForkedFrom,
    Id,
    Labels,
    Name,
    Native,
    RunId,
    Text,
    Usage,
)

__all__ = [
    "SCHEMAS",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunPaused",
    "RunResumed",
    "RunStarted",
]


class RunStarted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The start of a run: what it is called, who wants it, and where it comes from."""

    name: Annotated[Name | None, Meta(description="what the run is called; its title in lists")] = None
    run_id: RunId = None
    parent_run_id: Annotated[Id | None, Meta(description="id of the run that began this one")] = None
    user: Annotated[Name | None, Meta(description="the user for whom it runs")] = None
    session: Annotated[Id | None, Meta(description="id of the conversation or session around it")] = None
    tags: Annotated[Labels | None, Meta(description="labels: a list, one text, or an object")] = None
    version: Annotated[Id | None, Meta(description="version of the agent or program")] = None
    environment: Annotated[Text | None, Meta(description="where it runs, such as `production`")] = None
    input: Annotated[Any, Meta(description="what the run was given")] = None
    instructions: Annotated[Any, Meta(description="the system prompt or prompts")] = None
    variables: Annotated[Any, Meta(description="context variables at the start")] = None
    forked_from: Annotated[
        ForkedFrom | None,
        Meta(description="the other run and the position up to which its history is this one's"),
    ] = None
    agent: Agent = None
    native: Native = None


class RunResumed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run goes on, after a pause, a crash or in a new turn."""

    name: Annotated[Name | None, Meta(description="what the run is called")] = None
    run_id: RunId = None
    parent_run_id: Annotated[Id | None, Meta(description="id of the run that began this one")] = None
    user: Annotated[Name | None, Meta(description="the user for whom it runs")] = None
    reason: Annotated[Text | None, Meta(description="why it goes on")] = None
    input: Annotated[Any, Meta(description="what the run was given to go on")] = None
    variables: Annotated[Any, Meta(description="context variables at this point")] = None
    agent: Agent = None
    native: Native = None


class RunPaused(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run stops to be resumed later."""

    run_id: RunId = None
    reason: Annotated[Text | None, Meta(description="what it waits for")] = None
    state: Annotated[Any, Meta(description="what is needed to go on, as the runtime has it")] = None
    agent: Agent = None
    native: Native = None


class RunCompleted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run reached its own end."""

    run_id: RunId = None
    output: Annotated[Any, Meta(description="what the run gave")] = None
    status: Annotated[Text | None, Meta(description="how it ended, in the runtime's words")] = None
    usage: Annotated[
        Usage | None, Meta(description="tokens of the whole run; metrics count the model calls instead")
    ] = None
    variables: Annotated[Any, Meta(description="context variables at the end")] = None
    agent: Agent = None
    native: Native = None


class RunFailed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run ended with an error."""

    run_id: RunId = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    reason: Annotated[Text | None, Meta(description="why, where no error tells")] = None
    agent: Agent = None
    native: Native = None


class RunCancelled(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run was ended from outside."""

    run_id: RunId = None
    reason: Annotated[Text | None, Meta(description="who or what ended it")] = None
    error: Annotated[Error | None, Meta(description="the error that came with it")] = None
    agent: Agent = None
    native: Native = None


_ERROR = {"type": "TimeoutError", "message": "the archive did not answer"}

SCHEMAS: tuple[Schema, ...] = (
    schema(
        "execution.run_started",
        RunStarted,
        {
            "name": "triage",
            "run_id": "run-7",
            "parent_run_id": "run-6",
            "user": "odile",
            "session": "s-12",
            "tags": ["support", "lamps"],
            "version": "2.1.0",
            "environment": "production",
            "input": "My lamp came broken.",
        },
    ),
    schema(
        "execution.run_resumed",
        RunResumed,
        {"name": "triage", "run_id": "run-7", "reason": "the manager answered"},
    ),
    schema("execution.run_paused", RunPaused, {"run_id": "run-7", "reason": "waits for the manager"}),
    schema(
        "execution.run_completed", RunCompleted, {"run_id": "run-7", "output": "A new glass is on its way."}
    ),
    schema("execution.run_failed", RunFailed, {"run_id": "run-7", "error": _ERROR}),
    schema(
        "execution.run_cancelled", RunCancelled, {"run_id": "run-7", "reason": "the user closed the window"}
    ),
)
