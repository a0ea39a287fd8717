"""Reads a page as a browser does: elements with their attributes, the text of a section, headings in order."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from chatsnapshot.exporters.html import render_page
from chatsnapshot.exporters.html.facts import gather

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """``elements`` are name, attributes and the names of the elements around, in document order."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.bytes = data
        self.html = data.decode()
        self.elements: list[tuple[str, dict[str, str], tuple[str, ...]]] = []
        self.texts: list[tuple[tuple[str, ...], str | None, str]] = []
        self.faults: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(self.html)
        self.close()
        self.faults += [f"{name} is never closed" for name, _ in self._open]

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attributes}
        if len(given) != len(attributes):
            self.faults.append(f"{name} has an attribute twice")
        self.elements.append((name, given, tuple(one for one, _ in self._open)))
        if name not in VOID:
            self._open.append((name, given.get("id")))

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, {key: value or "" for key, value in attributes}, ()))

    def handle_endtag(self, name: str) -> None:
        if not self._open or self._open[-1][0] != name:
            self.faults.append(f"</{name}> inside {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        around = tuple(name for name, _ in self._open)
        section = next((key for name, key in self._open if name == "section"), None)
        self.texts.append((around, section, data))

    @property
    def text(self) -> str:
        """All text but the style sheet, white space as one space."""
        return " ".join(" ".join(text for around, _, text in self.texts if "style" not in around).split())

    def section(self, key: str) -> str:
        """The text of the section with this id."""
        return " ".join(
            "".join(self._spaced(around, text) for around, id, text in self.texts if id == key).split()
        )

    @staticmethod
    def _spaced(around: tuple[str, ...], text: str) -> str:
        inline = {"bdi", "a", "strong", "em"}
        return text if around[-1] in inline else f" {text} "

    @property
    def headings(self) -> list[tuple[int, str]]:
        """Level and text of the headings, in order."""
        found: list[tuple[int, str]] = []
        for around, _, text in self.texts:
            level = next((name for name in around if name in ("h1", "h2", "h3", "h4")), None)
            if level is not None:
                found.append((int(level[1]), text))
        return found


@pytest.fixture
def read_page() -> Callable[[bytes], Page]:
    """``read_page(data)``: a page, of which every element must be closed where it should."""

    def read(data: bytes) -> Page:
        page = Page(data)
        assert page.faults == []
        return page

    return read


@pytest.fixture
def page_of(read_page: Callable[[bytes], Page]) -> Callable[..., Page]:
    """``page_of(ledger, run="run-1", **options)``: the page of a run, read."""

    def make(ledger: Any, run: str = "run-1", **options: Any) -> Page:
        return read_page(render_page(gather(ledger, run, **options)))

    return make
