"""Durations, offsets and statuses as people read them."""

from __future__ import annotations

from chatsnapshot.events.normaliser import Evaluation as ReadEvaluation
from chatsnapshot.projections.shapes import Errors, Evaluation, Run

__all__ = ["duration_text", "errors_text", "evaluation_text", "offset_text", "status_text"]

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400


def duration_text(nanoseconds: int | None) -> str:
    """A duration in human units: ``0.85 ms``, ``12.4 s``, ``3 m 05 s``, ``2 d 04 h``, ``unknown``."""
    if nanoseconds is None:
        return "unknown"
    if nanoseconds < 0:
        return "-" + duration_text(-nanoseconds)
    if nanoseconds < 999_500:
        return f"{nanoseconds / 1e6:.3g} ms" if nanoseconds else "0 ms"
    if nanoseconds < 9_950_000:
        return f"{nanoseconds / 1e6:.1f} ms"
    if nanoseconds < 999_500_000:
        return f"{nanoseconds / 1e6:.0f} ms"
    if nanoseconds < 9_995_000_000:
        return f"{nanoseconds / 1e9:.2f} s"
    if nanoseconds < 59_950_000_000:
        return f"{nanoseconds / 1e9:.1f} s"
    seconds = (nanoseconds + 500_000_000) // 1_000_000_000
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} m {seconds % _MINUTE:02d} s"
    minutes = (seconds + 30) // _MINUTE
    if minutes * _MINUTE < _DAY:
        return f"{minutes // 60} h {minutes % 60:02d} m"
    hours = (minutes + 30) // 60
    return f"{hours // 24} d {hours % 24:02d} h"


def offset_text(nanoseconds: int | None) -> str:
    """A place in time after the start: ``+00:00.000``, ``+01:12:03.500``, ``-00:00.010``, ``unknown``."""
    if nanoseconds is None:
        return "unknown"
    sign = "-" if nanoseconds < 0 else "+"
    milliseconds = (abs(nanoseconds) + 500_000) // 1_000_000
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours:02d}:" if hours else ""
    return f"{sign}{head}{minutes:02d}:{seconds:02d}.{milliseconds:03d}"


def errors_text(errors: Errors) -> str:
    """The failures in words, empty without any: ``1 tool error, 2 failed tasks``."""
    words = (
        (errors.tool, "tool error", "tool errors"),
        (errors.model, "model error", "model errors"),
        (errors.task, "failed task", "failed tasks"),
        (errors.integration, "integration error", "integration errors"),
        (errors.other, "error", "errors"),
        (errors.runs, "failed run below", "failed runs below"),
    )
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in words if count)


def evaluation_text(evaluation: Evaluation | ReadEvaluation) -> str:
    """A judgement in words: ``correctness 0.8 by judge``, ``tone rude, 0.1``."""
    score = "" if evaluation.score is None else f"{evaluation.score:.6g}"
    said = ", ".join(filter(None, (evaluation.label, score)))
    by = f"by {evaluation.evaluator}" if evaluation.evaluator else ""
    return " ".join(filter(None, (evaluation.name, said, by)))


def status_text(run: Run) -> str:
    """The status with what failed inside and what waits: ``completed, 1 tool error``."""
    both = run.errors + run.errors_below
    said = [run.status]
    if both.total:
        said.append(errors_text(both))
    if run.questions_open:
        said.append(f"{run.questions_open} open question{'s' if run.questions_open > 1 else ''}")
    if run.partial and run.status != "unknown":
        said.append("seen in part")
    return ", ".join(said)
