"""A transcript as text for a terminal and as Markdown: pure functions, agent text escaped."""

from __future__ import annotations

from chatsnapshot.projections.shapes import Transcript

__all__ = ["render_markdown", "render_text"]


def render_text(transcript: Transcript, *, children: str = "inline", width: int = 100) -> str:
    """The transcript as plain text whose lines are at most ``width`` wide where words allow; ends with a line feed.

    ``children``: ``inline`` shows child runs indented at the place of their cause, ``link`` names them only.
    """
    raise NotImplementedError


def render_markdown(transcript: Transcript, *, children: str = "inline") -> str:
    """The transcript as CommonMark: agent text cannot end a block, open HTML or become a link target."""
    raise NotImplementedError
