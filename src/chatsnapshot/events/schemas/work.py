"""Payloads of what a run does and makes: state changes, outputs, artifacts, retrievals, memory."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Agent,
    Count,
    DurationNs,
    Error,
    Id,
    Items,
    Name,
    Native,
    RunId,
    Text,
)

__all__ = ["SCHEMAS", "Artifact", "Memory", "Output", "Retrieval", "StateChange"]


class StateChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A step, node, agent or variable changed."""

    name: Annotated[Name | None, Meta(description="what changed, or what the change is called")] = None
    node: Annotated[Name | None, Meta(description="the node of the graph that changed")] = None
    step: Annotated[
        Name | None, Meta(description="the step that changed; a number counts from the runtime's start")
    ] = None
    key: Annotated[Name | None, Meta(description="the variable that changed")] = None
    from_: Annotated[Any, Meta(description="the state before")] = msgspec.field(default=None, name="from")
    to: Annotated[Any, Meta(description="the state after")] = None
    old: Annotated[Any, Meta(description="as `from`")] = None
    previous: Annotated[Any, Meta(description="as `from`")] = None
    new: Annotated[Any, Meta(description="as `to`")] = None
    state: Annotated[Any, Meta(description="as `to`")] = None
    status: Annotated[Any, Meta(description="as `to`")] = None
    value: Annotated[Any, Meta(description="as `to`: what was given instead of an object")] = None
    reason: Annotated[Text | None, Meta(description="why")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Output(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run produced a result, its last one or one on the way."""

    output: Annotated[Any, Meta(description="the result")] = None
    name: Annotated[Name | None, Meta(description="what the result is called")] = None
    content: Annotated[Any, Meta(description="as `output`")] = None
    text: Annotated[Any, Meta(description="as `output`")] = None
    result: Annotated[Any, Meta(description="as `output`")] = None
    message: Annotated[Any, Meta(description="as `output`")] = None
    value: Annotated[Any, Meta(description="as `output`: what was given instead of an object")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Artifact(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run produced a file or a document."""

    name: Annotated[Name | None, Meta(description="name of the file or document")] = None
    artifact_id: Annotated[Id | None, Meta(description="its id, the same in all its versions")] = None
    version: Annotated[Id | None, Meta(description="which version this is")] = None
    title: Annotated[Text | None, Meta(description="its title, for people")] = None
    uri: Annotated[Text | None, Meta(description="where it is")] = None
    path: Annotated[Text | None, Meta(description="where it is, in a file system")] = None
    mime_type: Annotated[Text | None, Meta(description="its media type")] = None
    bytes: Annotated[Count | None, Meta(description="its size", extra={"unit": "bytes"})] = None
    digest: Annotated[Text | None, Meta(description="its digest, such as `sha256:…`")] = None
    content: Annotated[Any, Meta(description="the content itself; large ones are stored as blobs")] = None
    url: Annotated[Text | None, Meta(description="as `uri`")] = None
    media_type: Annotated[Text | None, Meta(description="as `mime_type`")] = None
    size: Annotated[Count | None, Meta(description="as `bytes`")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Retrieval(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Documents were searched and found."""

    query: Annotated[Any, Meta(description="what was searched for")] = None
    name: Annotated[Name | None, Meta(description="the index, store or tool that was searched")] = None
    documents: Annotated[
        Items | None,
        Meta(description="what was found, best first, each with `id`, `score`, `content` as known"),
    ] = None
    count: Annotated[Count | None, Meta(description="how many were found")] = None
    duration_ns: DurationNs = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    store: Annotated[Name | None, Meta(description="as `name`")] = None
    index: Annotated[Name | None, Meta(description="as `name`")] = None
    results: Annotated[Items | None, Meta(description="as `documents`")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Memory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something was remembered, recalled, changed or forgotten."""

    operation: Annotated[
        Text | None, Meta(description="what was done: read, write, update, delete, search")
    ] = None
    key: Annotated[Name | None, Meta(description="under which key")] = None
    query: Annotated[Any, Meta(description="what was looked for")] = None
    content: Annotated[Any, Meta(description="what is remembered")] = None
    value: Annotated[Any, Meta(description="as `content`")] = None
    store: Annotated[Name | None, Meta(description="which memory")] = None
    user: Annotated[Name | None, Meta(description="whose memory")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


SCHEMAS: tuple[Schema, ...] = (
    schema(
        "execution.state_change",
        StateChange,
        {"name": "desk", "from": "waiting", "to": "working", "reason": "a letter came"},
        (
            "name",
            "node",
            "step",
            "key",
            "agent",
            "from",
            "to",
            "old",
            "previous",
            "new",
            "state",
            "status",
            "value",
        ),
    ),
    schema(
        "execution.output",
        Output,
        {"name": "advice", "output": "Send a new glass by Saturday."},
        ("output", "content", "text", "value", "result", "message"),
    ),
    schema(
        "execution.artifact",
        Artifact,
        {
            "name": "label.pdf",
            "uri": "https://files.example/label.pdf",
            "mime_type": "application/pdf",
            "bytes": 20_480,
            "version": 1,
        },
        ("name", "title", "uri", "url", "path", "artifact_id", "content"),
    ),
    schema(
        "execution.retrieval",
        Retrieval,
        {
            "name": "house rules",
            "query": "lamp broken on the way",
            "documents": [
                {"id": "rule-12", "score": 0.83, "content": "Broken on the way: a new part at once."}
            ],
            "count": 1,
            "duration_ns": 9_300_000,
        },
        ("query", "name", "documents", "store", "index", "results"),
    ),
    schema(
        "execution.memory",
        Memory,
        {"operation": "write", "key": "odile", "content": "Customer since the first winter."},
        ("operation", "key", "content", "value", "query"),
    ),
)
