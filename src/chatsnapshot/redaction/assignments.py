"""Values that stand behind the name of a secret in text: JSON, URLs, command lines, environments, headers, code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chatsnapshot.redaction.marks import MARK
from chatsnapshot.redaction.names import Named, looks_random, named, placeholder, plausible

__all__ = ["Hit", "assignments", "kept_scheme"]

Hit = tuple[int, int, str]
"""Start and end in the text, and the kind."""

VALUE_CHARS_MAX = 4_096

_QUOTE = r"\\{0,15}[\"']"
_NAME = r"[A-Za-z_$][\w.$-]{1,79}"
_ASSIGNED = re.compile(
    rf"(?<![\w.$-])(?:-{{1,2}})?(?P<name>{_NAME})(?P<close>{_QUOTE})?\]?"
    rf"(?P<sep>[ \t]{{0,4}}(?:=>|:=|[:=])(?:[ \t]|\\[nt]){{0,4}})"
    rf"(?P<open>[fbru]?{_QUOTE})?",
    re.ASCII,
)
_OPTION = re.compile(
    rf"(?<![\w-])--(?P<name>[A-Za-z][\w-]{{1,63}})[ \t]{{1,4}}(?P<open>{_QUOTE})?"
    rf"(?P<value>[^\s\"'\\-][^\s\"'\\]{{0,511}})"
)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][\w.:-]{1,63})>(?P<value>[^<>\r\n]{1,512})</(?P=name)>")
_SAID = re.compile(
    r"(?<![a-z])(?:password|passwd|passphrase|passcode|passwort|api[ _-]?key|access token|secret)"
    r"[ \t]{1,3}(?:is|was|:|lautet)[ \t]{1,3}(?P<open>\\{0,7}[\"'`])?(?P<value>[^\s\"'`\\]{4,256})",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?<![a-z])(?:password|passwd|passwort)[ \t]{1,3}(?P<value>[^\s\"'`\\<>(){}\[\]=:,;]{7,128})",
    re.IGNORECASE,
)
_PAIRS = (
    re.compile(
        r"\bdefine\([ \t]{0,4}[\"'](?P<name>\w{2,64})[\"'][ \t]{0,4},[ \t]{0,4}[\"'](?P<value>[^\"'\r\n]{1,512})[\"']"
    ),
    re.compile(
        r"\b(?:key|name)=\"(?P<name>[\w.-]{2,64})\"[ \t]{1,4}value=\"(?P<value>[^\"\r\n]{1,512})\"",
        re.IGNORECASE,
    ),
    re.compile(r"\bENV[ \t]{1,4}(?P<name>\w{2,64})[ \t]{1,4}(?P<value>[^\s\"'=]{1,512})"),
)
_COMMANDS = (
    re.compile(
        r"curl\b[^\r\n|;]{0,400}?[ \t](?:-u|--user)[ =\t]{1,4}[\"']?[^\s:\"']{1,64}:(?P<value>[^\s\"']{1,256})"
    ),
    re.compile(r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?(?P<value>[^\s\"'-][^\s\"']{0,255})"),
)
_UNQUOTED = re.compile(r"[^\s\"'`&;,<>\\)\]}|]{1,2048}")
_LINE = re.compile(rf"[^\r\n\"'`\\]{{1,{VALUE_CHARS_MAX}}}")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w-]{1,31})[ \t]{1,4}(?=\S)")
_DIGEST_CHARS_MAX = 1_024
_DIGEST = re.compile(r"\bresponse=\\{0,7}\"(?P<value>[0-9a-fA-F]{16,128})")
_CODE = re.compile(
    r"[A-Za-z_][\w.]{0,200}[(\[]|(?:[A-Za-z_]\w{0,80}\.){1,8}[A-Za-z_]\w{0,80};?\Z|[A-Za-z_]\w{0,80}::"
)
_TYPE = re.compile(r"(?:str|string|int|bytes|bool|any|optional|none|secretstr)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]+\Z")


def kept_scheme(value: str) -> int:
    """Where the secret begins in the value of an ``Authorization`` header: behind ``Bearer``, ``Basic`` and the like."""
    scheme = _SCHEME.match(value)
    return scheme.end() if scheme else 0


def assignments(text: str) -> Iterator[Hit]:
    """The values behind names of secrets. Runs in linear time: every quantifier is bounded."""
    closings = _Closings(text)
    at = 0
    while (found := _ASSIGNED.search(text, at)) is not None:
        at = found.end()
        meaning = named(found["name"])
        if meaning is None:
            if found["open"] is not None:
                at = found.start("open")
            elif "\\" in found["sep"]:
                at = found.start("sep") + 1
            continue
        span = _value(text, found, meaning, closings)
        if span is not None:
            yield *span, meaning.kind
            at = max(at, span[1])
    for option in _OPTION.finditer(text) if "--" in text else ():
        meaning = named(option["name"])
        value = option["value"]
        if meaning is not None and (plausible(value) if meaning.any_value else looks_random(value)):
            yield option.start("value"), option.end("value"), meaning.kind
    for bare in _BARE.finditer(text):
        value = bare["value"].rstrip(".!?")
        if plausible(value) and _is_strong(value):
            yield bare.start("value"), bare.start("value") + len(value), "password"
    for pairs in _PAIRS:
        for pair in pairs.finditer(text):
            meaning = named(pair["name"])
            if meaning is not None and _counts(pair["value"], meaning):
                yield pair.start("value"), pair.end("value"), meaning.kind
    if "</" in text:
        for element in _ELEMENT.finditer(text):
            meaning = named(element["name"])
            if meaning is not None and _counts(element["value"], meaning):
                yield element.start("value"), element.end("value"), meaning.kind
    for said in _SAID.finditer(text):
        value = said["value"].rstrip(".,;:!?)") if said["open"] is None else said["value"]
        if (plausible(value) or (said["open"] is not None and not placeholder(value))) and not MARK.match(
            value
        ):
            yield said.start("value"), said.start("value") + len(value), "password"
    for command in _COMMANDS if "curl" in text or "sshpass" in text else ():
        for used in command.finditer(text):
            if not placeholder(used["value"]):
                yield used.start("value"), used.end("value"), "password"


def _is_strong(value: str) -> bool:
    """Whether a word has a digit, and a capital or a symbol inside: few words of prose do."""
    digit = any("0" <= char <= "9" for char in value)
    return digit and any(char.isupper() or char in "!#$%^&*+~?@" for char in value)


def _counts(value: str, meaning: Named) -> bool:
    if placeholder(value) or MARK.fullmatch(value):
        return False
    return meaning.any_value or looks_random(value)


def _value(text: str, found: re.Match[str], meaning: Named, closings: _Closings) -> tuple[int, int] | None:
    """Where the value stands; ``None`` when there is none that counts."""
    start = found.end()
    quote = found["open"]
    if quote is not None:
        quote = quote.lstrip("fbru")
        end = closings.after(quote, start)
        if end is None:
            if found["close"] is None:
                return None
            line = _LINE.match(text, start)  # JSON that was cut off
            end = line.end() if line else start
        elif end - start > VALUE_CHARS_MAX or "\n" in text[start:end]:
            return None
        if text[start : start + 1] in (")", ",", ";", " ", ""):
            return None
        return _part(text, start, end, meaning)
    loose = ":" in found["sep"] or " " in found["sep"]
    if meaning.kind == "authorization":
        return None if "=" in found["sep"] else _header(text, start)
    if meaning.kind == "cookie":
        if "=" in found["sep"] or text.find("=", start, start + VALUE_CHARS_MAX) < 0:
            return None
        line = _LINE.match(text, start)
        if line is None or "=" not in line[0]:
            return None
        return _part(text, start, start + len(line[0].rstrip()), meaning)
    plain = _UNQUOTED.match(text, start)
    if plain is None:
        return None
    value = plain[0]
    if MARK.match(text, start) or placeholder(value) or _CODE.match(value) or value.startswith(("/", "-")):
        return None
    if not meaning.any_value:
        return plain.span() if looks_random(value) else None
    if loose:
        return plain.span() if plausible(value) else None
    if _WORD.match(value) and (len(value) < 4 or _TYPE.match(value) or _is_variable(value)):
        return None
    return plain.span()


def _header(text: str, start: int) -> tuple[int, int] | None:
    """The secret of an ``Authorization`` header, behind its scheme."""
    scheme = _SCHEME.match(text, start)
    if scheme is not None and scheme["scheme"].lower() == "digest":
        answer = _DIGEST.search(text, start, start + _DIGEST_CHARS_MAX)
        return None if answer is None else answer.span("value")
    token = _UNQUOTED.match(text, scheme.end() if scheme else start)
    if token is None or not (plausible(token[0]) or looks_random(token[0])):
        return None
    return token.span()


def _is_variable(value: str) -> bool:
    lowered = value.lower()
    return any(
        part in lowered for part in ("pass", "pwd", "secret", "token", "key", "cred", "auth", "cookie")
    )


def _part(text: str, start: int, end: int, meaning: Named) -> tuple[int, int] | None:
    """The part of a whole value that is taken out."""
    value = text[start:end]
    if meaning.kind == "authorization":
        start += kept_scheme(value)
        value = text[start:end]
    return (start, end) if value and _counts(value, meaning) and not _is_name(value, meaning) else None


def _is_name(value: str, meaning: Named) -> bool:
    """``password="password"`` tells a label, not a password."""
    again = named(value) if _WORD.match(value) else None
    return again is not None and again.kind == meaning.kind


class _Closings:
    """Finds closing quotes; remembers what is not there, so that looking often stays linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._gone: set[str] = set()

    def after(self, quote: str, start: int) -> int | None:
        """Where the quote stands next, with exactly as many backslashes before it."""
        if quote in self._gone:
            return None
        at, tries = start, 0
        while tries < 64:
            at = self._text.find(quote, at)
            if at < 0:
                self._gone.add(quote)
                return None
            if at == start or self._text[at - 1] != "\\":
                return at
            at += len(quote)
            tries += 1
        return None
