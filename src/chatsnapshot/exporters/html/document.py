"""The frame of every page: what a browser may load for it (nothing), how it looks, and its body."""

from __future__ import annotations

from chatsnapshot.exporters.html.markup import Html, element
from chatsnapshot.exporters.html.style import STYLE

__all__ = ["document"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may load for the page: nothing."""


def document(title: str, *body: Html) -> bytes:
    """The whole page as UTF-8."""
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<meta name="referrer" content="no-referrer">'),
        element("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    page = f'<!doctype html>\n<html lang="en">\n{head}\n{element("body", *body)}\n</html>\n'
    return page.encode("utf-8", "replace")
