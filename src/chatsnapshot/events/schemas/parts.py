"""The types of single fields, and the structs that several payloads share: parts, tools, errors, token counts.

Every type takes what the normaliser reads. :class:`Tag` stands for the tagged objects that the payload encoder makes of
Python values (``{"$type": "decimal", "value": "1.10"}``, docs/values.md). To type checkers the aliases are wider: they
also take the Python values that ``record()`` turns into such JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

__all__ = [
    "Agent",
    "Attempt",
    "CallId",
    "Count",
    "DurationNs",
    "Error",
    "ErrorFacts",
    "ForkedFrom",
    "FunctionRef",
    "Id",
    "Items",
    "Labels",
    "Name",
    "Native",
    "Number",
    "Part",
    "Parts",
    "RunId",
    "Tag",
    "Text",
    "Time",
    "ToolRef",
    "Usage",
]


class Tag(msgspec.Struct, kw_only=True):
    """A tagged object: what the payload encoder makes of a Python value that JSON has no form for."""

    type: Annotated[str, Meta(description="which kind of value this is")] = msgspec.field(name="$type")


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal
    from enum import Enum
    from fractions import Fraction
    from typing import TypeAlias
    from uuid import UUID

    Id: TypeAlias = str | int | UUID | Enum | Tag
    Name: TypeAlias = str | int | UUID | Enum | Mapping[str, Any]
    Text: TypeAlias = str | float | Enum | Mapping[str, Any]
    Time: TypeAlias = str | datetime | Tag
    Number: TypeAlias = float | Decimal | Fraction | Tag
    Count: TypeAlias = float
    Ordinal: TypeAlias = float
    Labels: TypeAlias = str | Sequence[Any] | Mapping[str, Any]
    Items: TypeAlias = Sequence[Any] | Tag
    Parts: TypeAlias = str | Sequence[Any] | Mapping[str, Any]
    Error: TypeAlias = str | bool | BaseException | Mapping[str, Any] | "ErrorFacts"
else:
    Id = str | int | Tag
    Name = str | int | dict[str, Any]
    Text = str | float | dict[str, Any]
    Time = str | Tag
    Number = float | Tag
    # JSON from elsewhere writes whole numbers as 3.0 too.
    Count = Annotated[float, Meta(ge=0, multiple_of=1)]
    Ordinal = Annotated[float, Meta(ge=1, multiple_of=1)]
    Labels = str | list[Any] | dict[str, Any]
    Items = list[Any] | Tag


class ErrorFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error. An exception object is recorded as a tagged object with ``class`` and ``message``, which fits too."""

    type: Annotated[Text | None, Meta(description="class of the error")] = None
    module: Annotated[Text | None, Meta(description="module of that class")] = None
    message: Annotated[Any, Meta(description="what went wrong, for people")] = None
    code: Annotated[Id | None, Meta(description="the error's code, where it has one")] = None
    cause: Annotated[Any, Meta(description="the error that led to this one")] = None


