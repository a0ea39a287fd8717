"""Payloads of what users see and do: input, display, interaction."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import Name, Native, Text

__all__ = ["SCHEMAS", "InputReceived", "Interaction", "OutputDisplayed"]

_Element = Annotated[Name | None, Meta(description="which field, button or page")]
_User = Annotated[Name | None, Meta(description="which user")]


class InputReceived(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A user gave input."""

    value: Annotated[Any, Meta(description="what was given")] = None
    element: _Element = None
    user: _User = None
    text: Annotated[Any, Meta(description="as `value`")] = None
    content: Annotated[Any, Meta(description="as `value`")] = None
    input: Annotated[Any, Meta(description="as `value`")] = None
    message: Annotated[Any, Meta(description="as `value`")] = None
    native: Native = None


class OutputDisplayed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something was shown to a user."""

    value: Annotated[Any, Meta(description="what was shown")] = None
    element: _Element = None
    user: _User = None
    text: Annotated[Any, Meta(description="as `value`")] = None
    content: Annotated[Any, Meta(description="as `value`")] = None
    output: Annotated[Any, Meta(description="as `value`")] = None
    message: Annotated[Any, Meta(description="as `value`")] = None
    native: Native = None


class Interaction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A user acted on an element."""

    element: _Element = None
    action: Annotated[Text | None, Meta(description="what was done, such as `click` or `select`")] = None
    value: Annotated[Any, Meta(description="what was chosen or entered")] = None
    user: _User = None
    native: Native = None


SCHEMAS: tuple[Schema, ...] = (
    schema(
        "ui.input_received",
        InputReceived,
        {"element": "contact form", "user": "odile", "value": "My lamp came broken."},
        ("value", "text", "content", "input", "message"),
    ),
    schema(
        "ui.output_displayed",
        OutputDisplayed,
        {"element": "letter", "user": "odile", "value": "A new glass is on its way."},
        ("value", "text", "content", "output", "message"),
    ),
    schema(
        "ui.interaction",
        Interaction,
        {"element": "rating", "action": "select", "value": 5, "user": "odile"},
        ("element", "action"),
    ),
)
