"""Makes JSON texts that readers refuse readable: torn ones closed behind their last whole item, lone halves replaced."""

from __future__ import annotations

import json
import re

__all__ = ["closed", "without_lone_surrogates"]

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|["{}\[\]]', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CLOSING = {b"{": b"}", b"[": b"]"}


def closed(data: bytes, lists: frozenset[bytes]) -> tuple[bytes, int] | None:
    """The text up to its last whole object in a list with one of these names, with what is open closed behind it.

    Gives as well the byte at which the rest begins; ``None`` where no such object is whole. ``data`` is UTF-8.
    """
    end = _broken_at(data)
    open_: list[tuple[bytes, bytes]] = []
    key = b""
    found: tuple[int, bytes] | None = None
    for token in _TOKEN.finditer(data, 0, end):
        sign = token[0][:1]
        if sign == b'"':
            if token[0] == b'"':
                break  # a text without an end: what follows is inside of it
            if token[1] is not None:
                key = token[0][: -len(token[1])].strip(b'"')
        elif sign in _CLOSING:
            open_.append((sign, key))
            key = b""
        elif not open_ or _CLOSING[open_.pop()[0]] != sign:
            break
        elif sign == b"}" and open_ and open_[-1][0] == b"[" and open_[-1][1] in lists:
            found = token.end(), b"".join(_CLOSING[one] for one, _ in reversed(open_))
    return None if found is None else (data[: found[0]] + found[1], found[0])


def without_lone_surrogates(data: bytes) -> bytes:
    """The text with U+FFFD for each half of a surrogate pair that stands alone, which strict readers refuse; as long."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], data)


def _broken_at(data: bytes) -> int:
    """The byte at which the text stops being JSON."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        data = data[: error.start]
        text = data.decode()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return len(text[: error.pos].encode())
    except (ValueError, RecursionError):
        return 0
    return len(data)
