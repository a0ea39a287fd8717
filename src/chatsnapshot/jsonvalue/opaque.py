"""Owns the rules for what cannot come back: exceptions, classes, functions, modules, unknown objects."""

from __future__ import annotations

import traceback
import types
from typing import TYPE_CHECKING, Any

from chatsnapshot.jsonvalue.names import class_name, clean, mro, safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatsnapshot.jsonvalue.walk import Frame, Walk

    Handler = Callable[[Walk, Any, Frame], Any]

__all__ = ["BY_CLASS", "BY_NAME", "FIRST", "unknown"]

TRACEBACK_FRAMES_MAX = 20
TRACEBACK_CHARS_MAX = 8_000
CHAIN_MAX = 16
"""Exceptions kept of one chain of causes."""

_traceback = BaseException.__dict__["__traceback__"].__get__
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_suppressed = BaseException.__dict__["__suppress_context__"].__get__
_arguments = BaseException.__dict__["args"].__get__


def exception(walk: Walk, value: BaseException, frame: Frame) -> Any:
    """An exception as a record: class, message, args, notes, traceback text, cause or context, members."""
    cls = type(value)
    above, chain = frame.parent, 0
    while above is not None and isinstance(above.value, BaseException):
        above, chain = above.parent, chain + 1
    if chain >= CHAIN_MAX:
        return walk.cut(frame, {"kind": "causes", "class": class_name(cls)})
    out = walk.tag("exception", frame, {"class": class_name(cls)})
    parts: list[tuple[str, Any]] = [("message", _message(value)), ("args", [*_arguments(value)])]
    details = _own_members(value)
    notes = details.get("__notes__")
    if type(notes) is list and notes:
        parts.append(("notes", list(notes)))
    where = _traceback(value)
    if where is not None:
        parts.append(("traceback", _trace(where)))
    cause, context = _cause(value), _context(value)
    if cause is not None:
        parts.append(("cause", cause))
    elif context is not None and not _suppressed(value):
        parts.append(("context", context))
    if any(base.__name__ == "BaseExceptionGroup" for base in mro(cls)):
        parts.append(("exceptions", list(value.exceptions)))  # type: ignore[attr-defined]
    for name, part in parts:
        walk.put(out, name, part, frame)
    return out


def _own_members(value: BaseException) -> dict[str, Any]:
    found = object.__getattribute__(value, "__dict__")
    return found if type(found) is dict else {}


def _message(value: BaseException) -> str:
    try:
        return str.__str__(str(value))
    except Exception as error:
        return f"<str raised {class_name(type(error))}>"


def _trace(where: types.TracebackType) -> str:
    try:
        text = "".join(traceback.format_tb(where, limit=-TRACEBACK_FRAMES_MAX))
    except Exception as error:
        return f"<traceback could not be read: {class_name(type(error))}>"
    return text if len(text) <= TRACEBACK_CHARS_MAX else "…" + text[-TRACEBACK_CHARS_MAX:]


def class_object(walk: Walk, value: type, frame: Frame) -> Any:
    """A class by its name."""
    return walk.tag("class", frame, {"value": class_name(value)})


def function(walk: Walk, value: Any, frame: Frame) -> Any:
    """A function or method by its name."""
    names = []
    for attribute in ("__module__", "__qualname__"):
        found = getattr(value, attribute, None)
        if isinstance(found, str):
            names.append(clean(found))
    return walk.tag("function", frame, {"value": ".".join(name for name in names if name != "builtins")})


def module(walk: Walk, value: types.ModuleType, frame: Frame) -> Any:
    """A module by its name."""
    name = object.__getattribute__(value, "__dict__").get("__name__")
    return walk.tag("module", frame, {"value": clean(name) if isinstance(name, str) else "?"})


def unknown(walk: Walk, value: Any, frame: Frame) -> Any:
    """Any other object: class and repr, marked lossy. Never iterated, never called, no attribute read."""
    return walk.lost(value, frame, safe_repr(value))


FIRST: tuple[tuple[type, Handler], ...] = ((BaseException, exception), (type, class_object))

BY_CLASS: tuple[tuple[type, Handler], ...] = (
    (types.FunctionType, function),
    (types.BuiltinFunctionType, function),
    (types.MethodType, function),
    (types.ModuleType, module),
)

BY_NAME: dict[tuple[str, str], Handler] = {}
