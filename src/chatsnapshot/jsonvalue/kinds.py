"""Owns the rules for the values of Python and its standard library: numbers, text, times, containers."""

from __future__ import annotations

import collections
import datetime
import enum
import types
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from chatsnapshot.jsonvalue.names import class_name, lookup

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatsnapshot.jsonvalue.walk import Frame, Walk

    Handler = Callable[[Walk, Any, Frame], Any]

__all__ = ["BY_CLASS", "BY_NAME", "FIRST", "by_interface"]

ITEMS_READ_MAX = 1_000_000
"""Items taken from a mapping or sequence whose iteration is foreign code and may never end."""


def same(walk: Walk, value: Any, frame: Frame) -> Any:
    """None and booleans are JSON already."""
    return value


def integer(walk: Walk, value: int, frame: Frame) -> Any:
    """A number within 64 bits, else a tag with its digits; of a subclass, the number."""
    return walk.integer(int.__int__(value), frame)


def real(walk: Walk, value: float, frame: Frame) -> Any:
    """A number when finite, else a tag; of a subclass, the number."""
    value = float.__float__(value)
    if value - value == 0.0:
        return value
    name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return walk.tag("float", frame, {"value": name})


def text(walk: Walk, value: str, frame: Frame) -> Any:
    """Text, NUL included; of a subclass, the text."""
    return walk.text(str.__str__(value), frame)


def binary(walk: Walk, value: Any, frame: Frame) -> Any:
    """bytes, bytearray and memoryview as their bytes."""
    return walk.data(bytes(memoryview(value)), frame)


def array(walk: Walk, value: Any, frame: Frame) -> Any:
    """An array.array as its numbers."""
    return walk.tagged("array", frame, value.tolist(), {"class": "array.array", "dtype": value.typecode})


def sequence(walk: Walk, value: list[Any], frame: Frame) -> Any:
    """A list, also of a subclass."""
    return walk.items([*list.__iter__(value)], frame)


def view(walk: Walk, value: Any, frame: Frame) -> Any:
    """The keys, values or items of a dict as a list."""
    return walk.items(list(value), frame)


def dictionary(walk: Walk, value: dict[Any, Any], frame: Frame) -> Any:
    """A dict, also of a subclass, in its own order."""
    return walk.mapping(list(dict.items(value)), frame)


def ordered(walk: Walk, value: collections.OrderedDict[Any, Any], frame: Frame) -> Any:
    """An OrderedDict keeps an order of its own, apart from dict's."""
    return walk.mapping(list(collections.OrderedDict.items(value)), frame)


def foreign_mapping(walk: Walk, value: Any, frame: Frame) -> Any:
    """Any other mapping, through its own items."""
    pairs = [(key, item) for key, item in islice(iter(value.items()), ITEMS_READ_MAX + 1)]
    if len(pairs) > ITEMS_READ_MAX:
        return walk.cut(frame, {"kind": "values", "class": class_name(type(value))})
    return walk.mapping(pairs, frame)


def foreign_sequence(walk: Walk, value: Any, frame: Frame) -> Any:
    """Any other sequence, as a list."""
    found = list(islice(iter(value), ITEMS_READ_MAX + 1))
    if len(found) > ITEMS_READ_MAX:
        return walk.cut(frame, {"kind": "values", "class": class_name(type(value))})
    return walk.items(found, frame)


def tuple_(walk: Walk, value: tuple[Any, ...], frame: Frame) -> Any:
    """A tuple; a named tuple is an object of its fields."""
    values = [*tuple.__iter__(value)]
    names = lookup(type(value), "_fields")
    if type(names) is tuple and len(names) == len(values) and all(type(name) is str for name in names):
        return walk.record(list(zip(names, values, strict=True)), frame)
    return walk.tagged("tuple", frame, values)


def set_(walk: Walk, value: set[Any], frame: Frame) -> Any:
    """A set, its members in an order that does not depend on hashes."""
    return walk.members("set", [*set.__iter__(value)], frame)


def frozenset_(walk: Walk, value: frozenset[Any], frame: Frame) -> Any:
    """A frozenset, as a set."""
    return walk.members("frozenset", [*frozenset.__iter__(value)], frame)


def deque(walk: Walk, value: collections.deque[Any], frame: Frame) -> Any:
    """A deque with its bound."""
    bound = collections.deque.maxlen.__get__(value)
    return walk.tagged("deque", frame, [*collections.deque.__iter__(value)], {"maxlen": bound})


def enumeration(walk: Walk, value: enum.Enum, frame: Frame) -> Any:
    """A member of an Enum: class, name and value."""
    name = object.__getattribute__(value, "_name_")
    members = {"class": class_name(type(value)), "name": str.__str__(name) if isinstance(name, str) else None}
    return walk.tagged("enum", frame, object.__getattribute__(value, "_value_"), members)


def moment(walk: Walk, value: datetime.datetime, frame: Frame) -> Any:
    """A datetime in ISO 8601, with the key of its zone where it has one."""
    members: dict[str, Any] = {"value": datetime.datetime.isoformat(value)}
    zone = datetime.datetime.tzinfo.__get__(value)
    if zone is not None and class_name(type(zone)) == "zoneinfo.ZoneInfo" and type(zone.key) is str:
        members["zone"] = zone.key
    if datetime.datetime.fold.__get__(value):
        members["fold"] = 1
    return walk.tag("datetime", frame, members)


def day(walk: Walk, value: datetime.date, frame: Frame) -> Any:
    """A date in ISO 8601."""
    return walk.tag("date", frame, {"value": datetime.date.isoformat(value)})


