"""Owns the walk over a payload: one pass, without recursion, from any Python value to plain JSON values."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue.blobs import OCTETS, TEXT, Blob, blob_ref, digest_text, make_blob, split_data_uri
from chatsnapshot.jsonvalue.fast import INT_MAX, INT_MIN
from chatsnapshot.jsonvalue.names import class_name, safe_repr, short_error
from chatsnapshot.jsonvalue.recognise import recognise
from chatsnapshot.limits import Limits

__all__ = ["DEPTH_TOTAL_MAX", "VALUES_TOTAL_MAX", "Done", "Frame", "Walk"]

DEPTH_TOTAL_MAX = 500
"""Levels of JSON kept at all (beyond ``depth_max`` inside one ``$json`` string); what lies deeper is cut."""

VALUES_TOTAL_MAX = 5_000_000
"""Values in one payload; containers beyond that are cut."""

VALUES_REPEATED_MAX = 500_000
"""Values written again because their container stands in several places; a few objects can stand for 2^40."""

HEAD_CHARS = 1_000
_INT_DIGITS_BITS = 13_000  # below 4,000 decimal digits: Python refuses to convert above 4,300
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = 1_024


class Done:
    """A part that is plain JSON already and is taken as it is."""

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json


class Frame:
    """Where a value stands: the container it goes into, its place there, and the values around it.

    ``depth`` is the number of JSON containers around it.
    """

    __slots__ = ("depth", "holder", "parent", "slot", "value")

    def __init__(self, parent: Frame | None, value: Any, holder: Any, slot: Any) -> None:
        self.parent = parent
        self.value = value  # held, so that no other object can get its id during the walk
        self.holder = holder
        self.slot = slot
        self.depth: int = 0 if parent is None else parent.depth + 1


class Walk:
    """One encoding: the values still to do, the blobs found, and what room is left."""

    __slots__ = (
        "blobs",
        "deepest",
        "finishers",
        "limits",
        "repeats",
        "room",
        "seen",
        "stack",
        "strict",
        "text_room",
    )

    def __init__(self, limits: Limits, strict: bool) -> None:
        self.limits = limits
        self.strict = strict
        self.blobs: dict[bytes, Blob] = {}
        self.stack: list[tuple[Any, Any, Any, Frame | None]] = []
        self.finishers: list[Callable[[], None]] = []
        self.room = VALUES_TOTAL_MAX
        self.repeats = VALUES_REPEATED_MAX
        self.seen: dict[int, Any] = {}  # containers by id, held so that no other can get the id
        self.text_room = limits.blob_bytes_max
        self.deepest = 0

    def run(self, payload: Any) -> Any:
        """The payload as plain JSON values (dict, list, str, int, float, bool, None)."""
        top = [None]
        stack = self.stack
        stack.append((top, 0, payload, None))
        while stack:
            holder, slot, value, parent = stack.pop()
            holder[slot] = self._convert(value, Frame(parent, value, holder, slot))
        for finish in reversed(self.finishers):  # what is inside was begun later and is finished first
            finish()
        return top[0]

    def _convert(self, value: Any, frame: Frame) -> Any:
        cls = type(value)
        if cls is Done:
            return value.json
        marks = len(self.stack), len(self.finishers)
        try:
            if frame.depth > self.deepest:
                self.deepest = frame.depth
                if frame.depth > DEPTH_TOTAL_MAX:
                    self.deepest -= 1
                    return self.cut(frame, {"kind": "depth", "class": class_name(cls)})
            above = frame.parent
            if cls is not str:
                while above is not None:
                    if above.value is value:
                        return self.tag("cycle", frame, {"class": class_name(cls), "lossy": True})
                    above = above.parent
            return recognise(cls)(self, value, frame)
        except Exception as error:
            del self.stack[marks[0] :], self.finishers[marks[1] :]
            if self.strict:
                if isinstance(error, InvalidEvent) and error.path is not None:
                    raise
                self.refuse(frame, class_name(cls))
            return self.lost(value, frame, f"<{class_name(cls)}: {short_error(error)} while it was read>")

    # What handlers build with

    def put(self, holder: Any, slot: Any, value: Any, frame: Frame) -> None:
        """Set ``holder[slot]`` to the JSON of ``value``, now or later in the walk."""
        holder[slot] = None
        self.stack.append((holder, slot, value, frame))

    def instead(self, value: Any, frame: Frame) -> None:
        """Take ``value`` in place of the frame's own."""
        self.stack.append((frame.holder, frame.slot, value, frame))

    def items(self, values: Sequence[Any], frame: Frame) -> Any:
        """A JSON array of ``values`` (a list or tuple that is the walk's own)."""
        if self._is_full(len(values), frame):
            return self.cut_count(frame, len(values))
        return self._fill(values, frame)

    def _is_full(self, count: int, frame: Frame) -> bool:
        repeated = id(frame.value) in self.seen
        if count > self.room or (repeated and count > self.repeats):
            return True
        self.seen[id(frame.value)] = frame.value
        self.room -= count
        if repeated:
            self.repeats -= count
        return False

    def _fill(self, values: Sequence[Any], frame: Frame) -> list[Any]:
        out: list[Any] = [None] * len(values)
        pending = []
        for slot, value in enumerate(values):
            kind = type(value)
            if kind is str and len(value) < _SHORT and value.isascii():
                out[slot] = value
                self.text_room -= len(value)
            elif (
                kind is bool
                or (kind is int and INT_MIN <= value <= INT_MAX)
                or (kind is float and value - value == 0.0)
            ):
                out[slot] = value
            elif value is not None:
                pending.append((out, slot, value, frame))
        pending.reverse()
        self.stack.extend(pending)
        return out

    def mapping(self, pairs: Sequence[tuple[Any, Any]], frame: Frame) -> dict[str, Any]:
        """A JSON object of ``pairs``; a ``map`` of pairs when a key is no plain string."""
        if self._is_full(len(pairs), frame):
            return self.cut_count(frame, len(pairs))
        out: dict[str, Any] = {}
        pending = []
        for key, value in pairs:
            if type(key) is not str:
                if recognise(type(key)) is not recognise(str):
                    return self._map(pairs, frame, key)
                key = str.__str__(key)
            if not key.isascii() and _SURROGATE.search(key):
                return self._map(pairs, frame, key)
            if key[:1] == "$":
                key = "$" + key
            kind = type(value)
            if kind is str and len(value) < _SHORT and value.isascii():
                out[key] = value
                self.text_room -= len(value)
            elif (
                value is None
                or kind is bool
                or (kind is int and INT_MIN <= value <= INT_MAX)
                or (kind is float and value - value == 0.0)
            ):
                out[key] = value
            else:
                out[key] = None
                pending.append((out, key, value, frame))
        if len(out) != len(pairs):
            return self._map(pairs, frame, pairs[0][0])
        pending.reverse()
        self.stack.extend(pending)
        return out

    def _map(self, pairs: Sequence[tuple[Any, Any]], frame: Frame, key: Any) -> dict[str, Any]:
        if self.strict:
            self.refuse(frame, f"a mapping with a key that is {class_name(type(key))}")
        out = self.tag("map", frame, {})
        found: list[Any] = []
        out["value"] = found
        inner = Frame(frame, pairs, out, "value")
        for pair in pairs:
            found.append(self._fill(pair, Frame(inner, pair, found, len(found))))
        return out

    def record(
        self, pairs: Sequence[tuple[Any, Any]], frame: Frame, name: str | None = None
    ) -> dict[str, Any]:
        """An object of named fields, with the class it came from as ``$class``."""
        cls = class_name(type(frame.value))
        if self.strict:
            self.refuse(frame, cls)
        out = self.mapping(pairs, frame)
        out["$class"] = cls if name is None else name
        return out

    def tag(self, name: str, frame: Frame, members: dict[str, Any]) -> dict[str, Any]:
        """A tagged object; ``members`` are plain JSON. In strict mode the value is refused instead."""
        if self.strict:
            self.refuse(frame, class_name(type(frame.value)))
        return {"$type": name, **members}

    def tagged(
        self, name: str, frame: Frame, value: Any, members: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A tagged object whose ``value`` is a Python value, walked in its turn."""
        out = self.tag(name, frame, members or {})
        self.put(out, "value", value, frame)
        return out

    def lost(self, value: Any, frame: Frame, text: str | None = None) -> dict[str, Any]:
        """The mark for a value of which only class and repr are kept."""
        shown = safe_repr(value) if text is None else text
        return self.tag("object", frame, {"class": class_name(type(value)), "repr": shown, "lossy": True})

    def cut(self, frame: Frame, members: dict[str, Any]) -> dict[str, Any]:
        """The mark for a value that is left out because of its size."""
        if self.strict:
            self.refuse(frame, f"above the limits ({members.get('kind')})")
        return {"$type": "cut", **members, "lossy": True}

    def cut_count(self, frame: Frame, count: int, **members: Any) -> dict[str, Any]:
        """The mark for a container with more values than there is room for."""
        return self.cut(
            frame, {"kind": "values", "class": class_name(type(frame.value)), "count": count, **members}
        )

    def refuse(self, frame: Frame, what: str) -> None:
        """Raise :class:`InvalidEvent` with the JSON path of the frame."""
        where = json_path(frame)
        raise InvalidEvent(
            f"payload value {where} is {what}, which strict JSON cannot hold as given; "
            "convert it to text, numbers, lists or objects with text keys, or record it with strict=False",
            path=where,
        )

    # Text and bytes

    def text(self, text: str, frame: Frame) -> Any:
        """Text in place, or as a blob when it is long; exact ``str`` only."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            found = [[match.start(), ord(match[0])] for match in _SURROGATE.finditer(text)]
            return self.tagged("str", frame, _SURROGATE.sub("\ufffd", text), {"surrogates": found})
        size = len(data)
        limits = self.limits
        if size > limits.binary_inline_bytes_max and text[:5] == "data:":
            split = split_data_uri(text)
            if split is not None and len(split[1]) <= limits.blob_bytes_max:
                return {**self.blob(split[1], split[0]), "as": "data-uri"}
        if size > limits.blob_bytes_max or size > self.text_room:
            digest = digest_text(sha256(data).digest())
            return self.cut(
                frame, {"kind": "text", "bytes": size, "digest": digest, "head": text[:HEAD_CHARS]}
            )
        if size > limits.string_inline_bytes_max:
            return self.blob(data, TEXT)
        self.text_room -= size
        return text

    def data(self, data: bytes, frame: Frame) -> dict[str, Any]:
        """Bytes as base64 in a tag, or as a blob when there are many; exact ``bytes`` only."""
        if len(data) <= self.limits.binary_inline_bytes_max:
            return self.tag("bytes", frame, {"value": base64.b64encode(data).decode("ascii")})
        if self.strict:
            self.refuse(frame, class_name(type(frame.value)))
        if len(data) > self.limits.blob_bytes_max:
            digest = digest_text(sha256(data).digest())
            head = base64.b64encode(data[:HEAD_CHARS]).decode("ascii")
            return self.cut(frame, {"kind": "bytes", "bytes": len(data), "digest": digest, "head": head})
        return self.blob(data, OCTETS)

    def blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        """Put bytes aside and give the reference to them."""
        blob = make_blob(data, media_type)
        self.blobs.setdefault(blob.digest, blob)
        return blob_ref(blob)

    def integer(self, value: int, frame: Frame) -> Any:
        """A JSON number within 64 bits, a tag beyond; exact ``int`` only."""
        if INT_MIN <= value <= INT_MAX:
            return value
        digits = str(value) if value.bit_length() < _INT_DIGITS_BITS else hex(value)
        return self.tagged("int", frame, digits)

    def members(self, name: str, values: list[Any], frame: Frame) -> dict[str, Any]:
        """A set: its members in the one order that does not depend on hashes."""
        out = self.tag(name, frame, {})
        out["value"] = members = self.items(values, Frame(frame, frame.value, out, "value"))
        if type(members) is not list:
            return out

        def finish() -> None:
            if all(type(member) is int or type(member) is float for member in members):
                members.sort()
            else:
                members.sort(key=msgspec.json.encode)

        self.finishers.append(finish)
        return out


def json_path(frame: Frame) -> str:
    """The JSON path of a value, as ``$.a[3].b``."""
    parts: list[str] = []
    here: Frame | None = frame
    while here is not None and here.parent is not None:
        slot = here.slot
        if type(slot) is int:
            parts.append(f"[{slot}]")
        else:
            key = slot[1:] if slot[:2] == "$$" else slot
            parts.append(f".{key}" if key.isidentifier() else "[" + msgspec.json.encode(key).decode() + "]")
        here = here.parent
    return "$" + "".join(reversed(parts))
