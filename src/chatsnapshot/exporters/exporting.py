"""``export``: writes what a ledger holds in one of the formats, to a file that appears whole or to a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.exporters.base import Exporter, ExportReport, Sink, Tally
from chatsnapshot.exporters.choosing import Choice, check_filters
from chatsnapshot.exporters.formats import exporter_of
from chatsnapshot.exporters.html.pages import HtmlPages
from chatsnapshot.exporters.placing import Counting, check_not_of_ledger, placed
from chatsnapshot.redaction import redactor_of

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["export"]


def export(
    ledger: Ledger,
    output: str | os.PathLike[str] | Sink,
    format: str | Exporter,
    *,
    runs: str | Sequence[str] | None = None,
    children: bool = True,
    until: Any = None,
    evaluation: str | Sequence[str] = (),
    entries: bool = False,
    redact: object = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **filters: Any,
) -> ExportReport:
    """Export ``runs`` (correlation ids; ``None``: the whole ledger) in ``format``: one of :data:`FORMATS`, or your own.

    ``output`` is a path, or an object with ``write(bytes)``. A path gets its file whole, or none: an older file is
    refused without ``force``. ``html`` makes a folder of pages where the path is a folder or ends with ``/``.
    ``children`` takes child runs in; ``until`` is a position or a recorded time, inclusive; ``evaluation`` keeps runs
    that were judged so (``"correctness>=0.8"``; of several, all must hold). ``filters`` are those of
    :meth:`Ledger.read` for formats of events: ``event_type``, ``origin``, ``runtime``, ``name``, ``attributes``,
    ``causation_id``, ``start``, ``end``. ``redact`` is what ``open(redact=...)`` takes and changes what is written,
    not what is stored. ``progress(done, whole)`` is called on the way.

    Raises :class:`NotFound` for an unknown format or run, :class:`InvalidEvent` for options that do not go together,
    :class:`MissingExtra`, ``OSError``.
    """
    exporter = exporter_of(format, entries=entries) if isinstance(format, str) else format
    named = [runs] if isinstance(runs, str) else runs
    if exporter.runs_only:
        check_filters(filters, exporter.format)
    if exporter.one_run and (named is None or len(named) != 1):
        raise InvalidEvent(f"{exporter.format} draws one run with its children; name one run")
    path = os.fspath(output) if isinstance(output, (str, os.PathLike)) else None
    if path is not None:
        check_not_of_ledger(path, ledger.url)
    choice = Choice(
        ledger,
        runs=named,
        children=children,
        until=until,
        evaluation=[evaluation] if isinstance(evaluation, str) else evaluation,
        filters=filters,
        redactor=redactor_of(redact, "withhold"),
        progress=progress,
    )
    tally = Tally()
    if path is not None and isinstance(exporter, HtmlPages) and _is_folder(path):
        written = exporter.write_folder(choice, path, tally, force=force)
        return _report(exporter, path, written, tally, choice)
    with nullcontext(output) if path is None else placed(path, force=force) as sink:
        counting = Counting(sink)  # type: ignore[arg-type]
        exporter.write(choice, counting, tally)
    return _report(exporter, path, counting.bytes, tally, choice)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) or path.endswith(os.sep)


def _report(exporter: Exporter, path: str | None, bytes: int, tally: Tally, choice: Choice) -> ExportReport:
    return ExportReport(
        format=exporter.format,
        unit=exporter.unit,
        path=path,
        bytes=bytes,
        written=tally.written,
        left_out=dict(sorted(tally.left_out.items())),
        last_position=choice.until,
    )
