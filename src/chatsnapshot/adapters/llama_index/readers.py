"""Answers that are read later: whose code runs right now because one is being read."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from chatsnapshot.adapters.llama_index.watched import Place

__all__ = ["Readers"]


class Readers:
    """Generators that LlamaIndex gave its callers, and the calls of models and engines whose answers they are.

    What happens in them is in no span of theirs any more: the span was over when they were given.
    """

    def __init__(self, dropped: Callable[[Place], None]) -> None:
        self._dropped = dropped
        self._streams: dict[int, tuple[weakref.ref[Any], Place]] = {}

    def add(self, stream: Any, place: Place) -> None:
        """An answer is read from ``stream``; when nobody can do so any more, that is told."""
        key = id(stream)
        self._streams[key] = (weakref.ref(stream), place)
        finalizer = weakref.finalize(stream, self._gone, key, place)
        finalizer.atexit = False

    def _gone(self, key: int, place: Place) -> None:
        self._streams.pop(key, None)
        self._dropped(place)

    def here(self) -> Place | None:
        """The innermost one that the code of here and now runs in, by its frames."""
        frames: dict[FrameType, Place] = {}
        for known, place in list(self._streams.values()):
            stream = known()
            inside = getattr(stream, "gi_frame", None) or getattr(stream, "ag_frame", None)
            if inside is not None:
                frames[inside] = place
        frame = sys._getframe() if frames else None
        while frame is not None and frame not in frames:
            frame = frame.f_back
        return None if frame is None else frames[frame]
