"""The canonical header of an entry: the RFC 8785 (JCS) bytes that a leaf of the tree is the hash of."""

from __future__ import annotations

from binascii import b2a_base64
from json.encoder import encode_basestring as _quoted

import msgspec

from chatsnapshot.errors import InvalidEvent

__all__ = [
    "HEADER_VERSION",
    "PAYLOAD_ALG",
    "canonical_json",
    "header_bytes",
    "header_parts",
    "is_canonical_object",
    "stored_leaf_input",
]

HEADER_VERSION = 1
PAYLOAD_ALG = "salted-sha256"

_INT_MAX = 2**53 - 1
_DEPTH_MAX = 64

# Correlations and types come again and again; looking one up costs a third of quoting it.
_QUOTED_MAX = 4096
_quoted_texts: dict[str, str] = {}
_known_quoted = _quoted_texts.get


def header_parts(
    event_id: str,
    event_type: str,
    timestamp: str,
    source_json: str,
    correlation_id: str,
    causation_id: str | None,
    schema_version: int | None,
    attributes_json: str | None,
    commitment: bytes,
    payload_bytes: int,
) -> tuple[bytes, bytes]:
    """The header around the text of ``recorded_at``: header = prefix + recorded_at + suffix.

    ``event_id`` and ``causation_id`` are UUIDs in 36 characters, ``timestamp`` is the stored form of 27;
    all three are taken as they are. ``source_json`` and ``attributes_json`` are canonical JSON texts
    (:func:`canonical_json`), ``None`` for no attributes. ``schema_version`` 1 or ``None`` is unset.
    ``commitment`` has 32 bytes; ``payload_bytes`` is the length of the payload.
    Raises :class:`InvalidEvent` for text that is not valid Unicode.
    """
    head = "{" if attributes_json is None else f'{{"attributes":{attributes_json},'
    cause = "" if causation_id is None else f'"causation_id":"{causation_id}",'
    version = "" if schema_version is None or schema_version == 1 else f'"schema_version":{schema_version},'
    correlation = _known_quoted(correlation_id) or _quote(correlation_id)
    kind = _known_quoted(event_type) or _quote(event_type)
    commit = b2a_base64(commitment, newline=False).decode()
    try:
        return (
            f'{head}{cause}"correlation_id":{correlation},"event_id":"{event_id}","event_type":{kind},'
            f'"payload":{{"alg":"salted-sha256","commit":"{commit}","len":{payload_bytes}}},"recorded_at":"'.encode(),
            f'",{version}"source":{source_json},"timestamp":"{timestamp}","v":1}}'.encode(),
        )
    except UnicodeEncodeError as error:
        raise _not_unicode(error) from None


def header_bytes(
    event_id: str,
    event_type: str,
    timestamp: str,
    source_json: str,
    correlation_id: str,
    causation_id: str | None,
    schema_version: int | None,
    attributes_json: str | None,
    commitment: bytes,
    payload_bytes: int,
    recorded_at: str,
) -> bytes:
    """The whole header; arguments and errors as for :func:`header_parts`."""
    prefix, suffix = header_parts(
        event_id,
        event_type,
        timestamp,
        source_json,
        correlation_id,
        causation_id,
        schema_version,
        attributes_json,
        commitment,
        payload_bytes,
    )
    return prefix + recorded_at.encode() + suffix


