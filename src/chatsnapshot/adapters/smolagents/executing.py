"""What stands around the tools of an agent: those that a model asks for, and those that the model's code calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from chatsnapshot.adapters.smolagents.calls import PLACE, Call
from chatsnapshot.adapters.smolagents.items import is_own
from chatsnapshot.adapters.smolagents.tools import Asked

__all__ = ["around_agent", "around_execute", "around_process", "around_tool"]


def around_process(function: Any) -> Any:
    """Around ``process_tool_calls``: here it is known what the model asks for."""

    @functools.wraps(function)
    def process_tool_calls(self: Any, chat_message: Any, *args: Any, **kwargs: Any) -> Any:
        place = PLACE.get()
        if place is not None and not place.busy and place.call.agent is self:
            place.call.asks_tools(chat_message)
        return function(self, chat_message, *args, **kwargs)

    return process_tool_calls


def around_execute(function: Any) -> Any:
    """Around ``execute_tool_call``, which runs in threads where there are several."""

    @functools.wraps(function)
    def execute_tool_call(self: Any, tool_name: Any, arguments: Any, *args: Any, **kwargs: Any) -> Any:
        place = PLACE.get()
        call = place.call if place is not None and not place.busy and place.call.agent is self else None
        asked = call.tools.claim(tool_name, arguments) if call is not None else None
        if call is None or asked is None:
            return function(self, tool_name, arguments, *args, **kwargs)
        tool = getattr(self, "tools", {}).get(tool_name)
        execute = functools.partial(function, self, tool_name, arguments, *args, **kwargs)
        return _executed(call, asked, tool, execute, call.tools.ended)

    return execute_tool_call


def around_tool(function: Any) -> Any:
    """Around ``Tool.__call__``: a tool that code calls."""

    @functools.wraps(function)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = PLACE.get()
        if place is None or not place.in_code or is_own(self, "FinalAnswerTool"):
            return function(self, *args, **kwargs)
        named = {name: value for name, value in kwargs.items() if name != "sanitize_inputs_outputs"}
        given = {**_by_name(getattr(self, "inputs", {}), args), **named}
        return _from_code(place.call, self, given, functools.partial(function, self, *args, **kwargs))

    return __call__


def around_agent(function: Any) -> Any:
    """Around ``MultiStepAgent.__call__``: an agent that code calls."""

    @functools.wraps(function)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = PLACE.get()
        if place is None or not place.in_code:
            return function(self, *args, **kwargs)
        given = {**_by_name({"task": None}, args), **kwargs}
        return _from_code(place.call, self, given, functools.partial(function, self, *args, **kwargs))

    return __call__


def _by_name(inputs: Mapping[str, Any], args: tuple[Any, ...]) -> dict[str, Any]:
    names = [*inputs, *(f"argument_{number}" for number in range(len(inputs), len(args)))]
    return dict(zip(names, args, strict=False))


def _from_code(call: Call, tool: Any, given: dict[str, Any], execute: Callable[[], Any]) -> Any:
    name = str(getattr(tool, "name", None) or type(tool).__name__)
    asked = call.tools.call_in_code(name, given)
    return execute() if asked is None else _executed(call, asked, tool, execute, call.tools.ended_in_code)


def _executed(
    call: Call,
    asked: Asked,
    tool: Any,
    execute: Callable[[], Any],
    ended: Callable[[Asked, Any, BaseException | None], None],
) -> Any:
    """Execute a tool inside of its call; it may be one that asks a person."""
    person = _asks_a_person(tool)
    if person:
        call.tools.asks_person(asked)
    try:
        with call.inside(asked.call_id):
            result = execute()
    except BaseException as error:
        if person:
            call.tools.person_said_nothing(asked)
        ended(asked, None, error)
        raise
    if person:
        call.tools.person_said(asked, result)
    ended(asked, result, None)
    return result


def _asks_a_person(tool: Any) -> bool:
    from smolagents import UserInputTool

    return isinstance(tool, UserInputTool) or getattr(tool, "name", None) == "user_input"
