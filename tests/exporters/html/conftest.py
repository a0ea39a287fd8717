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
        """The text of the section with this id, without the marks that keep directions of writing apart."""
        found = "".join(self._spaced(around, text) for around, id, text in self.texts if id == key)
        return " ".join(found.replace("\u2068", "").replace("\u2069", "").split())

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


@pytest.fixture
def survey(ledger: Any) -> Callable[..., Any]:
    """``survey(events, text="…")``: a ledger with at least so many events of a run that asks one child after the other.

    Every tenth look of a child fails, every twentieth child never ends, and a person is asked once.
    """

    def record(events: int, text: str = "High tide at 04:12.") -> Any:
        made: list[dict[str, Any]] = []

        def add(
            event_type: str, payload: Any, correlation: str, cause: str | None, name: str = "planner"
        ) -> str:
            number = len(made) + 1
            event_id = f"00000000-0000-4000-8000-{number:012d}"
            minute, second = divmod(number, 60)
            made.append(
                {
                    "event_type": event_type,
                    "payload": payload,
                    "correlation_id": correlation,
                    "causation_id": cause,
                    "event_id": event_id,
                    "timestamp": f"2026-11-30T{minute // 60:02d}:{minute % 60:02d}:{second:02d}.000000Z",
                    "source": {"origin": "agent", "runtime": "test", "name": name},
                }
            )
            return event_id

        root = add("execution.run_started", {"name": "survey"}, "run-1", None)
        asked = add("execution.human_input_requested", {"question": "Shall I?"}, "run-1", root)
        add("execution.human_input_received", {"answers": asked, "answer": "yes"}, "run-1", asked, "dana")
        child = 0
        while len(made) < events:
            child += 1
            key = f"reader-{child}"
            call = add("execution.tool_call", {"name": "ask", "call_id": key}, "run-1", root)
            start = add("execution.run_started", {"name": "reader"}, key, call, "reader")
            look = {"name": "look", "call_id": "a", "arguments": {"page": child, "about": text}}
            seen = add("execution.tool_call", look, key, start, "reader")
            result = {"error": text} if child % 10 == 0 else {"result": text}
            last = add("execution.tool_result", {"call_id": "a", **result}, key, seen, "reader")
            add("execution.message", {"role": "assistant", "content": text}, key, last, "reader")
            if child % 20:
                add("execution.run_completed", {}, key, last, "reader")
            add("execution.tool_result", {"call_id": key, "result": text}, "run-1", call)
        for first in range(0, len(made), 1_000):
            ledger.record_many(made[first : first + 1_000])
        return ledger

    return record
