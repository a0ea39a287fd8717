"""The look before the look: tells in about a microsecond that a small payload holds nothing to take out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from chatsnapshot.redaction.patterns import SECRETS, Pattern
from chatsnapshot.redaction.text import Finder

__all__ = ["Hints", "Look"]


class Look(NamedTuple):
    """What a text has to be searched for."""

    finders: tuple[Finder, ...]
    names: bool

    def __bool__(self) -> bool:
        return bool(self.finders) or self.names


NOTHING = Look((), False)

_RUN_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_RUNS = bytes(ord("a") if byte in _RUN_CHARS else ord(" ") for byte in range(256))
_RUN = b"a" * 16
"""The shortest token of a known form; prose has no run of so many letters, digits and dashes."""

_WITH_A_RUN = frozenset(
    pattern for pattern in SECRETS if pattern.public and pattern.kind not in ("webhook-secret",)
)

_KEY = re.compile(
    rb"(?:api|access|private|secret|encryption|signing|master|account|auth|app|goog)[-_ .]?keys?(?![a-z])"
)
_AUTH = re.compile(rb"auth(?!or(?!iz)|entic)")
_CONNECTION = re.compile(rb"conn(?:ection)?[-_ ]?str")


class Hints:
    """Chooses, for the bytes of an event, the patterns of which a hint stands there, and whether a name does."""

    def __init__(self, finders: Sequence[Finder], names: bool) -> None:
        self._all = Look(tuple(finders), names)
        self._names = names
        self._always = tuple(finder for finder in finders if not finder.pattern.hints)
        with_hints = [finder for finder in finders if finder.pattern.hints]
        self._tokens = _by_hint(
            [finder for finder in with_hints if finder.pattern in _WITH_A_RUN], ignore_case=False
        )
        rest = [finder for finder in with_hints if finder.pattern not in _WITH_A_RUN]
        self._exact = _by_hint(
            [finder for finder in rest if not finder.pattern.ignore_case], ignore_case=False
        )
        self._folded = _by_hint([finder for finder in rest if finder.pattern.ignore_case], ignore_case=True)
        self._binary = _by_hint([finder for finder in with_hints if finder.pattern.binary], ignore_case=False)

    def look(self, data: bytes) -> Look:
        """What to search for in JSON bytes or UTF-8 text."""
        if b"\\" in data and (b"\\u" in data or b"\\/" in data):
            return self._all  # letters may be written as escapes
        if b"data:" in data or b'"bytes"' in data:
            return self._all  # base64 hides everything
        lowered = data.lower()
        chosen: list[Finder] = []
        if self._tokens and _RUN in data.translate(_RUNS):
            chosen += [finder for hint, finder in self._tokens if hint in data]
        for hint, finder in self._exact:
            if hint in data:
                chosen.append(finder)
        for hint, finder in self._folded:
            if hint in lowered:
                chosen.append(finder)
        names = self._names and _has_name(lowered)
        if not chosen and not names and not self._always:
            return NOTHING
        return Look((*self._always, *dict.fromkeys(chosen)), names)

    def binary(self, data: bytes) -> tuple[Finder, ...]:
        """The patterns that binary data has to be searched for."""
        return tuple(dict.fromkeys(finder for hint, finder in self._binary if hint in data))


def _by_hint(finders: Sequence[Finder], *, ignore_case: bool) -> tuple[tuple[bytes, Finder], ...]:
    return tuple(
        ((hint.lower() if ignore_case else hint).encode(), finder)
        for finder in finders
        for hint in finder.pattern.hints
    )


def _has_name(lowered: bytes) -> bool:
    """Whether the name of a secret may stand in lower-case text."""
    return (
        b"pass" in lowered
        or b"secret" in lowered
        or (b"key" in lowered and _KEY.search(lowered) is not None)
        or (b"token" in lowered and lowered.count(b"token") != lowered.count(b"tokens"))
        or (b"auth" in lowered and _AUTH.search(lowered) is not None)
        or b"pw" in lowered
        or b"cookie" in lowered
        or b"credential" in lowered
        or (b"conn" in lowered and _CONNECTION.search(lowered) is not None)
        or b"sig=" in lowered
        or b"curl" in lowered
        or b"x-amz-s" in lowered
    )


def check_hints(pattern: Pattern) -> bool:
    """Whether the hints can be found in stored JSON: ASCII, printable, no quotes and backslashes."""
    return all(
        len(hint) >= 2 and hint.isascii() and hint.isprintable() and not set(hint) & {'"', "\\"}
        for hint in pattern.hints
    )
