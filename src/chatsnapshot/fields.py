"""Checks the fields of an event and gives each in its stored form: ids, cause, source, attributes."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chatsnapshot.clock import uuid_bytes
from chatsnapshot.envelope import ORIGINS, EventEnvelope, LedgerEntry, Source
from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.integrity import canonical_json
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.pending import Pending

__all__ = [
    "Causelike",
    "attributes_text",
    "cause_key",
    "checked_text",
    "correlation_text",
    "sequence_expected",
    "source_text",
]

Causelike = str | uuid.UUID | LedgerEntry | EventEnvelope | Pending


def checked_text(value: object, what: str, chars_max: int) -> str:
    """An id or name: text of 1 to ``chars_max`` characters, NFC, without control characters; int and UUID as text."""
    if isinstance(value, str):
        text = str.__str__(value) if type(value) is not str else value
    elif isinstance(value, uuid.UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        text = hex(value) if isinstance(value, int) and value.bit_length() > 4_096 else str(value)
    else:
        raise InvalidEvent(f"{what} must be text, an int or a UUID, not {type(value).__name__}", path=what)
    if not text:
        raise InvalidEvent(f"{what} is empty; give 1 to {chars_max} characters", path=what)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidEvent(f"{what} {text!r:.80} has a lone surrogate; replace it", path=what) from None
        text = unicodedata.normalize("NFC", text)
    if len(text) > chars_max:
        raise InvalidEvent(
            f"{what} has {len(text)} characters, and id_chars_max is {chars_max}; shorten it or hash it",
            path=what,
        )
    if not text.isprintable() and any(unicodedata.category(char) == "Cc" for char in text):
        raise InvalidEvent(f"{what} {text!r:.80} has a control character; take it out", path=what)
    return text


def correlation_text(value: object, limits: Limits = DEFAULTS) -> str:
    """A correlation id as it is stored."""
    return checked_text(value, "correlation_id", limits.id_chars_max)


def cause_key(cause: object) -> bytes | None:
    """The 16 bytes of a cause given as text, UUID, entry, envelope or ``Pending``."""
    if cause is None:
        return None
    if isinstance(cause, LedgerEntry):
        return cause.event_key
    if isinstance(cause, (EventEnvelope, Pending)):
        return uuid_bytes(cause.event_id, "causation_id")
    return uuid_bytes(cause, "causation_id")


_SOURCE_KEYS = frozenset({"origin", "runtime", "name"})


def source_text(source: object, limits: Limits = DEFAULTS) -> str:
    """A source (``Source`` or mapping) as canonical JSON."""
    try:
        if type(source) is Source:
            return _known_source(source, limits.id_chars_max)
        if type(source) is dict and source.keys() <= _SOURCE_KEYS:
            parts = (source.get("origin"), source.get("runtime"), source.get("name"))
            if all(part is None or type(part) is str for part in parts):
                return _known_parts(*parts, limits.id_chars_max)
    except TypeError:  # a field that cannot be hashed is no text: said below
        pass
    return _source_text(source, limits.id_chars_max)


@lru_cache(4_096)
def _known_source(source: Source, chars_max: int) -> str:
    """Few sources differ in one ledger."""
    return _source_text(source, chars_max)


@lru_cache(4_096)
def _known_parts(origin: str | None, runtime: str | None, name: str | None, chars_max: int) -> str:
    return _source_text({"origin": origin, "runtime": runtime, "name": name}, chars_max)


def _source_text(source: object, chars_max: int) -> str:
    if isinstance(source, Source):
        parts: Mapping[str, Any] = source.to_dict()
    elif isinstance(source, Mapping):
        parts = source
    else:
        raise InvalidEvent(
            f"source must be a Source or a mapping, not {type(source).__name__}", path="source"
        )
    unknown = sorted(str(key) for key in parts if key not in ("origin", "runtime", "name"))
    if unknown:
        raise InvalidEvent(
            f"source has an unknown key {unknown[0]!r}; origin, runtime and name are known", path="source"
        )
    origin = parts.get("origin")
    if origin not in ORIGINS:
        raise InvalidEvent(
            f"source.origin is one of {', '.join(ORIGINS)}, not {origin!r:.80}", path="source.origin"
        )
    runtime = parts.get("runtime")
    if runtime is None or runtime == "":
        runtime = "none"
    made = {"origin": origin, "runtime": checked_text(runtime, "source.runtime", chars_max)}
    if parts.get("name") is not None:
        made["name"] = checked_text(parts["name"], "source.name", chars_max)
    return canonical_json(made).decode()


def attributes_text(attributes: object, limits: Limits = DEFAULTS) -> str | None:
    """Attributes as canonical JSON, ``None`` when there are none.

    Keys read ``[a-z][a-z0-9_.]{0,63}``; values are text, bool, int within ±(2^53-1) or lists of text. Any other value
    becomes text.
    """
    if attributes is None:
        return None
    if not isinstance(attributes, Mapping):
        raise InvalidEvent(
            f"attributes must be a mapping, not {type(attributes).__name__}", path="attributes"
        )
    made: dict[str, object] = {}
    for key, value in attributes.items():
        if not isinstance(key, str) or not _attribute_key(key):
            raise InvalidEvent(
                f"attribute {key!r:.80} must read [a-z][a-z0-9_.]{{0,63}}; put other data into the payload",
                path="attributes",
            )
        if value is not None:
            made[key] = _attribute_value(value)
    if not made:
        return None
    text = canonical_json(made)
    if len(text) > limits.attributes_bytes_max:
        raise LimitExceeded(
            "attributes_bytes_max", limits.attributes_bytes_max, len(text), "put large data into the payload"
        )
    return text.decode()


def _attribute_key(key: str) -> bool:
    return 0 < len(key) <= 64 and key[0] in _LETTERS and all(char in _KEY_CHARS for char in key)


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_KEY_CHARS = _LETTERS | frozenset("0123456789_.")
_INT_MAX = 2**53 - 1


def _attribute_value(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and -_INT_MAX <= value <= _INT_MAX:
        return int(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_attribute_text(item) for item in value]
        return sorted(items) if isinstance(value, (set, frozenset)) else items
    return _attribute_text(value)


def _attribute_text(value: object) -> str:
    if isinstance(value, (LedgerEntry, EventEnvelope, Pending)):
        return value.event_id
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-8", "replace").decode()


def sequence_expected(expected: object) -> int | None:
    """``expected_sequence`` as it may be: ``None``, or 0 and more."""
    if expected is None:
        return None
    if isinstance(expected, bool) or not isinstance(expected, int) or expected < 0:
        raise InvalidEvent(f"expected_sequence is 0 or more, not {expected!r}", path="expected_sequence")
    return expected
