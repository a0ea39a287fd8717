"""HTML and SVG put together so that text stays text: what was not made here is escaped, and its controls are shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from html import escape

from chatsnapshot.events.text import one_line, visible

__all__ = ["Anchors", "Html", "element", "isolated", "joined", "said", "said_lines", "table", "void"]

_ISOLATES = ("\u2068", "\u2069")
"""First strong isolate, pop directional isolate (UAX 9)."""

_AT_ISOLATES = re.compile("([\u2068\u2069])")


class Html(str):
    """Markup that is finished; any other ``str`` is text and gets escaped."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | int | None) -> Html:
    """``<name …>children</name>``. Children that are no :class:`Html`, and every attribute, are escaped.

    ``_`` at the end of an attribute's name is dropped and others become ``-``; ``None`` leaves the attribute out.
    """
    return Html(f"<{name}{_attributes(attributes)}>{joined(children)}</{name}>")


def void(name: str, **attributes: str | int | None) -> Html:
    """``<name …/>``: an element without content."""
    return Html(f"<{name}{_attributes(attributes)}/>")


def joined(children: Iterable[str]) -> Html:
    """Children one after the other."""
    return Html("".join([one if type(one) is Html else _text(one) for one in children]))


def _text(text: str) -> str:
    return escape(_shown(text), quote=False)


def _attributes(given: dict[str, str | int | None]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{value if type(value) is int else escape(_shown(str(value)))}"'
        for name, value in given.items()
        if value is not None
    )


def _shown(text: str) -> str:
    """Controls made visible, but for the isolates of :func:`isolated`, which are ours."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if one in _ISOLATES else visible(one, newlines=True) for one in _AT_ISOLATES.split(text)
    )


def said(text: str, chars_max: int = 200) -> Html:
    """Text from outside on one line, in an element that keeps its direction of writing to itself."""
    return Html(f"<bdi>{escape(one_line(text, chars_max), quote=False)}</bdi>")


def said_lines(text: str, chars_max: int) -> Html:
    """Text from outside with its lines; what is over ``chars_max`` characters is cut, and counted."""
    cut = text[:chars_max]
    more = len(text) - len(cut)
    shown = f"<bdi>{escape(visible(cut, newlines=True), quote=False)}</bdi>"
    return Html(shown + (f' <em class="dim">… {more:,} more characters</em>' if more else ""))


def isolated(text: str, chars_max: int = 120) -> str:
    """Text from outside for places that take no elements (titles, labels): its direction is isolated by characters."""
    first, pop = _ISOLATES
    return f"{first}{one_line(text, chars_max)}{pop}"


class Anchors:
    """Links to the positions that the page lists; a position that it does not list is a number without a link."""

    def __init__(self, listed: Collection[int]) -> None:
        self._listed = listed

    def __call__(self, position: int) -> Html:
        """The link to a position."""
        if position in self._listed:
            return Html(f'<a class="n" href="#p{position}">{position}</a>')
        return Html(f'<span class="n">{position}</span>')

    def href(self, position: int) -> str | None:
        """Where a link to the position leads; ``None`` when it is not listed."""
        return f"#p{position}" if position in self._listed else None


def table(caption: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """A table in a frame that scrolls on its own; the first cell of each row is its heading."""
    body = []
    for cells in rows:
        first, *rest = cells
        body.append(element("tr", element("th", first, scope="row"), *(element("td", one) for one in rest)))
    head = element("tr", *(element("th", one, scope="col") for one in headings))
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll", role="region", tabindex=0, aria_label=caption)