def stored_leaf_input(
    event_id: bytes,
    event_type: str,
    timestamp: str,
    source_json: str,
    correlation_id: str,
    causation_id: bytes | None,
    schema_version: int | None,
    attributes_json: str | None,
    commitment: bytes,
    payload_bytes: int,
    recorded_at: str,
) -> bytes:
    """0x00 ‖ header of stored columns, in one piece: what a verifier hashes for every leaf.

    As :func:`header_bytes`, with ids of 16 bytes. Raises ``UnicodeEncodeError`` for text that is not valid Unicode.
    """
    key = event_id.hex()
    head = "\0{" if attributes_json is None else f'\0{{"attributes":{attributes_json},'
    if causation_id is not None:
        cause = causation_id.hex()
        head += f'"causation_id":"{cause[:8]}-{cause[8:12]}-{cause[12:16]}-{cause[16:20]}-{cause[20:]}",'
    version = "" if schema_version is None or schema_version == 1 else f'"schema_version":{schema_version},'
    return (
        f'{head}"correlation_id":{_known_quoted(correlation_id) or _quote(correlation_id)},'
        f'"event_id":"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}",'
        f'"event_type":{_known_quoted(event_type) or _quote(event_type)},'
        f'"payload":{{"alg":"salted-sha256","commit":"{b2a_base64(commitment, newline=False).decode()}",'
        f'"len":{payload_bytes}}},"recorded_at":"{recorded_at}",{version}"source":{source_json},'
        f'"timestamp":"{timestamp}","v":1}}'
    ).encode()


def _quote(text: str) -> str:
    if len(_quoted_texts) >= _QUOTED_MAX:
        _quoted_texts.clear()
    quoted = _quoted_texts[text] = _quoted(text)
    return quoted


def canonical_json(value: object) -> bytes:
    """RFC 8785 bytes of a value made of dict (text keys), list, str, bool, None and int within ±(2^53−1).

    Raises :class:`InvalidEvent`, with the JSON path, for a float, a larger integer, another type,
    text that is not valid Unicode, or nesting beyond 64.
    """
    parts: list[str] = []
    _write(value, parts, "$", 0)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError as error:
        raise _not_unicode(error) from None


def is_canonical_object(text: str) -> bool:
    """Whether a text is one JSON object written as :func:`canonical_json` writes it.

    :func:`header_parts` takes ``source_json`` and ``attributes_json`` as they are. Who rebuilds a header from stored
    columns must ask this first: otherwise text moved from one column into another leaves the header the same.
    """
    try:
        value = msgspec.json.decode(text)
        return isinstance(value, dict) and canonical_json(value).decode() == text
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, InvalidEvent):
        return False


def _write(value: object, parts: list[str], path: str, depth: int) -> None:
    if isinstance(value, str):
        parts.append(_quoted(value))
    elif value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, int):
        if not -_INT_MAX <= value <= _INT_MAX:
            raise InvalidEvent(f"{path} is an integer beyond ±(2^53-1); give it as text", path=path)
        parts.append(int.__repr__(value))
    elif depth == _DEPTH_MAX:
        raise InvalidEvent(f"{path} is nested deeper than {_DEPTH_MAX}", path=path)
    elif isinstance(value, dict):
        mark = "{"
        for key in _sorted_keys(value, path):
            parts.append(f"{mark}{_quoted(key)}:")
            _write(value[key], parts, f"{path}.{key}", depth + 1)
            mark = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        mark = "["
        for index, item in enumerate(value):
            parts.append(mark)
            _write(item, parts, f"{path}[{index}]", depth + 1)
            mark = ","
        parts.append("]" if value else "[]")
    else:
        raise InvalidEvent(
            f"{path} is a {type(value).__name__}, which has no place in a header; give it as text", path=path
        )


def _sorted_keys(mapping: dict[str, object], path: str) -> list[str]:
    """Keys in the order of RFC 8785 §3.2.3: by UTF-16 code units."""
    for key in mapping:
        if not isinstance(key, str):
            raise InvalidEvent(f"{path} has a key of type {type(key).__name__}; keys are text", path=path)
    if all(map(str.isascii, mapping)):
        return sorted(mapping)
    return sorted(mapping, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _not_unicode(error: UnicodeEncodeError) -> InvalidEvent:
    around = error.object[max(0, error.start - 20) : error.start + 20]
    return InvalidEvent(f"text with a lone surrogate is not valid Unicode: {around!r}; replace it")