def time_of_day(walk: Walk, value: datetime.time, frame: Frame) -> Any:
    """A time in ISO 8601."""
    fold = {"fold": 1} if datetime.time.fold.__get__(value) else {}
    return walk.tag("time", frame, {"value": datetime.time.isoformat(value), **fold})


def duration(walk: Walk, value: datetime.timedelta, frame: Frame) -> Any:
    """A timedelta as exact decimal seconds."""
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return walk.tag("timedelta", frame, {"value": seconds_text(micros, 6)})


def seconds_text(units: int, digits: int) -> str:
    """Decimal seconds of a count of 10^-digits seconds."""
    whole, part = divmod(abs(units), 10**digits)
    return f"{'-' if units < 0 else ''}{whole}.{part:0{digits}d}"


def timezone(walk: Walk, value: datetime.timezone, frame: Frame) -> Any:
    """A fixed offset, with its name."""
    offset = datetime.timezone.utcoffset(value, None)
    micros = (offset.days * 86_400 + offset.seconds) * 1_000_000 + offset.microseconds
    name = datetime.timezone.tzname(value, None)
    return walk.tagged("timezone", frame, name, {"seconds": seconds_text(micros, 6)})


def zone(walk: Walk, value: Any, frame: Frame) -> Any:
    """A ZoneInfo by its key; without a key it is an unknown object."""
    return walk.tagged("zone", frame, value.key) if value.key else walk.lost(value, frame)


def written(name: str) -> Handler:
    """A rule for classes whose ``str`` says everything."""

    def rule(walk: Walk, value: Any, frame: Frame) -> Any:
        return walk.tagged(name, frame, str.__str__(str(value)))

    return rule


def path(walk: Walk, value: Any, frame: Frame) -> Any:
    """A path as text; marked where it is a Windows path."""
    windows = any(base.__name__ == "PureWindowsPath" for base in type(value).__mro__)
    return walk.tagged("path", frame, str.__str__(str(value)), {"flavour": "windows"} if windows else None)


def decimal(walk: Walk, value: Any, frame: Frame) -> Any:
    """A Decimal with all its digits."""
    from decimal import Decimal

    return walk.tagged("decimal", frame, Decimal.__str__(value))


def fraction(walk: Walk, value: Any, frame: Frame) -> Any:
    """A Fraction as numerator and denominator."""
    return walk.tagged("fraction", frame, [value.numerator, value.denominator])


def complex_(walk: Walk, value: complex, frame: Frame) -> Any:
    """A complex number as its real and imaginary part."""
    return walk.tagged("complex", frame, [complex.real.__get__(value), complex.imag.__get__(value)])


def range_(walk: Walk, value: range, frame: Frame) -> Any:
    """A range as start, stop and step."""
    return walk.tagged("range", frame, [value.start, value.stop, value.step])


def address(walk: Walk, value: Any, frame: Frame) -> Any:
    """An IP address, interface or network."""
    name = next(base.__name__ for base in type(value).__mro__ if base.__module__ == "ipaddress")
    return walk.tag("ip", frame, {"class": name, "value": str.__str__(str(value))})


def pattern(walk: Walk, value: Any, frame: Frame) -> Any:
    """A compiled regular expression: pattern and flags."""
    return walk.tagged("regex", frame, value.pattern, {"flags": value.flags})


def user_string(walk: Walk, value: Any, frame: Frame) -> Any:
    """A UserString is its text."""
    return walk.instead(value.data, frame)


def namespace(walk: Walk, value: types.SimpleNamespace, frame: Frame) -> Any:
    """A SimpleNamespace is an object of its attributes."""
    return walk.record(list(object.__getattribute__(value, "__dict__").items()), frame)


def by_interface(cls: type) -> Handler | None:
    """The rule for mappings and sequences that are classes of their own."""
    if issubclass(cls, Mapping):
        return foreign_mapping
    if issubclass(cls, Sequence):
        return foreign_sequence
    return None


FIRST: tuple[tuple[type, Handler], ...] = ((enum.Enum, enumeration),)

BY_CLASS: tuple[tuple[type, Handler], ...] = (
    (type(None), same),
    (bool, same),
    (int, integer),
    (float, real),
    (str, text),
    (bytes, binary),
    (bytearray, binary),
    (memoryview, binary),
    (list, sequence),
    (dict, dictionary),
    (collections.OrderedDict, ordered),
    (type({}.keys()), view),
    (type({}.values()), view),
    (type({}.items()), view),
    (tuple, tuple_),
    (set, set_),
    (frozenset, frozenset_),
    (collections.deque, deque),
    (complex, complex_),
    (range, range_),
    (datetime.datetime, moment),
    (datetime.date, day),
    (datetime.time, time_of_day),
    (datetime.timedelta, duration),
    (datetime.timezone, timezone),
    (types.MappingProxyType, foreign_mapping),
    (types.SimpleNamespace, namespace),
)

BY_NAME: dict[tuple[str, str], Handler] = {
    ("decimal", "Decimal"): decimal,
    ("fractions", "Fraction"): fraction,
    ("uuid", "UUID"): written("uuid"),
    ("pathlib", "PurePath"): path,
    ("pathlib._local", "PurePath"): path,
    ("ipaddress", "IPv4Address"): address,
    ("ipaddress", "IPv6Address"): address,
    ("ipaddress", "IPv4Network"): address,
    ("ipaddress", "IPv6Network"): address,
    ("zoneinfo", "ZoneInfo"): zone,
    ("re", "Pattern"): pattern,
    ("array", "array"): array,
    ("collections", "UserString"): user_string,
}
