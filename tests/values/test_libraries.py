"""Values of numpy, pandas, pydantic and protobuf beyond the rows of the table, with the real libraries."""

from __future__ import annotations

import datetime
import enum
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from chatsnapshot.jsonvalue import Encoded, decode, encode


def whole(written: Encoded) -> Any:
    by_digest = {"sha256:" + blob.digest.hex(): blob.data for blob in written.blobs}
    return decode(written.json, blob=lambda ref: by_digest[ref["$blob"]])


def test_no_library_is_imported_to_recognise_its_values() -> None:
    program = (
        "import sys; from chatsnapshot.jsonvalue import encode; encode({'a': object(), 'b': (1,)});"
        "print([n for n in ('numpy', 'pandas', 'pydantic', 'attr', 'google.protobuf', 'asyncio') if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint64", "float32", "float64", ">f8", "float16", "complex64"]
)
def test_a_numpy_array_reads_back_as_nested_lists_at_every_size(dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    for rows in (2, 2_000 if dtype == "complex64" else 20_000):  # each of its numbers has a tag
        array = (numpy.arange(rows * 2) % 7).astype(dtype).reshape(rows, 2)
        written = encode({"a": array, "sliced": array[::-1, :1], "turned": array.T})
        found = whole(written)
        assert found == {"a": array.tolist(), "sliced": array[::-1, :1].tolist(), "turned": array.T.tolist()}
        assert bool(written.blobs) == (rows > 2 and dtype not in ("float16", "complex64"))


def test_odd_numpy_values_are_kept_or_marked() -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        numpy.array(5),
        numpy.array([]),
        numpy.zeros((0, 3)),
        numpy.array([object()], dtype=object),
        numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        numpy.ma.array([1, 2], mask=[False, True]),
        numpy.longdouble(1.5),
        numpy.str_("text"),
        numpy.bytes_(b"raw"),
        numpy.datetime64("2026-01-01"),
        numpy.datetime64("12026-01-01"),
        numpy.timedelta64(3, "s"),
        numpy.timedelta64(3, "Y"),
        numpy.random.default_rng(1),
    ]
    found = whole(encode({"v": values}))["v"]
    assert found[0] == 5
    assert found[1] == []
    assert found[2] == []
    assert found[5] == [1, None]
    assert found[7] == "text"
    assert found[8] == b"raw"
    assert found[9] == datetime.date(2026, 1, 1)
    assert found[11] == datetime.timedelta(seconds=3)


def test_a_pydantic_model_is_kept_at_any_depth_with_the_types_of_its_fields() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Phase(enum.Enum):
        QUERY = "query"

    class Base(pydantic.BaseModel):
        name: str

    class Sub(Base):
        price: Decimal
        phase: Phase

    class Outer(pydantic.BaseModel, extra="allow"):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, extra="allow")
        part: Base
        client: Any = None
        secret: str = pydantic.Field(default="s3cret", exclude=True)
        key: pydantic.SecretStr = pydantic.SecretStr("s3cret")

    outer = Outer(part=Sub(name="a", price="1.10", phase="query"), client=object(), more=(1, math.nan))
    written = encode({"deep": [{"m": outer}]})
    found = decode(written.json)["deep"][0]["m"]
    assert found["part"] == {"name": "a", "price": Decimal("1.10"), "phase": "query"}
    assert found["client"]["class"] == "object"
    assert found["more"][0] == 1
    assert b"s3cret" not in written.json


def test_the_serializers_and_computed_fields_of_a_model_are_honoured() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Hidden(pydantic.BaseModel):
        token: str

        @pydantic.field_serializer("token")
        def hide(self, value: str) -> str:
            return "***"

    class Computed(pydantic.BaseModel):
        a: int

        @pydantic.computed_field
        def double(self) -> int:
            return 2 * self.a

    class Broken(pydantic.BaseModel):
        a: int

        @pydantic.model_serializer
        def fail(self) -> Any:
            raise ValueError("broken")

    found = decode(encode({"h": Hidden(token="x"), "c": Computed(a=1), "b": Broken(a=1)}).json)
    assert found == {"h": {"token": "***"}, "c": {"a": 1, "double": 2}, "b": {"a": 1}}


