"""Objects that raise, lie, loop or change while they are read: the event survives with a mark in their place."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import enum
import gc
import itertools
import sys
import threading
import unittest.mock
import warnings
import weakref
from typing import Any

import pytest

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import decode, encode, plain


class Boom(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def boom(*_: Any, **__: Any) -> Any:
    raise Boom


class Hostile:
    """Raises whatever is asked of it."""

    __repr__ = __str__ = __iter__ = __len__ = __bool__ = __eq__ = __getattr__ = boom
    __hash__ = boom  # type: ignore[assignment]
    __class__ = property(boom)  # type: ignore[assignment]
    __dict__ = property(boom)  # type: ignore[assignment]
    model_dump = dict = items = keys = to_dict = boom


class HostileMeta(type):
    __hash__ = __eq__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = boom  # type: ignore[assignment]


class OfHostileMeta(metaclass=HostileMeta):
    pass


class NoStr(str):
    __str__ = __repr__ = __eq__ = __len__ = encode = startswith = isascii = boom
    __hash__ = str.__hash__


class NoDict(collections.UserDict[str, int]):
    def items(self) -> Any:
        yield "a", 1
        raise Boom


class EndlessMapping(collections.abc.Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Any:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 3


class Deeper(collections.abc.Mapping[str, Any]):
    """Each value is a new mapping of the same kind."""

    def __getitem__(self, key: str) -> Any:
        return Deeper()

    def __iter__(self) -> Any:
        return iter(["down"])

    def __len__(self) -> int:
        return 1


@dataclasses.dataclass
class HalfReadable:
    good: int
    bad: Any = dataclasses.field(default=None)

    def __getattribute__(self, name: str) -> Any:
        if name == "bad":
            raise Boom
        return object.__getattribute__(self, name)


class Shared:
    pass


def recursive_repr() -> Any:
    class Endless:
        def __repr__(self) -> str:
            return repr(self)

    return Endless()


HOSTILE = {
    "hostile": lambda: Hostile(),
    "hostile class": lambda: Hostile,
    "instance of a hostile metaclass": lambda: OfHostileMeta(),
    "class of a hostile metaclass": lambda: OfHostileMeta,
    "exception without text": lambda: Boom(Boom()),
    "mapping that raises midway": lambda: NoDict(a=1),
    "recursive repr": recursive_repr,
    "released memoryview": lambda: (view := memoryview(b"a"), view.release())[0],
    "mock": lambda: unittest.mock.MagicMock(),
    "mock with a spec": lambda: unittest.mock.MagicMock(spec=dict),
    "async mock": lambda: unittest.mock.AsyncMock(),
    "endless generator": lambda: itertools.count(),
    "lock": lambda: threading.RLock(),
    "weak proxy": lambda: weakref.proxy(Shared()),
    "frame": lambda: sys._getframe(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_is_marked_and_the_rest_is_kept(name: str, strict_json: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = encode({"before": 1, "bad": HOSTILE[name](), "usage": {"tokens": 3}})
    found = strict_json(written.json)
    assert found["before"] == 1
    assert found["usage"] == {"tokens": 3}
    assert found["bad"]["$type"] in ("object", "class", "exception")
    assert "0x7" not in written.json.decode()
    decode(written.json)
    plain(written.json)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_is_refused_by_path_in_strict_mode(name: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        encode({"a": [1, {"b c": HOSTILE[name]()}]}, strict=True)
    assert caught.value.path == '$.a[1]["b c"]'


def test_a_hostile_string_is_its_text() -> None:
    assert decode(encode({NoStr("k"): NoStr("v")}).json) == {"k": "v"}


def test_hostile_keys_and_members_are_kept_as_pairs() -> None:
    class Key:
        def __eq__(self, other: object) -> bool:
            raise Boom

        def __hash__(self) -> int:
            return 1

    found = decode(encode({"map": {Key(): 1}, "set": {Key()}}).json)
    assert found["map"][0][1] == 1
    assert found["set"][0]["class"].endswith("Key")


def test_a_field_that_raises_does_not_cost_the_others() -> None:
    found = decode(encode(HalfReadable(good=1)).json)
    assert found["good"] == 1
    assert found["bad"]["lossy"] is True
    assert "Boom" in found["bad"]["repr"]


def test_an_endless_mapping_is_cut() -> None:
    assert decode(encode({"m": EndlessMapping(), "n": 1}).json)["m"]["$type"] == "cut"


def test_a_mapping_that_never_ends_downwards_is_cut() -> None:
    assert '"kind":"depth"' in encode(Deeper()).json.decode().replace("\\", "")


def test_generators_and_coroutines_are_not_started() -> None:
    started = []

    def generate() -> Any:
        started.append("generator")
        yield 1

    async def run() -> None:
        started.append("coroutine")

    generator, coroutine, numbers = generate(), run(), iter([1, 2])
    encode({"g": generator, "c": coroutine, "n": numbers})
    assert started == []
    assert next(generator) == 1
    assert list(numbers) == [1, 2]
    asyncio.run(coroutine)


def test_a_base_exception_goes_through() -> None:
    class Interrupted:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode({"x": Interrupted()})


def test_structures_that_grow_when_written_out_stay_bounded() -> None:
    layer: Any = ["x"]
    for _ in range(40):
        layer = [layer, layer]  # 2**40 values when written out
    written = encode({"a": layer, "b": 1})
    assert len(written.json) < 5_000_000
    assert decode(written.json)["b"] == 1


def test_a_dict_that_refers_to_itself_twice_is_two_cycles() -> None:
    found: dict[str, Any] = {}
    found["a"] = found["b"] = found
    stored = decode(encode(found).json)
    assert stored["a"]["$type"] == stored["b"]["$type"] == "cycle"


def test_an_object_held_twice_is_not_a_cycle() -> None:
    part = {"n": [1]}
    assert decode(encode({"a": part, "b": [part, part]}).json) == {"a": part, "b": [part, part]}


def test_changes_after_encoding_change_nothing() -> None:
    raw = bytearray(b"abc")
    value: dict[str, Any] = {"list": [1], "raw": raw, "set": {1}}
    written = encode(value)
    before = bytes(written.json)
    value["list"].append(2)
    raw[0] = 0
    value["set"].add(2)
    value.clear()
    assert written.json == before
    assert decode(written.json) == {"list": [1], "raw": b"abc", "set": {1}}


def test_no_caller_object_is_held() -> None:
    value = Shared()
    seen = weakref.ref(value)
    written = encode({"v": value, "w": [value]})
    del value
    gc.collect()
    assert seen() is None
    assert written.json


def test_a_dict_changed_by_another_thread_is_recorded() -> None:
    value: dict[str, Any] = {f"k{n}": (n,) for n in range(200)}
    stop = threading.Event()

    def change() -> None:
        for n in itertools.count():
            if stop.is_set():
                return
            value[f"x{n % 50}"] = (n,)
            value.pop(f"x{(n + 25) % 50}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            assert decode(encode(value).json)["k0"] == (0,)
    finally:
        stop.set()
        thread.join()


def test_a_caller_near_the_end_of_the_stack_gets_an_event() -> None:
    results = []

    def descend() -> None:
        try:
            descend()
        except RecursionError:
            results.append(None)
            raise

    def at_depth(left: int) -> bytes:
        return encode({"a": [(1,)], "b": {2}}).json if left == 0 else at_depth(left - 1)

    with pytest.raises(RecursionError):
        descend()
    here = len(results)
    for spare in (60, 100, 200):
        found = decode(at_depth(max(here - spare, 1)))
        assert found == {"a": [(1,)], "b": {2}}


def test_an_enum_whose_value_is_odd_is_kept() -> None:
    class Odd(enum.Enum):
        A = (1, {"x"})
        NAN = float("nan")

    found = decode(encode({"a": Odd.A}).json)
    assert found == {"a": (1, {"x"})}


def test_exceptions_keep_chain_notes_group_and_traceback() -> None:
    def fail() -> None:
        try:
            {}["city"]
        except KeyError as error:
            raise RuntimeError("tool failed") from error

    try:
        fail()
    except RuntimeError as error:
        error.__notes__ = ["while asking for the weather"]  # type: ignore[attr-defined]
        found = decode(encode({"e": error}).json)["e"]
    assert found["class"] == "RuntimeError"
    assert found["message"] == "tool failed"
    assert found["notes"] == ["while asking for the weather"]
    assert found["cause"]["class"] == "KeyError"
    assert "in fail" in found["traceback"]


def test_a_long_chain_of_causes_is_cut() -> None:
    error = first = ValueError("0")
    for n in range(100):
        error.__cause__ = ValueError(str(n + 1))
        error = error.__cause__
    text = encode({"e": first}).json.decode()
    assert text.count('"$type":"exception"') == 16
    assert '"kind":"causes"' in text
    assert plain(text.encode()) == {"e": "ValueError: 0"}


def test_an_exception_that_causes_itself_is_a_cycle() -> None:
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert decode(encode({"e": one}).json)["e"]["cause"]["cause"]["$type"] == "cycle"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_the_members_of_an_exception_group_are_kept() -> None:
    group = eval("ExceptionGroup('two', [ValueError('a'), KeyError('b')])")
    members = decode(encode({"e": group}).json)["e"]["exceptions"]
    assert [member["class"] for member in members] == ["ValueError", "KeyError"]
