from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from typing import Any

import msgspec
import pytest

from chatsnapshot.adapters.plain import describe_error, plain


class Colour(enum.Enum):
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    inner: Any = None


class Struct(msgspec.Struct):
    a: int


class Agent:
    name = "triage"


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Hostile:
    @property
    def name(self) -> str:
        raise RuntimeError("no name")


def tool(a: int) -> int:
    return a


MOMENT = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    "value", [None, True, 3, 2**80, 1.5, "text", b"raw", MOMENT, uuid.uuid4(), Colour.BLUE]
)
def test_a_value_with_a_written_rule_passes_through(value: Any) -> None:
    assert plain(value) is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": (1, 2), "b": Point(1, Agent())}, {"a": [1, 2], "b": {"x": 1, "inner": "triage"}}),
        (Struct(4), {"a": 4}),
        (tool, f"{__name__}.tool"),
        (Agent, f"{__name__}.Agent"),
        (Agent(), "triage"),
        ({Agent(): 1}, {"<" + f"{__name__}.Agent object>": 1}),
        (bytearray(b"raw"), b"raw"),
        (Silent(), {"object": f"{__name__}.Silent", "text": f"<{__name__}.Silent>"}),
        (Hostile(), {"object": f"{__name__}.Hostile", "text": f"<{__name__}.Hostile object>"}),
        (ValueError("no"), {"type": "ValueError", "module": "builtins", "message": "no"}),
    ],
)
def test_a_live_object_becomes_data(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_a_copy_shares_nothing_with_the_original() -> None:
    original = {"list": [1], "dict": {"a": [2]}}
    copied = plain(original)
    original["list"].append(9)
    original["dict"]["a"].append(9)
    assert copied == {"list": [1], "dict": {"a": [2]}}


def test_a_cycle_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert plain(loop)["self"]["object"] == "builtins.dict"


def test_very_deep_nesting_ends() -> None:
    deep: Any = "bottom"
    for _ in range(5_000):
        deep = [deep]
    assert isinstance(plain(deep), list)


def test_an_error_tells_its_cause() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise OSError("outer") from inner
    except OSError as error:
        told = describe_error(error)
    assert (told["type"], told["message"]) == ("OSError", "outer")
    assert told["cause"] == {"type": "KeyError", "module": "builtins", "message": "'inner'"}
