"""The line format of a JSONL ledger: rows to lines and back, checked, with what an erasure overwrites. Pure.

``docs/format.md`` §8 is the same as a contract. A line is one JSON object; its keys stand in one order without spaces, so
that one pattern reads it. The payload is the stored payload byte for byte: its length stands before it.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64, hexlify, unhexlify
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt, FormatTooNew
from chatsnapshot.integrity import commit, leaf_hash
from chatsnapshot.stores.base import Row
from chatsnapshot.stores.imports import row_header

__all__ = [
    "FORMAT",
    "BadLine",
    "Header",
    "Line",
    "blanks",
    "encode_header",
    "encode_rows",
    "is_own_record",
    "read_header",
    "read_line",
    "read_row",
    "sound",
]

FORMAT = 1

_SALT_CHARS = 24
_NO_BREAKS = bytes(32 if byte in b"\n\r" else byte for byte in range(256))
_NO_SALT = b"null" + b" " * (_SALT_CHARS - 2)
"""As many bytes as a salt in its quotes."""

_FRONT = re.compile(
    rb'\{"position":(?P<position>\d{1,19}),"sequence":(?P<sequence>\d{1,19}),"recorded_at":"(?P<recorded_at>[^"\\]*)",'
    rb'"batch":\[(?P<batch>\d{1,19},\d{1,19})\],"leaf":"(?P<leaf>[0-9a-f]{64})","check":"(?P<check>[0-9a-f]{8})",'
    rb'"commitment":"(?P<commitment>[A-Za-z0-9+/]{43}=)","payload_bytes":(?P<payload_bytes>\d{1,19}),'
    rb'(?:"line_feeds":(?P<line_feeds>\[[0-9, ]*\]),)?(?:"returns":(?P<returns>\[[0-9, ]*\]),)?'
    rb'"salt":(?P<slot>"(?P<salt>[A-Za-z0-9+/]{22}==)"|.{26}),"event":\{'
    rb'"event_id":"(?P<event_id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})",'
    rb'"event_type":"(?P<kind>[^"\\]*(?:\\.[^"\\]*)*)","timestamp":"(?P<timestamp>[^"\\]*)","source":(?P<source>\{.*?\}),'
    rb'"correlation_id":"(?P<correlation>[^"\\]*(?:\\.[^"\\]*)*)",'
    rb'"causation_id":(?:null|"(?P<cause>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"),"payload":',
    re.DOTALL,
)
_BACK = re.compile(rb'(?:,"schema_version":(\d{1,19}))?(?:,"attributes":(\{.*\}))?\}\}', re.DOTALL)
_HEADER = re.compile(
    rb'\{"chatsnapshot":"ledger","format":(\d{1,9})(?:,.*)?,"check":"([0-9a-f]{8})"\}', re.DOTALL
)


class BadLine(ValueError):
    """A line that cannot be read, or does not check; the text says what is wrong."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a segment: whose history it is, and where the segment stands in it."""

    format: int
    ledger_id: str
    created_at: str
    segment: int
    first: int
    root: str


class Line(NamedTuple):
    """A line that was read: its row, first position and members of its batch; ``unfinished``: an erasure broke off."""

    row: Row
    first: int
    members: int
    unfinished: bool


def encode_header(header: Header) -> bytes:
    """The header as a line, with its line feed."""
    front = b'{"chatsnapshot":"ledger",' + msgspec.json.encode(header)[1:-1]
    return b'%b,"check":"%08x"}\n' % (front, crc32(front))