def test_a_model_built_without_validation_and_a_v1_model_are_kept() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        a: int
        b: int = 2

    assert decode(encode(Model.model_construct(a="no int")).json) == {"a": "no int", "b": 2}

    class LikeV1:
        __fields__: Any = None

        def dict(self) -> Any:
            return {"x": (1,)}

    class LikeV2:
        def model_dump(self) -> Any:
            return {"x": {2}}

    assert decode(encode([LikeV1(), LikeV2()]).json) == {"value": [{"x": (1,)}, {"x": {2}}]}


def test_a_pydantic_model_class_is_a_class() -> None:
    pydantic = pytest.importorskip("pydantic")
    assert decode(encode({"response_format": pydantic.BaseModel}).json)["response_format"] == {
        "$type": "class",
        "value": "pydantic.main.BaseModel",
    }


def test_protobuf_messages_keep_nested_repeated_and_enum_fields() -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    message = descriptor_pb2.FileDescriptorProto(
        name="a",
        dependency=["b", "c"],
        message_type=[
            descriptor_pb2.DescriptorProto(
                name="M", field=[descriptor_pb2.FieldDescriptorProto(name="f", type="TYPE_STRING")]
            )
        ],
    )
    assert decode(encode(message).json) == {
        "name": "a",
        "dependency": ["b", "c"],
        "message_type": [{"name": "M", "field": [{"name": "f", "type": "TYPE_STRING"}]}],
    }


def test_a_protobuf_struct_is_what_it_holds() -> None:
    struct_pb2 = pytest.importorskip("google.protobuf.struct_pb2")
    struct = struct_pb2.Struct()
    struct.update({"city": "Graz", "days": [1, {"x": None}], "ok": True})
    assert decode(encode({"args": struct}).json) == {
        "args": {"city": "Graz", "days": [1.0, {"x": None}], "ok": True}
    }


def test_pandas_frames_with_odd_columns_and_missing_values_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        [[1, pandas.NaT, None], [2, pandas.Timestamp("2026-01-02"), "x"]],
        columns=["n", "at", "n"],
        index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
    )
    found = decode(encode({"f": frame}).json)["f"]
    assert found["columns"] == ["n", "at", "n"]
    assert found["index"] == [("a", 1), ("b", 2)]
    assert found["value"][0][:2] == [1, None]
    assert found["value"][1] == [2, datetime.datetime(2026, 1, 2), "x"]


def test_large_and_odd_series_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    found = decode(encode({"s": pandas.Series([1.5, math.nan], index=["a", "b"], name=("x", 1))}).json)["s"]
    assert found["name"] == ("x", 1)
    assert found["index"] == ["a", "b"]
    assert math.isnan(found["value"][1])
    categories = pandas.Series(["a", "b"], dtype="category")
    assert decode(encode({"s": categories}).json)["s"]["value"] == ["a", "b"]


@pytest.mark.parametrize(("library", "make"), [("polars", "DataFrame"), ("pyarrow", "table")])
def test_a_columnar_table_is_kept_by_column(library: str, make: str) -> None:
    table = getattr(pytest.importorskip(library), make)({"n": [1, None], "s": ["x", "y"]})
    stored = encode({"t": table}).json
    assert stored == b'{"t":{"$type":"table","value":{"n":[1,null],"s":["x","y"]}}}'
    assert decode(stored) == {"t": {"n": [1, None], "s": ["x", "y"]}}


def test_a_class_that_only_claims_to_be_of_a_library_is_an_unknown_object() -> None:
    class Claims:
        def __repr__(self) -> str:
            return "mine"

    Claims.__module__, Claims.__qualname__ = "numpy", "ndarray"
    assert decode(encode({"v": Claims()}).json)["v"] == {
        "$type": "object",
        "class": "numpy.ndarray",
        "repr": "mine",
        "lossy": True,
    }
