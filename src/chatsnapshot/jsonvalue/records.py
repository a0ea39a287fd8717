"""Owns the rules for objects with fields: dataclasses, attrs, msgspec structs, pydantic models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.jsonvalue.names import class_name, lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatsnapshot.jsonvalue.walk import Frame, Walk

    Handler = Callable[[Walk, Any, Frame], Any]

__all__ = ["BY_CLASS", "BY_MARKER", "BY_NAME"]


_OWN_OUTPUT = ("field_serializers", "model_serializers", "computed_fields")


class _Unreadable:
    """Stands for a field whose reading raised."""

    __slots__ = ("text",)

    def __init__(self, error: Exception) -> None:
        self.text = f"reading raised {class_name(type(error))}"

    def __repr__(self) -> str:
        return f"<{self.text}>"


def read(value: Any, names: Iterable[str]) -> list[tuple[str, Any]]:
    """The fields of an object that are set; one that raises is marked and the others are kept."""
    pairs: list[tuple[str, Any]] = []
    for name in names:
        try:
            found = getattr(value, name)
        except AttributeError:
            continue
        except Exception as error:
            found = _Unreadable(error)
        if found is not msgspec.UNSET:
            pairs.append((name, found))
    return pairs


def data_class(walk: Walk, value: Any, frame: Frame) -> Any:
    """A dataclass: all its fields."""
    fields = lookup(type(value), "__dataclass_fields__")
    names = [name for name, field in fields.items() if field._field_type.name == "_FIELD"]  # no ClassVar
    return walk.record(read(value, names), frame)


def attrs_class(walk: Walk, value: Any, frame: Frame) -> Any:
    """An attrs class: all its attributes."""
    return walk.record(read(value, [field.name for field in lookup(type(value), "__attrs_attrs__")]), frame)


def struct(walk: Walk, value: msgspec.Struct, frame: Frame) -> Any:
    """A msgspec Struct: all its fields that are set."""
    return walk.record(read(value, type(value).__struct_fields__), frame)


def pydantic_model(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pydantic v2 model: its fields as they are, without those declared ``exclude=True``.

    Where the class has serializers or computed fields of its own, what they give is taken instead.
    """
    cls = type(value)
    extras = lookup(cls, "__pydantic_decorators__")
    if any(getattr(extras, name, None) for name in _OWN_OUTPUT):
        try:
            return dumped(walk, value, frame)
        except Exception:
            pass  # a serializer that fails must not cost the fields
    fields = lookup(cls, "__pydantic_fields__") or lookup(cls, "model_fields")
    if type(fields) is not dict:
        return dumped(walk, value, frame)
    held = object.__getattribute__(value, "__dict__")
    if lookup(cls, "__pydantic_root_model__") is True and "root" in held:
        return walk.instead(held["root"], frame)
    shown = [name for name, field in fields.items() if name in held and field.exclude is not True]
    pairs = [(name, held[name]) for name in shown]
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:
        extra = None
    if type(extra) is dict:
        pairs.extend(extra.items())
    return walk.record(pairs, frame)


def pydantic_v1_model(walk: Walk, value: Any, frame: Frame) -> Any:
    """A model in the style of pydantic v1: its fields as they are, else what ``dict()`` gives."""
    fields = lookup(type(value), "__fields__")
    held = object.__getattribute__(value, "__dict__")
    if type(fields) is not dict or type(held) is not dict:
        return _given(walk, value.dict(), frame)
    pairs = []
    for name, item in held.items():
        declared = getattr(fields.get(name), "field_info", None)
        if getattr(declared, "exclude", None) is not True:
            pairs.append((name, item))
    return walk.record(pairs, frame)


def dumped(walk: Walk, value: Any, frame: Frame) -> Any:
    """An object with ``model_dump``: what that gives in Python form."""
    try:
        found = value.model_dump(mode="python", warnings=False)
    except TypeError:
        found = value.model_dump()
    return _given(walk, found, frame)


def _given(walk: Walk, found: Any, frame: Frame) -> Any:
    if isinstance(found, dict):
        return walk.record(list(dict.items(found)), frame)
    return walk.instead(found, frame)


BY_CLASS: tuple[tuple[type, Handler], ...] = ((msgspec.Struct, struct),)

BY_NAME: dict[tuple[str, str], Handler] = {
    ("pydantic.main", "BaseModel"): pydantic_model,
    ("pydantic.v1.main", "BaseModel"): pydantic_v1_model,
}

BY_MARKER: tuple[tuple[str, Handler], ...] = (
    ("__dataclass_fields__", data_class),
    ("__attrs_attrs__", attrs_class),
    ("model_dump", dumped),
    ("__fields__", pydantic_v1_model),
)
