"""Files of CloudEvents 1.0 in the JSON format: one event, a batch, or one event a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.importers.base import Piece, Problem
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.tornjson import without_lone_surrogates
from chatsnapshot.ingest.cloudevents.mapping import Mapper
from chatsnapshot.ingest.cloudevents.structured import looks_like, read_document

__all__ = ["CloudEventFiles"]

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_MARK = b"\xef\xbb\xbf"


class CloudEventFiles:
    """Reads one file; what becomes what is the same as over HTTP."""

    kind = "cloudevents"
    what = "CloudEvents 1.0 in JSON: one event, a batch, or one a line"

    def looks_like(self, head: bytes) -> float:
        """By the attributes that every event has."""
        start = head.removeprefix(_MARK).lstrip()
        if start[:1] == b"[":
            start = start[1:].lstrip()
        # Of several lines the first: what follows it would be taken for a fault of one object.
        members = read_object(start).members
        if looks_like(members):
            return 1.0
        return 0.8 if {"specversion", "type"} <= members.keys() else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """Every event by itself: one that is refused, or a line that is no JSON, is a problem beside the others."""
        mapper = Mapper(None)
        for found in _documents(without_lone_surrogates(data)):
            if isinstance(found, Problem):
                yield found
                continue
            offset, document = found
            try:
                yield Piece(offset, mapper.envelope(read_document(document)))
            except (InvalidEvent, LimitExceeded) as error:
                yield Problem(offset, str(error))


def _documents(data: bytes) -> Iterator[tuple[int, bytes] | Problem]:
    """Each object of the file with the byte at which it begins; the text is looked at once, from begin to end."""
    before = len(_MARK) if data.startswith(_MARK) else 0
    text = data[before:].decode("utf-8", "surrogateescape")  # what is no UTF-8 is found in its object
    place, offset, inside = 0, before, False
    while True:
        blank = _BLANKS.match(text, place)
        start = blank.end() if blank is not None else place
        offset, place = offset + start - place, start
        if place == len(text):
            if inside:
                yield Problem(offset, "the file is cut off: the array has no end")
            return
        sign = text[place]
        if sign in "[]," and (inside or sign == "["):
            if sign == "[" and inside:
                yield Problem(offset, "an event is a JSON object, not an array")
                return
            inside = sign != "]"
            offset, place = offset + 1, place + 1
            continue
        try:
            _, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            yield Problem(offset, f"no JSON, or cut off, in the event that begins here: {said}")
            line = text.find("\n", place)
            if inside or line < 0:
                return
            end = line
            offset += len(text[place:end].encode("utf-8", "surrogateescape"))
            place = end
            continue
        document = text[place:end].encode("utf-8", "surrogateescape")
        yield offset, document
        offset, place = offset + len(document), end
