"""The words of an event that a search finds, and how scripts without blanks between words are taken apart."""

from __future__ import annotations

import re

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import payload_of, placeholder, text_of
from chatsnapshot.projections.context.records import records_of, searchable
from chatsnapshot.projections.transcript import TranscriptProjection

__all__ = ["BYTES_INDEXED_MAX", "apart", "together", "words_of"]

BYTES_INDEXED_MAX = 100_000
"""Of each text of an event so many bytes are searched, and no more."""

_SEPARATOR = "\u200b"
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
    "|[\U00020000-\U0003ffff])"
)
_OURS = re.compile("[\u200b\ue000\ue001]")


def words_of(entry: LedgerEntry) -> str:
    """What a search finds of an event: its text as a transcript shows it, else its payload; ``""`` when erased."""
    if entry.payload_json is None:
        return ""
    payload = payload_of(entry)
    if placeholder(payload) is not None:
        return ""
    projection = TranscriptProjection()
    items = projection.apply(projection.initial(), entry).items
    if items:
        text = searchable(record for item in items for record in records_of(item, BYTES_INDEXED_MAX))
    else:
        rest = {key: value for key, value in payload.items() if key != "native"}
        text = text_of(rest) if rest else ""
    clean = _OURS.sub("", text[:BYTES_INDEXED_MAX])
    return clean.encode("utf-8", "replace").decode()


def apart(text: str) -> str:
    """Text in which each character of a script without blanks (Chinese, Japanese, Thai …) is a word of its own."""
    return _UNSPACED.sub(f"{_SEPARATOR}\\1{_SEPARATOR}", text.replace(_SEPARATOR, ""))


def together(text: str) -> str:
    """The text again as it was before :func:`apart`."""
    return text.replace(_SEPARATOR, "")