class FunctionRef(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The ``function`` of an OpenAI tool call."""

    name: Annotated[Name | None, Meta(description="name of the tool")] = None
    arguments: Annotated[Any, Meta(description="its arguments, also as JSON text")] = None


class ToolRef(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call or its result as an object: in ``tool``, or one of the ``tool_calls`` of a message."""

    name: Annotated[Name | None, Meta(description="name of the tool")] = None
    tool_name: Annotated[Name | None, Meta(description="as `name`")] = None
    call_id: Annotated[Id | None, Meta(description="id of the call")] = None
    id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    function: Annotated[FunctionRef | str | None, Meta(description="name and arguments, OpenAI's form")] = (
        None
    )
    arguments: Annotated[Any, Meta(description="the arguments, also as JSON text")] = None
    args: Annotated[Any, Meta(description="as `arguments`")] = None
    input: Annotated[Any, Meta(description="as `arguments`")] = None
    result: Annotated[Any, Meta(description="what the tool gave")] = None
    is_error: Annotated[bool | None, Meta(description="whether the tool failed")] = None


class Part(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A part of a message, by the names of the OpenTelemetry GenAI conventions; those of providers are read as well."""

    type: Annotated[
        Text | None,
        Meta(description="text, reasoning, tool_call, tool_call_response, blob, file, uri, or another"),
    ] = None
    content: Annotated[Any, Meta(description="text, thought or bytes of the part")] = None
    text: Annotated[Any, Meta(description="as `content`, of a text")] = None
    id: Annotated[Id | None, Meta(description="id of the tool call")] = None
    name: Annotated[Name | None, Meta(description="name of the tool or file")] = None
    arguments: Annotated[Any, Meta(description="arguments of a tool call")] = None
    result: Annotated[Any, Meta(description="what a tool gave")] = None
    mime_type: Annotated[Text | None, Meta(description="media type of a blob, file or uri")] = None
    modality: Annotated[Text | None, Meta(description="image, audio, video or document")] = None
    uri: Annotated[Text | None, Meta(description="where the content is")] = None
    file_id: Annotated[Id | None, Meta(description="id of a file at the provider")] = None


class ForkedFrom(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where the history of a run comes from that was forked from another."""

    correlation_id: Annotated[Id, Meta(description="correlation of the other run")]
    position: Annotated[int, Meta(ge=1, description="last position taken from it")]


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens of one model call; the names that providers use are read as well."""

    input_tokens: Annotated[
        Count | None, Meta(description="tokens read, as the provider counts them", extra={"unit": "tokens"})
    ] = None
    output_tokens: Annotated[
        Count | None,
        Meta(description="tokens written, as the provider counts them", extra={"unit": "tokens"}),
    ] = None
    total_tokens: Annotated[Count | None, Meta(description="both together", extra={"unit": "tokens"})] = None
    cache_read: Annotated[
        Count | None, Meta(description="tokens of the input read from a cache", extra={"unit": "tokens"})
    ] = None
    cache_write: Annotated[
        Count | None, Meta(description="tokens of the input written to a cache", extra={"unit": "tokens"})
    ] = None
    reasoning: Annotated[
        Count | None, Meta(description="tokens of the output spent on reasoning", extra={"unit": "tokens"})
    ] = None
    prompt_tokens: Annotated[Count | None, Meta(description="as `input_tokens`")] = None
    completion_tokens: Annotated[Count | None, Meta(description="as `output_tokens`")] = None
    cache_read_input_tokens: Annotated[Count | None, Meta(description="as `cache_read`")] = None
    cache_read_tokens: Annotated[Count | None, Meta(description="as `cache_read`")] = None
    cached_tokens: Annotated[Count | None, Meta(description="as `cache_read`")] = None
    cache_creation_input_tokens: Annotated[Count | None, Meta(description="as `cache_write`")] = None
    cache_write_tokens: Annotated[Count | None, Meta(description="as `cache_write`")] = None
    reasoning_tokens: Annotated[Count | None, Meta(description="as `reasoning`")] = None
    thinking_tokens: Annotated[Count | None, Meta(description="as `reasoning`")] = None


if not TYPE_CHECKING:
    Error = str | bool | ErrorFacts
    Parts = str | list[str | Part | None] | Part

# Fields that many payloads have.
RunId = Annotated[
    Id | None, Meta(description="id of the run that the event belongs to (default: the correlation id)")
]
Agent = Annotated[Name | None, Meta(description="name of the agent that acted")]
CallId = Annotated[Id | None, Meta(description="id that a call and its answer share")]
Attempt = Annotated[Ordinal | None, Meta(description="which try this is, from 1")]
DurationNs = Annotated[Count | None, Meta(description="how long it took", extra={"unit": "ns"})]
Native = Annotated[Any, Meta(description="the event as its runtime has it, with that runtime's own ids")]