def read_header(line: bytes, path: str) -> Header:
    """Read the first line (without its line feed).

    Raises :class:`BadLine` for one that is damaged or no header at all, :class:`FormatTooNew`.
    """
    found = _HEADER.fullmatch(line)
    if found is None:
        raise BadLine("the first line is not the header of a ChatSnapshot ledger")
    if crc32(line[: found.start(2) - 10]) != int(found[2], 16):
        raise BadLine("the header does not match its check")
    if int(found[1]) > FORMAT:
        raise FormatTooNew(
            f"{path} has ledger format {int(found[1])}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )
    try:
        return msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as error:
        raise BadLine(f"the header cannot be read: {error}") from None


# --- rows to lines ---

_QUOTED_MAX = 4096
_quoted: dict[str, bytes] = {}
_known_texts: dict[bytes, str] = {}
_known_sources: dict[bytes, str] = {}


def _quote(text: str) -> bytes:
    found = _quoted.get(text)
    if found is None:
        if len(_quoted) >= _QUOTED_MAX:
            _quoted.clear()
        found = _quoted[text] = msgspec.json.encode(text)
    return found


def encode_rows(rows: Sequence[Row]) -> list[bytes]:
    """The lines of one batch, each with its line feed."""
    if not rows:
        return []
    batch = b"%d,%d" % (rows[0][0], len(rows))
    stamp = rows[0][2]
    recorded_at = stamp.encode()
    lines: list[bytes] = []
    for row in rows:
        (position, sequence, moment, key, kind, happened, source, correlation, cause, payload, version,
         attributes, leaf, salt, commitment, size) = row  # fmt: skip
        if moment is not stamp:
            stamp, recorded_at = moment, moment.encode()
        front = b'{"position":%d,"sequence":%d,"recorded_at":"%b","batch":[%b],"leaf":"%b"' % (
            position, sequence, recorded_at, batch, hexlify(leaf),
        )  # fmt: skip
        breaks = b""
        if payload is None or salt is None:
            slot, secret = b"null", _NO_SALT
        else:
            slot, secret = payload, b'"%b"' % b2a_base64(salt, newline=False)
            if size < 4:
                slot = slot.ljust(4)  # so that null fits when it is erased
            if b"\n" in payload or b"\r" in payload:
                breaks = _breaks(payload)
                slot = slot.translate(_NO_BREAKS)
        back = b"" if version is None else b',"schema_version":%d' % version
        if attributes is not None:
            back += b',"attributes":' + attributes.encode()
        lines.append(
            b'%b,"check":"%08x","commitment":"%b","payload_bytes":%d,%b"salt":%b,"event":{"event_id":"%b",'
            b'"event_type":%b,"timestamp":"%b","source":%b,"correlation_id":%b,"causation_id":%b,"payload":%b%b}}\n'
            % (
                front, crc32(front), b2a_base64(commitment, newline=False), size, breaks, secret,
                uuid_text(key).encode(), _quote(kind), happened.encode(), source.encode(), _quote(correlation),
                b"null" if cause is None else b'"%b"' % uuid_text(cause).encode(), slot, back,
            )
        )  # fmt: skip
    return lines


def _breaks(payload: bytes) -> bytes:
    """Where line feeds and returns stand in a payload: in the line they are spaces, which are the same to JSON."""
    keys = ((b"line_feeds", 10), (b"returns", 13))
    found = [(key, [b"%d" % at for at, one in enumerate(payload) if one == byte]) for key, byte in keys]
    return b"".join([b'"%b":[%b],' % (key, b",".join(places)) for key, places in found if places])


# --- lines to rows ---


def read_row(line: bytes, erasing: bool = False) -> Row:
    """The row of a line (without its line feed); raises :class:`BadLine`.

    The check of position, sequence, batch and leaf is made; the hashes are left to :func:`sound` and ``verify``.
    ``erasing`` takes a line in which an erasure broke off as erased.
    """
    return _read(line, erasing)[0]


def _read(line: bytes, erasing: bool) -> tuple[Row, re.Match[bytes]]:
    found = _FRONT.match(line)
    if found is None:
        raise BadLine("the line is not an entry")
    (position, sequence, recorded_at, _, leaf, check, commitment, length, feeds, returns, secret, text, key,
     kind, happened, source, correlation, cause) = found.groups()  # fmt: skip
    if crc32(line[: found.start("check") - 10]) != int(check, 16):
        raise BadLine("position, sequence, batch or leaf do not match the check of the line")
    size = int(length)
    start = found.end()
    salt: bytes | None = None
    payload: bytes | None = None
    if text is not None:
        salt = a2b_base64(text)
        payload = line[start : start + size]
        if feeds is not None:
            payload = _with_breaks(payload, feeds, 10)
        if returns is not None:
            payload = _with_breaks(payload, returns, 13)
        end = start + (size if size > 4 else 4)
    else:
        if secret != _NO_SALT and not erasing:
            raise BadLine("the salt is neither there nor erased")
        end = _end_of_blank(line, start, size)
    version: bytes | None = None
    attributes: bytes | None = None
    if line[end:] != b"}}":
        back = _BACK.fullmatch(line, end)
        if back is None:
            raise BadLine("the line does not end as an entry does, or payload_bytes is wrong")
        version, attributes = back.groups()
    try:
        row = (
            int(position),
            int(sequence),
            _known_texts.get(recorded_at) or _unquote(recorded_at),
            unhexlify(key.replace(b"-", b"")),
            _known_texts.get(kind) or _unquote(kind),
            happened.decode(),
            _known_sources.get(source) or _source(source),
            _known_texts.get(correlation) or _unquote(correlation),
            None if cause is None else unhexlify(cause.replace(b"-", b"")),
            payload,
            None if version is None else int(version),
            None if attributes is None else attributes.decode(),
            unhexlify(leaf),
            salt,
            a2b_base64(commitment),
            size,
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise BadLine(f"the line cannot be read: {error}") from None
    return row, found


def _unquote(text: bytes) -> str:
    """The text of a JSON string without its quotes. Sources, types, correlations come again and again."""
    found = _known_texts.get(text)
    if found is None:
        found = msgspec.json.decode(b'"%b"' % text, type=str) if b"\\" in text else text.decode()
        if len(_known_texts) >= _QUOTED_MAX:
            _known_texts.clear()
        _known_texts[text] = found
    return found


def _source(text: bytes) -> str:
    if len(_known_sources) >= _QUOTED_MAX:
        _known_sources.clear()
    found = _known_sources[text] = text.decode()
    return found


def _with_breaks(payload: bytes, places: bytes, byte: int) -> bytes:
    made = bytearray(payload)
    try:
        for place in msgspec.json.decode(places, type=list[int]):
            made[place] = byte
    except (msgspec.DecodeError, IndexError, ValueError) as error:
        raise BadLine(f"the places of line breaks cannot be read: {error}") from None
    return bytes(made)


def _end_of_blank(line: bytes, start: int, size: int) -> int:
    """Where the place of an erased payload ends: it is as long as the payload was, or a bare null."""
    if line[start : start + 4] == b"null" and line[start + 4 : start + 5] in (b",", b"}"):
        return start + 4
    return start + max(size, 4)


def read_line(line: bytes, erasing: bool = True) -> Line:
    """The row of a line and its batch; raises :class:`BadLine`."""
    row, found = _read(line, erasing)
    first, count = map(int, found["batch"].split(b","))
    if not first <= row[0] < first + count:
        raise BadLine(f"position {row[0]} is not in its batch of {count} from {first}")
    unfinished = row[13] is None and bool(_blanks(line, found))
    return Line(row, first, count, unfinished)


def sound(row: Row) -> None:
    """Derive leaf and commitment anew; raises :class:`BadLine` where they do not follow."""
    try:
        if leaf_hash(row_header(row)) != row[12]:
            raise BadLine("the line does not hash to its leaf")
    except BadLine:
        raise
    except Exception as error:
        raise BadLine(f"the header cannot be derived: {error}") from None
    payload, salt = row[9], row[13]
    if payload is not None and (salt is None or len(payload) != row[15] or commit(salt, payload) != row[14]):
        raise BadLine("the payload does not match its commitment")


def check_line(row: Row, line: bytes) -> None:
    """Make sure that a line about to be written reads back as its row; raises :class:`Corrupt`."""
    try:
        if b"\n" in line[:-1] or b"\r" in line or read_row(line[:-1]) != row:
            raise BadLine("it reads back differently")
        if row[9] is not None:
            msgspec.json.decode(row[9])
    except (BadLine, msgspec.DecodeError, RecursionError) as error:
        raise Corrupt(
            f"the entry at position {row[0]} cannot be kept as a line: {error}", position=row[0]
        ) from None


# --- erasing ---


def is_own_record(line: bytes) -> bool:
    """Whether a line is one of the ledger's own facts, which are never erased."""
    found = _FRONT.match(line)
    return found is not None and found["kind"].startswith(b"ledger.") and found["correlation"] == b"ledger"


def blanks(line: bytes, *, again: bool = False) -> list[tuple[int, bytes, bool]]:
    """What must be overwritten in a line so that its payload is erased: offset in the line, bytes, is it the salt.

    Empty when nothing is left to do; ``again`` gives what is blank already too. Raises :class:`BadLine`.
    """
    found = _FRONT.match(line)
    if found is None:
        raise BadLine("the line is not an entry")
    return _all_blanks(line, found) if again else _blanks(line, found)


def _blanks(line: bytes, found: re.Match[bytes]) -> list[tuple[int, bytes, bool]]:
    return [one for one in _all_blanks(line, found) if line[one[0] : one[0] + len(one[1])] != one[1]]


def _all_blanks(line: bytes, found: re.Match[bytes]) -> list[tuple[int, bytes, bool]]:
    size = int(found["payload_bytes"])
    wanted = [(found.start("slot"), _NO_SALT, True)]
    for group in ("line_feeds", "returns"):
        if found[group] is not None:
            wanted.append((found.start(group), b"[" + b" " * (len(found[group]) - 2) + b"]", False))
    start = found.end()
    slot = max(size, 4) if found["slot"] != _NO_SALT else _end_of_blank(line, start, size) - start
    wanted.append((start, b"null".ljust(slot), False))
    return wanted
