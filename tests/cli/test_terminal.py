"""No text moves the cursor, changes a colour or hides: it is shown."""

from __future__ import annotations

import io
import json

import pytest

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim, red
from chatsnapshot.cli.width import columns

HOSTILE = {
    "ESC": "\x1bc",
    "CSI": "\x1b[2J\x1b[31m",
    "OSC 8": "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "OSC 52": "\x1b]52;c;cm0gLXJm\x07",
    "OSC 0": "\x1b]0;title\x07",
    "DCS": "\x1bP$q\x1b\\",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d52;c;x\x9c",
    "NEL": "a\x85b",
    "BEL": "\x07",
    "CR": "safe\rlies",
    "backspace": "abc\b\b\bxyz",
    "line feed": "one\ntwo",
    "form feed": "\f\v",
    "NUL": "a\x00b",
    "DEL": "a\x7fb",
    "right to left": "user\u202egpj.exe",
    "isolate": "\u2066x\u2069",
    "zero width": "pass\u200bword\u2060\ufeff",
    "line separator": "a\u2028b\u2029c",
    "tag": "\U000e0041",
    "surrogate": "\ud800x\udfff",
    "long": "x" * 100_000,
}


class Screen(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def screen(encoding: str = "utf-8", *, tty: bool = False, width: int = 80, colour: bool = False) -> Terminal:
    stream = (Screen if tty else io.TextIOWrapper)(io.BytesIO(), encoding=encoding, newline="")
    return Terminal(stream, width=width, tty=tty, colour=colour)


def written(out: Terminal) -> str:
    out.flush()
    raw = out.stream.buffer.getvalue()  # type: ignore[attr-defined]
    return raw.decode(out.encoding)


def obeyed(text: str) -> list[str]:
    """Characters that a terminal would obey instead of draw."""
    return [
        c
        for c in text
        if (c < " " and c != "\n")
        or "\x7f" <= c <= "\x9f"
        or c in "\u202e\u2066\u2069\u200b\u2060\ufeff\u2028"
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_one_harmless_line(name: str, encoding: str) -> None:
    out = screen(encoding, tty=True, colour=False)
    out.line(HOSTILE[name], " ", dim(HOSTILE[name]))
    text = written(out)
    assert obeyed(text) == []
    assert text.count("\n") == 1
    assert text.strip()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_in_a_table_keeps_rows_and_width(name: str, encoding: str) -> None:
    out = screen(encoding, width=60)
    table(
        out, (Column("ID", gives=2), Column("WHAT", gives=1)), [("run-1", HOSTILE[name]), ("run-2", "fine")]
    )
    text = written(out)
    assert obeyed(text) == []
    assert text.count("\n") == 3
    assert max(columns(line) for line in text.splitlines()) <= 60


def test_a_block_obeys_line_feeds_and_nothing_else() -> None:
    out = screen()
    out.block("one\ntwo\x1b[2J\rthree\n")
    text = written(out)
    assert obeyed(text) == []
    assert text.count("\n") == 2


def test_colour_is_drawn_only_where_it_was_asked_for() -> None:
    plain, coloured = screen(), screen(colour=True)
    for out in (plain, coloured):
        out.line(red("failed"), " ", "calm")
    assert written(plain) == "failed calm\n"
    assert written(coloured) == "\x1b[31mfailed\x1b[0m calm\n"


def test_a_styled_text_cannot_bring_its_own_colours() -> None:
    out = screen(colour=True)
    out.line(red("\x1b[0m\x1b[32mall good"))
    assert written(out).count("\x1b") == 2


@pytest.mark.parametrize(
    ("tty", "variables", "drawn"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colour_needs_a_terminal_and_honours_no_color(
    monkeypatch: pytest.MonkeyPatch, tty: bool, variables: dict[str, str], drawn: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = (Screen if tty else io.TextIOWrapper)(io.BytesIO(), encoding="utf-8")
    assert Terminal.of(stream).colour is drawn


def test_the_width_is_that_of_COLUMNS(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "73")
    assert Terminal.of(io.StringIO()).width == 73


def test_a_stream_that_is_closed_from_the_start_takes_everything() -> None:
    out = Terminal.of(None)
    out.line("nobody reads this")
    out.json_line(b"{}")
    out.flush()


def test_json_goes_to_a_pipe_byte_for_byte() -> None:
    out = screen("ascii")
    document = '{"a":"é\u202e\x9b日"}'.encode()
    out.json_line(document)
    out.flush()
    assert out.stream.buffer.getvalue() == document + b"\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "surrogate"])
def test_json_on_a_terminal_is_harmless_and_still_the_same_json(name: str, encoding: str) -> None:
    out = screen(encoding, tty=True)
    out.json_line(json.dumps({"text": HOSTILE[name] + "é😀"}, ensure_ascii=False).encode())
    text = written(out)
    assert obeyed(text) == []
    assert json.loads(text) == {"text": HOSTILE[name] + "é😀"}


def test_a_tree_is_drawn_in_what_the_encoding_has() -> None:
    assert screen("utf-8").unicode
    assert not screen("ascii").unicode
    assert screen("ascii").mark == "..."


def test_wide_characters_keep_the_columns_aligned() -> None:
    out = screen()
    table(
        out,
        (Column("NAME"), Column("N", right=True)),
        [("日本", "1"), ("cafe\u0301", "22"), ("abcdef", "333")],
    )
    lines = written(out).splitlines()
    assert len({columns(line) for line in lines}) == 1


def test_a_column_without_a_text_is_left_out() -> None:
    out = screen()
    table(out, (Column("A"), Column("B"), Column("C")), [("1", "", "3"), ("4", "", "6")])
    assert written(out).splitlines()[0] == "A  C"


def test_ids_give_way_only_after_everything_else_did() -> None:
    out = screen(width=50)
    table(out, (Column("RUN", gives=2), Column("WHAT", gives=1)), [("r" * 30, "w" * 60)])
    row = written(out).splitlines()[1]
    assert "r" * 30 in row
    assert columns(row) <= 50
