"""Every row of the tables in docs/values.md: what is stored, what reads back, what is shown."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import importlib
import io
import ipaddress
import json
import math
import pathlib
import re
import threading
import types
import unittest.mock
import uuid
import zoneinfo
from typing import Any

import msgspec
import pytest

from chatsnapshot.jsonvalue import decode, encode, plain

DOC = pathlib.Path(__file__).parents[2] / "docs" / "values.md"
LIBRARIES = ("numpy", "pandas", "pydantic", "attrs", "google.protobuf.struct_pb2", "pyarrow", "polars")


class Phase(enum.Enum):
    QUERY = "query"


class Level(enum.IntEnum):
    HIGH = 3


class Role(str, enum.Enum):
    USER = "user"


class Access(enum.Flag):
    READ = 1


class Count(int): ...


class Ratio(float): ...


class Text(str): ...


class Thing: ...


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Step(msgspec.Struct):
    name: str
    took: float


Pair = collections.namedtuple("Pair", "left right")


class Handmade(collections.abc.Mapping[str, int]):
    def __init__(self, held: dict[str, int]) -> None:
        self.held = held

    def __getitem__(self, key: str) -> int:
        return self.held[key]

    def __iter__(self) -> Any:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def function() -> None: ...


def numbers() -> Any:
    yield 1


def caused() -> Exception:
    error = RuntimeError("tool failed")
    error.__cause__ = KeyError("city")
    return error


def cycle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["me"] = found
    return found


for _cls in (Phase, Level, Role, Access, Count, Ratio, Text, Thing, Point, Step, Pair, Handmade, function):
    _cls.__module__ = "app"


def namespace() -> dict[str, Any]:
    """What the examples may use; a library that is not installed is left out."""
    names = dict(globals())
    for library in LIBRARIES:
        try:
            names[library.split(".")[-1]] = importlib.import_module(library)
        except ImportError:
            continue
    if "pydantic" in names:
        names |= _pydantic(names["pydantic"])
    if "attrs" in names:
        names["Tool"] = names["attrs"].make_class("Tool", ["name"])
        names["Tool"].__module__ = "app"
    return names


def _pydantic(pydantic: Any) -> dict[str, Any]:
    usage = pydantic.create_model("Usage", tokens=(int, ...))
    reply = pydantic.create_model("Reply", usage=(usage, ...), key=(str, pydantic.Field(exclude=True)))
    names = pydantic.RootModel[list[str]]
    for cls in (usage, reply):
        cls.__module__ = "app"
    return {"Usage": usage, "Reply": reply, "Names": names}


def rows() -> list[Any]:
    found = []
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 5 and cells[1].startswith("`"):
            found.append(pytest.param(*(cell.strip("`") for cell in cells[1:]), id=cells[0]))
    return found


def equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) in (list, tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if type(left) is dict:
        return list(left) == list(right) and all(map(equal, left.values(), right.values()))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, (set, frozenset)):  # the order of their repr depends on how they were built
        return bool(left == right)
    return bool(left == right) and repr(left) == repr(right)


@pytest.mark.parametrize(("example", "stored", "back", "shown"), rows())
def test_a_row_of_the_table_is_what_happens(example: str, stored: str, back: str, shown: str) -> None:
    names = namespace()
    try:
        value = eval(example, names)
    except NameError as error:
        pytest.skip(f"not installed: {error.name}")
    written = encode({"v": value})
    assert written.json.decode() == '{"v":' + stored + "}"
    expected = value if back == "same" else json.loads(stored) if back == "as stored" else eval(back, names)
    assert equal(decode(written.json)["v"], expected)
    assert plain(written.json)["v"] == json.loads(shown)
    assert written.blobs == ()


@pytest.mark.parametrize(("example", "stored", "back", "shown"), rows())
def test_a_row_is_the_same_in_a_payload_of_two_megabytes(
    example: str, stored: str, back: str, shown: str
) -> None:
    try:
        value = eval(example, namespace())
    except NameError as error:
        pytest.skip(f"not installed: {error.name}")
    written = encode({"v": value, "padding": ["x" * 1_000] * 2_000}).json
    assert len(written) > 2_000_000
    assert written.startswith(b'{"v":' + stored.encode() + b',"padding":["xxx')


@pytest.mark.parametrize(("example", "stored", "back", "shown"), rows())
def test_a_row_is_the_same_as_a_payload_of_its_own(example: str, stored: str, back: str, shown: str) -> None:
    try:
        value = eval(example, namespace())
    except NameError as error:
        pytest.skip(f"not installed: {error.name}")
    is_object = stored.startswith("{") and not re.match(r'\{"\$type":"(?!map")', stored)
    assert encode(value).json.decode() == (stored if is_object else '{"value":' + stored + "}")


def test_the_tables_are_read() -> None:
    assert len(rows()) > 80


_USED_BY_EXAMPLES = (
    array, datetime, decimal, fractions, io, ipaddress, threading, types, unittest.mock, uuid, zoneinfo,
)  # fmt: skip
