"""Owns the rules for numpy, pandas, Arrow, polars and protobuf values, none of which is imported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from chatsnapshot.jsonvalue import kinds
from chatsnapshot.jsonvalue.names import class_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatsnapshot.jsonvalue.walk import Frame, Walk

    Handler = Callable[[Walk, Any, Frame], Any]

__all__ = ["BLOCK_FORMATS", "BY_NAME"]

BLOCK_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""Number types whose large arrays become one block of little-endian bytes, with their ``struct`` codes."""

_NANOSECONDS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})(\d{3})\Z")


def scalar(walk: Walk, value: Any, frame: Frame) -> Any:
    """A numpy scalar as the number, text or time that it is."""
    dtype = value.dtype
    if dtype.kind in "mM":
        return _numpy_time(walk, value, frame)
    item = value.item()
    if type(item) is type(value):
        return walk.lost(value, frame)
    return walk.instead(item, frame)


def _numpy_time(walk: Walk, value: Any, frame: Frame) -> Any:
    shown = str(value)
    if shown == "NaT":
        return walk.tag("missing", frame, {"value": "NaT"})
    item = value.item()
    if type(item) is not int:
        return walk.instead(item, frame)
    if value.dtype.str == "<m8[ns]":
        return walk.tag("timedelta", frame, {"value": kinds.seconds_text(item, 9)})
    fine = _NANOSECONDS.match(shown)
    if fine is None:
        return walk.lost(value, frame)
    return walk.tag("datetime", frame, {"value": fine[1], "nanoseconds": int(fine[2])})


def array(walk: Walk, value: Any, frame: Frame) -> Any:
    """A numpy array: dtype, shape and nested lists; a large one of plain numbers as one block of bytes."""
    dtype = value.dtype
    name = dtype.name if dtype.name in BLOCK_FORMATS else str(dtype)
    members = {"class": class_name(type(value)), "dtype": name, "shape": [int(n) for n in value.shape]}
    large = value.nbytes > walk.limits.binary_inline_bytes_max
    if large and name in BLOCK_FORMATS and members["class"] == "numpy.ndarray":
        out = walk.tag("array", frame, members)
        block = value.astype(dtype.newbyteorder("<"), order="C", copy=False)
        out["value"] = walk.data(block.tobytes(), frame)
        return out
    if value.size > walk.room:
        return walk.cut_count(frame, int(value.size), dtype=members["dtype"], shape=members["shape"])
    if dtype.kind in "mM":
        value = value.astype(str)
    return walk.tagged("array", frame, value.tolist(), members)


def data_frame(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pandas DataFrame: columns, dtypes, index and rows."""
    if value.size > walk.room:
        return walk.cut_count(frame, int(value.size))
    out = walk.tag("dataframe", frame, {})
    walk.put(out, "columns", value.columns.tolist(), frame)
    out["dtypes"] = [str(dtype) for dtype in value.dtypes]
    walk.put(out, "index", value.index.tolist(), frame)
    walk.put(out, "value", [list(row) for row in value.itertuples(index=False, name=None)], frame)
    return out


def series(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pandas Series: name, dtype, index and values."""
    if value.size > walk.room:
        return walk.cut_count(frame, int(value.size))
    out = walk.tag("series", frame, {"dtype": str(value.dtype)})
    walk.put(out, "name", value.name, frame)
    walk.put(out, "index", value.index.tolist(), frame)
    walk.put(out, "value", value.tolist(), frame)
    return out


def index(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pandas Index as the list of its labels."""
    return walk.items(value.tolist(), frame)


def timestamp(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pandas Timestamp as a datetime, with its nanoseconds where it has some."""
    out = kinds.moment(walk, value, frame)
    if value.nanosecond:
        out["nanoseconds"] = int(value.nanosecond)
    return out


def timedelta(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pandas Timedelta as exact decimal seconds."""
    exact = value.to_timedelta64()
    # pandas before version 3 counts nanoseconds where the newer one counts microseconds.
    return _numpy_time(walk, exact if value.nanoseconds else exact.astype("timedelta64[us]"), frame)


def missing(walk: Walk, value: Any, frame: Frame) -> Any:
    """pandas' NA and NaT."""
    return walk.tag("missing", frame, {"value": "NaT" if "NaT" in class_name(type(value)) else "NA"})


def arrow_table(walk: Walk, value: Any, frame: Frame) -> Any:
    """A pyarrow Table as lists by column."""
    if value.num_rows * value.num_columns > walk.room:
        return walk.cut_count(frame, int(value.num_rows))
    return walk.tagged("table", frame, value.to_pydict())


def polars_frame(walk: Walk, value: Any, frame: Frame) -> Any:
    """A polars DataFrame as lists by column."""
    if value.height * value.width > walk.room:
        return walk.cut_count(frame, int(value.height))
    return walk.tagged("table", frame, value.to_dict(as_series=False))


def message(walk: Walk, value: Any, frame: Frame) -> Any:
    """A protobuf message: the fields that are set; enum values by name, ``Struct`` as what it holds."""
    full_name = value.DESCRIPTOR.full_name
    if full_name == "google.protobuf.Struct":
        return walk.instead(dict(value.items()), frame)
    if full_name == "google.protobuf.ListValue":
        return walk.instead(list(value), frame)
    pairs = []
    for field, found in value.ListFields():
        if hasattr(found, "items"):
            found = dict(found.items())
        elif not isinstance(found, str | bytes) and hasattr(found, "append"):
            found = [_enum_name(field, item) for item in found]
        else:
            found = _enum_name(field, found)
        pairs.append((field.name, found))
    return walk.record(pairs, frame, full_name)


def _enum_name(field: Any, value: Any) -> Any:
    if field.enum_type is None:
        return value
    known = field.enum_type.values_by_number.get(value)
    return value if known is None else known.name


BY_NAME: dict[tuple[str, str], Handler] = {
    ("numpy", "generic"): scalar,
    ("numpy", "ndarray"): array,
    ("pandas", "DataFrame"): data_frame,
    ("pandas.core.frame", "DataFrame"): data_frame,
    ("pandas", "Series"): series,
    ("pandas.core.series", "Series"): series,
    ("pandas", "Index"): index,
    ("pandas.core.indexes.base", "Index"): index,
    ("pandas", "Timestamp"): timestamp,
    ("pandas._libs.tslibs.timestamps", "Timestamp"): timestamp,
    ("pandas", "Timedelta"): timedelta,
    ("pandas._libs.tslibs.timedeltas", "Timedelta"): timedelta,
    ("pandas.api.typing", "NaTType"): missing,
    ("pandas._libs.tslibs.nattype", "NaTType"): missing,
    ("pandas.api.typing", "NAType"): missing,
    ("pandas._libs.missing", "NAType"): missing,
    ("pyarrow.lib", "Table"): arrow_table,
    ("polars.dataframe.frame", "DataFrame"): polars_frame,
    ("google.protobuf.message", "Message"): message,
}
