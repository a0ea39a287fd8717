"""The shapes that readers of the critical path get: spans, the ones that the end waited for, and when nothing went on."""

from __future__ import annotations

import msgspec

__all__ = ["CriticalPath", "IdleGap", "PathStep", "Span"]


class Span(msgspec.Struct, frozen=True):
    """Something that took time, from ``from_ns`` to ``to_ns`` after the timeline's start.

    ``kind``: ``run``, ``workflow``, ``task``, ``tool``, ``question``, ``integration`` or ``model``. ``depth`` is how deep
    it stands among the spans that hold it. ``open``: no end was recorded, ``to_ns`` is the last time that is known.
    ``on_path``: its end, or something inside it, is on the critical path.
    """

    position: int
    end_position: int | None
    correlation_id: str
    kind: str
    what: str
    who: str | None
    from_ns: int
    to_ns: int
    depth: int
    open: bool
    failed: bool
    on_path: bool


class PathStep(msgspec.Struct, frozen=True):
    """A stretch of the critical path: within the span at ``position`` (``None``: outside of all spans).

    ``own``: the span's own time, in which nothing that it holds and the end waited for went on.
    """

    kind: str
    what: str
    position: int | None
    from_ns: int
    to_ns: int
    duration_ns: int
    own: bool


class IdleGap(msgspec.Struct, frozen=True):
    """A stretch of at least a second in which no task, tool, model, service or person was at work."""

    from_ns: int
    to_ns: int
    duration_ns: int
    after_position: int | None
    before_position: int | None


class CriticalPath(msgspec.Struct, frozen=True):
    """Where the time of a run and its children went. Durations are nanoseconds.

    ``steps`` follow each other without a hole from the first known time to the last: their durations add up to
    ``duration_ns``. In ``busy_ns`` a task, tool, model or service was at work, in ``parallel_ns`` at least two were
    (``at_once``: the most); in ``waiting_ns`` a question to a person was open, in ``idle_ns`` none of these.
    ``open_spans`` have no end; of ``unknown_spans`` a time is unknown, or an end comes before its start.
    """

    correlation_id: str
    last_position: int
    started_at: str | None
    duration_ns: int
    busy_ns: int
    parallel_ns: int
    at_once: int
    waiting_ns: int
    idle_ns: int
    open_spans: int
    unknown_spans: int
    steps: tuple[PathStep, ...]
    gaps: tuple[IdleGap, ...]
    spans: tuple[Span, ...]
