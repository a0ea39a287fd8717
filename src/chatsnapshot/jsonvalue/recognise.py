"""Owns the choice of the rule for a value, from its type alone: no attribute of the value is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from chatsnapshot.jsonvalue import foreign, kinds, opaque, records
from chatsnapshot.jsonvalue.names import _members, _qualname, module_name, mro

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatsnapshot.jsonvalue.walk import Frame, Walk

    Handler = Callable[[Walk, Any, Frame], Any]

__all__ = ["recognise"]

# By id, not by class: to hash a class may run its metaclass. These classes live as long as the process.
_BY_CLASS: dict[int, Handler] = {
    id(cls): rule for cls, rule in (*kinds.BY_CLASS, *records.BY_CLASS, *opaque.BY_CLASS)
}
_BY_NAME: dict[tuple[str, str], Handler] = {
    **kinds.BY_NAME,
    **records.BY_NAME,
    **foreign.BY_NAME,
    **opaque.BY_NAME,
}
_FIRST = {id(cls): rule for cls, rule in (*kinds.FIRST, *opaque.FIRST)}


def recognise(cls: type) -> Handler:
    """The rule for values of this class; :func:`opaque.unknown` when there is none."""
    rule = _BY_CLASS.get(id(cls))
    if rule is not None:
        return rule
    bases = mro(cls)
    for base in bases:
        rule = _FIRST.get(id(base))
        if rule is not None:
            return rule
    for base in bases:
        rule = _BY_CLASS.get(id(base)) or _BY_NAME.get((module_name(base), _qualname(base)))
        if rule is not None and (id(base) in _BY_CLASS or _is_really(base)):
            return rule
    for base in bases:
        members = _members(base)
        for marker, rule in records.BY_MARKER:
            if marker in members:
                return rule
    return kinds.by_interface(cls) or opaque.unknown


def _is_really(cls: type) -> bool:
    """Whether the module that a class says it is from holds this very class under that name."""
    module = sys.modules.get(module_name(cls))
    if module is None:
        return False
    return object.__getattribute__(module, "__dict__").get(_qualname(cls)) is cls
