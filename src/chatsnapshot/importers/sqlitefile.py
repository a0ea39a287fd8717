"""SQLite files of others: read without touching them, also while a writer has changes beside them, or cut off."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from chatsnapshot.importers.base import Problem

__all__ = ["SIGN", "Row", "has_table", "rows_of", "whole_image"]

SIGN = b"SQLite format 3\0"
"""What every such file begins with."""

_BESIDE = ("-wal", "-journal")
_TRIES = 5
_SIZE_MAX = 1 << 30
_NEAR = 256 * 1024
"""A row is looked for that near to the one before, and in the whole of a small file."""

_SEARCHED_MAX = 4 * 1024 * 1024


class Row(NamedTuple):
    """One row: the byte of the file at which it stands, and its columns by name."""

    offset: int
    values: dict[str, str | None]
    """Bytes that are no text of the file's encoding are kept as surrogates (``surrogateescape``)."""


def has_table(head: bytes, table: str, columns: tuple[str, ...]) -> bool:
    """Whether the beginning of a SQLite file names a table with these columns."""
    if not head.startswith(SIGN):
        return False
    pattern = (
        rb'CREATE TABLE (?:IF NOT EXISTS )?["`\[]?'
        + re.escape(table.encode())
        + rb'["`\]]?\s*\(([^;\x00]{0,4000}?\))'
    )
    return any(
        all(re.search(rb"\b" + name.encode() + rb"\b", found) for name in columns)
        for found in re.findall(pattern, head)
    )


def whole_image(path: str | os.PathLike[str], data: bytes) -> bytes:
    """The database as its next reader would find it, of a file of which ``data`` was read.

    What a write-ahead log or a journal beside the file says is brought in, in a copy: the file, and what lies beside it,
    stay as they are. Gives ``data`` where there is nothing beside it, or it cannot be brought in.
    """
    name = os.fspath(path)
    if not any(_size(name + end) for end in _BESIDE):
        return data
    import apsw

    folder = tempfile.mkdtemp(prefix="chatsnapshot-import-")
    try:
        copy = os.path.join(folder, "copy.db")
        for _ in range(_TRIES):
            before = _state(name)
            for end in ("", *_BESIDE):
                if os.path.exists(name + end):
                    shutil.copyfile(name + end, copy + end)
                elif os.path.exists(copy + end):
                    os.unlink(copy + end)
            if _state(name) == before:
                break
        connection = apsw.Connection(copy)
        try:
            connection.execute("PRAGMA schema_version").fetchall()
            return connection.serialize("main")
        finally:
            connection.close()
    except (apsw.Error, OSError):
        return data
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


def _state(name: str) -> list[tuple[int, int] | None]:
    """What tells that a file, or one beside it, was written."""
    found: list[tuple[int, int] | None] = []
    for end in ("", *_BESIDE):
        try:
            at = os.stat(name + end)
            found.append((at.st_size, at.st_mtime_ns))
        except OSError:
            found.append(None)
    return found


def rows_of(
    data: bytes, table: str, columns: tuple[str, ...], near: tuple[str, str]
) -> Iterator[Row | Problem]:
    """The rows of a table in the order in which they were written, from the bytes of a database; never raises.

    ``near`` are two text columns that stand side by side: by them the place of a row is found. Of a damaged file the rows
    before the damage are given, then those behind it from the end, as far as they can be reached.
    """
    import apsw

    connection = apsw.Connection(":memory:")
    try:
        try:
            connection.deserialize("main", _padded(data))
            connection.execute("PRAGMA trusted_schema = OFF")
            kinds = connection.execute("SELECT type FROM sqlite_schema WHERE name = ?", (table,)).fetchall()
            encoding = str(connection.execute("PRAGMA encoding").fetchall()[0][0])
        except (apsw.Error, OSError, MemoryError) as error:
            yield Problem(0, f"the database cannot be read: {error}")
            return
        if kinds != [("table",)]:
            yield Problem(0, f"there is no table {table!r}")
            return
        if len(data) < (size := _size_told(data)):
            yield Problem(len(data), f"the file is cut off: it has {len(data):,} of {size:,} bytes")
        names = ", ".join(f'CAST("{name}" AS BLOB)' for name in columns)
        last, place = -(2**63), 0
        try:
            rows = connection.execute(f'SELECT rowid, {names} FROM "{table}" ORDER BY rowid')
            for number, *values in rows:
                last = number
                row = _texts(columns, values, encoding)
                place = _place(data, row, near, place)
                yield Row(place, row)
            return
        except apsw.Error as error:
            told = "at its beginning" if last < 0 else f"behind row {last}"
            yield Problem(place or len(data), f"the table {table!r} is damaged {told}: {error}")
        yield from _backwards(connection, data, table, names, columns, near, last, encoding)
    finally:
        connection.close()


def _backwards(
    connection: Any,
    data: bytes,
    table: str,
    names: str,
    columns: tuple[str, ...],
    near: tuple[str, str],
    last: int,
    encoding: str,
) -> Iterator[Row]:
    import apsw

    found: list[Row] = []
    try:
        rows = connection.execute(
            f'SELECT {names} FROM "{table}" WHERE rowid > ? ORDER BY rowid DESC', (last,)
        )
        for values in rows:
            row = _texts(columns, values, encoding)
            found.append(Row(_place(data, row, near, 0), row))
    except apsw.Error:
        pass
    yield from reversed(found)


def _texts(columns: tuple[str, ...], values: Any, encoding: str) -> dict[str, str | None]:
    name = {"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}.get(encoding, "utf-8")
    how = "surrogateescape" if name == "utf-8" else "replace"
    return {
        column: None if value is None else value.decode(name, how)
        for column, value in zip(columns, values, strict=True)
    }


def _place(data: bytes, row: dict[str, str | None], near: tuple[str, str], before: int) -> int:
    """Where a row stands in the file: its texts stand there side by side. That of the row before, where not found."""
    first, second = (row.get(name) for name in near)
    if first is None or second is None:
        return before
    text = (first + second).encode("utf-8", "surrogateescape")
    found = data.find(text, max(0, before - _NEAR), before + _NEAR)
    if found < 0 and len(data) <= _SEARCHED_MAX:
        found = data.find(text)
    return found if found >= 0 else before


def _padded(data: bytes) -> bytes:
    """The image as SQLite takes it: as long as its header says, and without a write-ahead log of its own."""
    if len(data) < 100:
        return data
    page, size = _page(data), _size_told(data)
    if len(data) < size <= _SIZE_MAX:
        whole = (
            len(data) // page * page
        )  # a page that is there in part would give rows that were never written
        data = data[:whole] + bytes(size - whole)
    return data[:18] + b"\x01\x01" + data[20:]


def _page(data: bytes) -> int:
    page = int.from_bytes(data[16:18], "big")
    return 65_536 if page == 1 else max(page, 512)


def _size_told(data: bytes) -> int:
    """How many bytes the file should have."""
    return _page(data) * int.from_bytes(data[28:32], "big")
