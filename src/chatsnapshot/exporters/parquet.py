"""Parquet, with typed columns and the payload as JSON text; needs pyarrow (the extra ``parquet``)."""

from __future__ import annotations

from typing import Any

from chatsnapshot.clock import parse_time
from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.columns import COLUMNS, Row, row_of

__all__ = ["Parquet"]

GROUP_ROWS = 5_000
GROUP_BYTES = 16 * 1024 * 1024
"""A row group holds at most this many rows, and closes when its payloads reach this many bytes."""


class Parquet:
    """A row for each event; a null is unknown, erased or unset. At most one row group is held in memory."""

    format = "parquet"
    what = "events as typed rows (needs the extra parquet)"
    unit = "events"
    runs_only = False
    one_run = False
    text = False

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """Raises :class:`MissingExtra` without pyarrow, before anything is written."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("the export format 'parquet'", "parquet") from None
        schema = _schema(pyarrow)
        with pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
            rows: list[Row] = []
            size = 0
            for entry in choice.newest():
                rows.append(row_of(entry))
                size += entry.payload_bytes
                tally.written += 1
                if len(rows) >= GROUP_ROWS or size >= GROUP_BYTES:
                    writer.write_table(_table(pyarrow, schema, rows))
                    rows, size = [], 0
            if rows or not tally.written:
                writer.write_table(_table(pyarrow, schema, rows))


def _schema(pyarrow: Any) -> Any:
    types = {
        "int64": pyarrow.int64(),
        "int32": pyarrow.int32(),
        "bool": pyarrow.bool_(),
        "text": pyarrow.string(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    return pyarrow.schema([pyarrow.field(name, types[kind]) for name, kind in COLUMNS.items()])


def _table(pyarrow: Any, schema: Any, rows: list[Row]) -> Any:
    made = [row._replace(recorded_at=_time(row.recorded_at), timestamp=_time(row.timestamp)) for row in rows]
    columns = list(zip(*made, strict=True)) or [()] * len(COLUMNS)
    arrays = [pyarrow.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _time(text: str | None) -> Any:
    try:
        return None if text is None else parse_time(text)
    except InvalidEvent:  # somebody damaged it
        return None
