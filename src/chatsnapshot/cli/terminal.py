"""Where a command writes: a stream whose width, encoding and colours are known; no text can take it over.

Everything is made visible before it is written: an agent's ESC arrives as the picture of one, never as
itself. Only this module writes escape sequences, and only to a terminal.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from typing import NamedTuple, TextIO

from chatsnapshot.cli.width import columns
from chatsnapshot.events.text import visible

__all__ = ["Styled", "Terminal", "Text", "bold", "cyan", "dim", "green", "red", "yellow"]

PLAIN_COLUMNS = 120
"""Width of tables when standard output is no terminal and ``COLUMNS`` is not set."""

NARROWEST = 40
"""Tables are laid out for at least this many columns."""


class Styled(NamedTuple):
    """A text and how it is drawn (SGR parameters); drawn plainly where there is no colour."""

    text: str
    sgr: str


Text = str | Styled
"""What can be written: a plain or a styled text; neither needs to be made safe before."""


def bold(text: str) -> Styled:
    """For names and headings."""
    return Styled(text, "1")


def dim(text: str) -> Styled:
    """For what the eye may skip."""
    return Styled(text, "2")


def red(text: str) -> Styled:
    """For failures."""
    return Styled(text, "31")


def green(text: str) -> Styled:
    """For success."""
    return Styled(text, "32")


def yellow(text: str) -> Styled:
    """For what waits or is unknown."""
    return Styled(text, "33")


def cyan(text: str) -> Styled:
    """For things to type or to look up."""
    return Styled(text, "36")


class Terminal:
    """One output stream, with what is known about it.

    ``width`` is in columns, ``tty`` says whether a person is likely to look, ``colour`` whether styles are
    drawn (a terminal, and ``NO_COLOR`` is not set), ``unicode`` whether box characters can be encoded.
    """

    def __init__(self, stream: TextIO, *, width: int, tty: bool, colour: bool) -> None:
        self.stream = stream
        self.width = max(width, NARROWEST)
        self.tty = tty
        self.colour = colour
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            "├└│─…–".encode(self.encoding)
            self.unicode = True
        except UnicodeEncodeError:
            self.unicode = False
        self.mark = "…" if self.unicode else "..."

    @classmethod
    def of(cls, stream: TextIO | None) -> Terminal:
        """The terminal behind a stream; a stream that is not there takes everything and keeps nothing."""
        if stream is None:
            return cls(io.StringIO(), width=PLAIN_COLUMNS, tty=False, colour=False)
        tty = stream.isatty()
        colour = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(
            stream, width=shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns, tty=tty, colour=colour
        )

    @classmethod
    def stdout(cls) -> Terminal:
        """Standard output, as it is now."""
        return cls.of(sys.stdout)

    def clean(self, text: str) -> str:
        """``text`` as it will be seen: control characters shown, what cannot be encoded as ``\\xe9``."""
        return self._encodable(visible(text))

    def one_line(self, text: str) -> str:
        """``text`` cleaned, with every run of blanks and line ends as one blank."""
        return self.clean(_BLANKS.sub(" ", text).strip())

    def _encodable(self, text: str) -> str:
        if not self.unicode:
            text = text.translate(_WITHOUT_UNICODE)
        return text.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def draw(self, piece: Text) -> str:
        """A piece cleaned and, where colours are drawn, styled."""
        if isinstance(piece, Styled):
            text = self.clean(piece.text)
            return f"\x1b[{piece.sgr}m{text}\x1b[0m" if self.colour and text else text
        return self.clean(piece)

    def measure(self, piece: Text) -> int:
        """The columns that a piece takes when it is drawn."""
        return columns(self.clean(piece.text if isinstance(piece, Styled) else piece))

    def line(self, *pieces: Text) -> None:
        """Write the pieces as one line; a line end inside them is shown, not obeyed."""
        self.stream.write("".join(map(self.draw, pieces)).rstrip(" ") + "\n")

    def block(self, text: str) -> None:
        """Write a text of several lines; only its line feeds are obeyed."""
        for line in text.rstrip("\n").split("\n"):
            self.stream.write(self.clean(line) + "\n")

    def json_line(self, document: bytes) -> None:
        """Write a JSON text (UTF-8) and a line end, byte for byte; to a terminal with ``\\u`` escapes."""
        if self.tty:
            self.stream.write(_SUSPECT.sub(self._escape, document.decode()) + "\n")
            return
        binary = getattr(self.stream, "buffer", None)
        if binary is None:
            self.stream.write(document.decode() + "\n")
        else:
            self.stream.flush()
            binary.write(document + b"\n")

    def _escape(self, found: re.Match[str]) -> str:
        """A character of a JSON text as it is, or escaped where it cannot be shown safely."""
        character = found.group()
        if character == "\n" or self.clean(character) == character:
            return character
        units = character.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4))

    def flush(self) -> None:
        """Send what was written on its way."""
        self.stream.flush()


_BLANKS = re.compile(r"[ \t\r\n\v\f\x85\u2028\u2029]+")

_WITHOUT_UNICODE = str.maketrans({"…": "...", "–": "-", "·": "-", "→": "->", "×": "x", "✓": "ok", "✗": "no"})

_SUSPECT = re.compile(r"[^\x20-\x7e]")
