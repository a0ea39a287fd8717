"""The look before the look: tells in microseconds that a payload holds nothing to take out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chatsnapshot.redaction.names import has_name
from chatsnapshot.redaction.patterns import SECRETS, Pattern
from chatsnapshot.redaction.text import Finder

__all__ = ["Hints", "Look", "check_hints"]


class Look(NamedTuple):
    """What a text has to be searched for."""

    finders: tuple[Finder, ...]
    names: bool

    def __bool__(self) -> bool:
        return bool(self.finders) or self.names


_RUN_CHARS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_RUNS = bytes(ord("a") if byte in _RUN_CHARS else ord(" ") for byte in range(256))
_RUN_CHARS_LEAST = 16
_RUN = "a" * _RUN_CHARS_LEAST
"""The shortest token of a known form; prose has no run of so many letters, digits and dashes."""

_WORDS = bytes(byte if byte in _RUN_CHARS else ord(" ") for byte in range(256))
_IN_AN_ID = b"0123456789abcdef-"
"""What ids of events and runs, digests and trace ids consist of: nearly every event has such words, and few have other
long ones. No hint of a built-in pattern consists of these alone."""

_NEED_A_RUN = frozenset(
    pattern
    for pattern in SECRETS
    if (pattern.public and pattern.kind != "webhook-secret")
    or pattern.kind
    in ("authorization", "aws-secret-access-key", "discord-webhook", "slack-webhook", "telegram-token")
)
"""Built-in patterns whose hits hold a run, or stand behind a name of a secret."""

_NO_LOOK = Look((), False)


class Hints:
    """Chooses, for the bytes of an event, the patterns of which a hint stands there, and whether a name does.

    A find costs some 150 ns in 300 bytes, so few are made unless something is there.
    """

    def __init__(self, finders: Sequence[Finder], names: bool) -> None:
        self._all = Look(tuple(finders), names)
        self._names = names
        self._always = tuple(finder for finder in finders if not finder.pattern.hints)
        with_hints = [finder for finder in finders if finder.pattern.hints]
        self._runs = _by_hint([finder for finder in with_hints if finder.pattern in _NEED_A_RUN])
        self._others = _by_hint([finder for finder in with_hints if finder.pattern not in _NEED_A_RUN])
        self._binary = _by_hint([finder for finder in with_hints if finder.pattern.binary])
        in_runs: list[str] = []
        beside: list[str] = []
        for _, hint, _, folded in self._runs:
            (beside if folded or not set(hint.encode()) <= _RUN_CHARS else in_runs).append(hint)
        self._in_runs = tuple((_rarest(hint), hint) for hint in dict.fromkeys(in_runs))
        self._beside_runs = tuple((_rarest(hint.lower()), hint.lower()) for hint in dict.fromkeys(beside))

    def look(self, data: bytes) -> Look:
        """What to search for in JSON bytes or UTF-8 text."""
        text = data.decode("latin-1")  # one byte a character: the fastest to search
        if "\\" in text and ("\\u" in text or "\\/" in text):
            return self._all  # letters may be written as escapes
        if ("$" in text and '"bytes"' in text) or ";base64," in text:
            return self._all  # base64 hides everything
        lowered = data.lower().decode("latin-1")
        names = self._names and has_name(lowered)
        chosen: list[Finder] = []
        run = _RUN in data.translate(_RUNS).decode("latin-1")
        if (run or names) and self._runs and (names or self._known_run(data, lowered)):
            chosen += [
                finder for _, hint, finder, folded in self._runs if hint in (lowered if folded else text)
            ]
        for rarest, hint, finder, folded in self._others:
            if rarest in (lowered if folded else text) and hint in (lowered if folded else text):
                chosen.append(finder)
        if not chosen and not names and not self._always:
            return _NO_LOOK
        return Look((*self._always, *dict.fromkeys(chosen)), names)

    def _known_run(self, data: bytes, lowered: str) -> bool:
        """Whether one of the long runs has the form of a known token, or a hint stands beside."""
        for rarest, hint in self._beside_runs:
            if rarest in lowered and hint in lowered:
                return True
        long_words = [word for word in data.translate(_WORDS).split() if len(word) >= _RUN_CHARS_LEAST]
        words = [word for word in long_words if word.strip(_IN_AN_ID)]
        if not words:
            return False
        long = b" ".join(words).decode("latin-1")
        return any(rarest in long and hint in long for rarest, hint in self._in_runs)

    def binary(self, data: bytes) -> tuple[Finder, ...]:
        """The patterns that binary data has to be searched for."""
        found = (finder for _, hint, finder, _ in self._binary if data.find(hint.encode()) >= 0)
        return tuple(dict.fromkeys(found))


_BY_RARITY = "~QZXJVKYWUGFHBMPLDCORSNTIEA@_:/-zqxjkvbpgwyfmcudlhrsniotae. "


def _by_hint(finders: Sequence[Finder]) -> tuple[tuple[str, str, Finder, bool], ...]:
    """Each hint with its rarest letter (one letter is found much faster), finder, and whether case is folded."""
    return tuple(
        (_rarest(hint), hint, finder, finder.pattern.ignore_case)
        for finder in finders
        for hint in (text.lower() if finder.pattern.ignore_case else text for text in finder.pattern.hints)
    )


def _rarest(hint: str) -> str:
    return min(hint, key=lambda char: _BY_RARITY.find(char) % 999)


def check_hints(pattern: Pattern) -> bool:
    """Whether the hints can be found in stored JSON: ASCII, printable, no quotes and backslashes."""
    return all(
        len(hint) >= 2 and hint.isascii() and hint.isprintable() and not set(hint) & {'"', "\\"}
        for hint in pattern.hints
    )
