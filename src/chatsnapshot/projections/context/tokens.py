"""Estimates how many tokens a text takes, from its characters alone: no vocabulary, nothing to download."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["Counter", "estimate_tokens", "name_of_counter"]

Counter = Callable[[str], int]
"""Gives the tokens of a text."""

_PIECES = re.compile(
    r"(?P<small>[a-z]+)"
    r"|(?P<capitals>[A-Z]+(?=[a-z])|[A-Z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<latin>[\u00aa-\u024f\u1e00-\u1eff]+)"
    r"|(?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)"
    r"|(?P<cyrillic>[\u0400-\u052f]+)"
    r"|(?P<semitic>[\u0590-\u06ff]+)"
    r"|(?P<indic>[\u0900-\u0eff]+)"
    r"|(?P<ideograph>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+)"
    r"|(?P<kana>[\u3000-\u30ff\uff00-\uffef]+)"
    r"|(?P<hangul>[\uac00-\ud7a3]+)"
    r"|(?P<lines>[\r\n]\s*)"
    r"|(?P<blanks>\s{2,})"
    r"|(?P<blank>\s)"
    r"|(?P<marks>[!-/:-@\[-`{-~]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_PER_CHARACTER = {
    "greek": 1.0,
    "cyrillic": 0.55,
    "semitic": 0.8,
    "indic": 1.15,
    "ideograph": 1.2,
    "kana": 1.0,
    "hangul": 1.25,
}
"""As the vocabularies of 2023 have it; newer ones make fewer tokens of these scripts."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a tokenizer makes of ``text``; ``docs/context.md`` states by how much it is wrong."""
    cost = sum(_cost(found.lastgroup or "", found[0]) for found in _PIECES.finditer(text))
    return int(cost + 0.999)


def _cost(kind: str, piece: str) -> float:
    """The tokens of one piece: a run of characters of one class."""
    length = len(piece)
    if kind in _PER_CHARACTER:
        return max(1.0, length * _PER_CHARACTER[kind])
    if kind == "small":
        # Common words are one token; longer ones, and names in code, fall into pieces.
        return 1.0 if length <= 7 else 1.0 + (length - 7) / 5
    if kind == "capitals":
        # A single one begins a word that is counted by its small letters.
        return 0.4 if length == 1 else 0.5 + length / 4
    if kind == "digits":
        return float((length + 2) // 3)
    if kind == "latin":
        return 0.4 + 0.8 * length
    if kind in ("lines", "blanks"):
        return 1.0
    if kind == "blank":
        return 0.05
    if kind == "marks":
        return max(1.0, length * 0.55)
    return len(piece.encode("utf-8", "surrogatepass")) * 0.6


def name_of_counter(counter: Counter) -> str:
    """What a context says its tokens were counted with."""
    return str(getattr(counter, "__name__", type(counter).__name__))
