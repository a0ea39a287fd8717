"""Text from agents made safe to show: no character of it can move a cursor, hide or reorder what stands beside it."""

from __future__ import annotations

import re

__all__ = ["one_line", "visible"]

_C0 = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str, *, newlines: bool = False) -> str:
    """Text in which every control character is shown instead of obeyed.

    C0 controls and DEL become their control pictures (ESC is ``\u241b``); C1 controls, bidirectional controls,
    zero-width spaces, line and paragraph separators, tags and lone surrogates become ``<U+202E>``. Joiners (U+200C,
    U+200D) stay: Persian, Indic scripts and emoji are spelled with them.
    ``newlines=True`` keeps line feeds, and carriage return with line feed as one line feed. Tabs become one space.
    """
    if newlines:
        text = text.replace("\r\n", "\n")

    def show(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code == 0x0A and newlines:
            return "\n"
        if code == 0x09:
            return " "
        return _C0.get(code) or f"<U+{code:04X}>"

    return _UNSAFE.sub(show, text)


def one_line(text: str, chars_max: int = 120) -> str:
    """``visible(text)`` on one line: runs of white space become one space; cut to ``chars_max`` with an ellipsis."""
    # A cut before the escaping keeps the cost of a huge text small: each character shows as at least one.
    flat = visible(" ".join(text[: chars_max * 4 + 1].split()))
    if len(flat) > chars_max or len(text) > chars_max * 4 + 1:
        flat = flat[: chars_max - 1].rstrip() + "…"
    return flat
