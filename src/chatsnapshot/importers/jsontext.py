"""Reads a JSON object or array as far as it is whole: its members, where items of lists begin, and where it breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chatsnapshot.importers.base import Problem

__all__ = ["Document", "read_array", "read_documents", "read_object"]

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_MARK = b"\xef\xbb\xbf"
_NEAR_END = 6
"""Characters: a torn ``\\u12`` or ``tru`` is found as an error that near to the end."""


class Document(NamedTuple):
    """What was read. ``members`` are whole, but a list among them may lack its end: then ``problem`` says so.

    ``offsets`` gives for each list among the members the byte at which each item begins. ``object`` is false for a
    text that does not begin as an object.
    """

    members: dict[str, Any]
    offsets: dict[str, list[int]]
    problem: Problem | None
    object: bool = True
    start: int = 0
    """The byte at which the text begins."""

    def moved(self, by: int) -> Document:
        """The same, found so many bytes later."""
        if not by:
            return self
        offsets = {key: [offset + by for offset in places] for key, places in self.offsets.items()}
        problem = None if self.problem is None else Problem(self.problem.offset + by, self.problem.reason)
        return Document(self.members, offsets, problem, self.object, self.start + by)


class _Broken(Exception):
    """The text ends or breaks at a character."""

    def __init__(self, place: int, torn: bool, inside: str) -> None:
        super().__init__()
        self.place = place
        self.torn = torn
        self.inside = inside


class _Bytes:
    """Byte offsets of characters, asked for in rising order."""

    def __init__(self, text: str, before: int) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._character = 0
        self._byte = before

    def at(self, character: int) -> int:
        piece = character - self._character
        if not self._ascii:
            piece = len(self._text[self._character : character].encode())
        self._byte += piece
        self._character = character
        return self._byte


def read_object(data: bytes) -> Document:
    """The members of the JSON object in ``data`` (UTF-8, with or without a byte order mark); never raises."""
    return _read(data, "{", _members)


def read_array(data: bytes) -> Document:
    """The items of the JSON array in ``data``, as the one member ``items``; never raises."""

    def take(
        text: str, place: int, members: dict[str, Any], offsets: dict[str, list[int]], places: _Bytes
    ) -> int:
        items = members["items"] = []
        where = offsets["items"] = []
        return _items(text, place - 1, "items", items, where, places)

    return _read(data, "[", take)


def read_documents(data: bytes) -> Iterator[Document]:
    """Each object and array of a file: one, which may have many lines, or one a line; never raises.

    Of a line that is broken, what is whole is given as well.
    """
    before = len(_MARK) if data.startswith(_MARK) else 0
    body = data[before:]
    if not _one_a_line(body):
        yield _document(body).moved(before)
        return
    offset = before
    lines = body.split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            found = _document(line).moved(offset)
            if found.problem is not None and number < len(lines):
                reason = found.problem.reason.replace("the file is", "the line is", 1)
                found = found._replace(problem=Problem(found.problem.offset, reason))
            yield found
        offset += len(line) + 1


def _document(text: bytes) -> Document:
    read = read_array if text.lstrip()[:1] == b"[" else read_object
    return read(text)


def _one_a_line(body: bytes) -> bool:
    """Whether the first or the second line that is not blank is whole by itself, and there is more than one."""
    start = body.lstrip()
    first, _, rest = start.partition(b"\n")
    second = rest.lstrip().partition(b"\n")[0]
    if not second:
        return False
    if _document(first).problem is None:
        return True
    return first[:1] == second[:1] == b"{" and _document(second).problem is None


def _read(data: bytes, sign: str, take: Callable[..., int]) -> Document:
    mark = len(_MARK) if data.startswith(_MARK) else 0
    what = "object" if sign == "{" else "array"
    try:
        text, cut = data[mark:].decode(), False
    except UnicodeDecodeError as error:
        text, cut = data[mark : mark + error.start].decode(), True
    places = _Bytes(text, mark)
    members: dict[str, Any] = {}
    offsets: dict[str, list[int]] = {}
    try:
        place = _skip(text, 0)
        if text[place : place + 1] != sign:
            return Document({}, {}, Problem(mark, f"does not begin as a JSON {what}"), False)
        end = take(text, place + 1, members, offsets, places)
        rest = _skip(text, end)
        if rest < len(text) or cut:
            return Document(
                members, offsets, Problem(places.at(rest), f"more text after the end of the JSON {what}")
            )
    except _Broken as broken:
        offset = places.at(broken.place)
        if cut and broken.torn and mark + len(text.encode()) + 4 < len(data):
            return Document(members, offsets, Problem(offset, f"the text is no UTF-8 in {broken.inside}"))
        said = "the file is cut off" if broken.torn else "the text is no JSON"
        return Document(members, offsets, Problem(offset, f"{said} in {broken.inside}, which begins here"))
    return Document(members, offsets, None)


def _skip(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return found.end() if found else place


def _members(
    text: str, place: int, members: dict[str, Any], offsets: dict[str, list[int]], places: _Bytes
) -> int:
    """Read members up to the closing brace; gives the place behind it."""
    place = _skip(text, place)
    if text[place : place + 1] == "}":
        return place + 1
    while True:
        start = place
        key, place = _value(text, place, start, "a key")
        if not isinstance(key, str):
            raise _Broken(start, False, "a key")
        place = _expect(text, place, ":", start, f"{key!r:.60}")
        if text[place : place + 1] == "[":
            items = members[key] = []
            where = offsets[key] = []
            place = _items(text, place, key, items, where, places)
        else:
            members[key], place = _value(text, place, start, f"{key!r:.60}")
            offsets.pop(key, None)
        place = _skip(text, place)
        if text[place : place + 1] == "}":
            return place + 1
        place = _expect(text, place, ",", place, "the object")


def _items(text: str, place: int, key: str, items: list[Any], where: list[int], places: _Bytes) -> int:
    place = _skip(text, place + 1)
    if text[place : place + 1] == "]":
        return place + 1
    while True:
        inside = f"item {len(items)} of {key!r:.60}"
        item, end = _value(text, place, place, inside)
        where.append(places.at(place))
        items.append(item)
        place = _skip(text, end)
        if text[place : place + 1] == "]":
            return place + 1
        place = _expect(text, place, ",", place, f"{key!r:.60} after {len(items)} items")


def _expect(text: str, place: int, mark: str, start: int, inside: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] != mark:
        raise _Broken(start, place >= len(text), inside)
    return _skip(text, place + 1)


def _value(text: str, place: int, start: int, inside: str) -> tuple[Any, int]:
    """One whole value; a number that the text ends with may lack digits and counts as torn."""
    try:
        value, end = _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        torn = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()) - _NEAR_END
        raise _Broken(start, torn, inside) from None
    except (ValueError, RecursionError):
        raise _Broken(start, False, f"{inside} (nested too deeply, or a number too long)") from None
    if end == len(text) and isinstance(value, (int, float)):
        raise _Broken(start, True, inside)
    return value, end
