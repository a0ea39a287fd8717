"""Takes lines of events from a request into a ledger, in a thread of its own, in memory that does not grow with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from typing import Any

from chatsnapshot.errors import InvalidEvent, LedgerError
from chatsnapshot.ingesting import BadLine, Ingest, IngestReport
from chatsnapshot.server.bodies import chunks
from chatsnapshot.server.endpoints import Call
from chatsnapshot.server.pipes import Pipe
from chatsnapshot.server.problems import problem_of

__all__ = ["FAILURES_MAX", "Lines", "report_of"]

FAILURES_MAX = 1_000


class Lines:
    """The lines of one request. ``stop`` ends at the first that is refused, with what came before it stored."""

    def __init__(self, call: Call, *, stop: bool = False) -> None:
        self._call = call
        self._stop = stop
        self._failures: list[BadLine] = []
        self._results: asyncio.Queue[IngestReport | None] | None = None
        self._loop = asyncio.get_running_loop()

    async def take(self, items: Iterable[Any]) -> dict[str, Any]:
        """Take events that are there already; gives the report."""
        return await asyncio.to_thread(self._work, items)

    async def read(self) -> dict[str, Any]:
        """Take the body as it arrives; gives the report after its end."""
        call, pipe = self._call, Pipe()
        with call.service.uploads.one():
            work = asyncio.ensure_future(asyncio.to_thread(self._work, pipe))
            try:
                async for piece in chunks(call.request, call.service.settings):
                    if not await pipe.feed(piece):
                        break
                pipe.end()
            except BaseException as error:
                pipe.end(error if isinstance(error, Exception) else OSError("the request was given up"))
                await asyncio.wait([work])
                if not work.cancelled():
                    work.exception()
                raise
            return await work

    async def results(self) -> AsyncIterator[dict[str, Any]]:
        """What became of the lines, batch by batch, while the body arrives; at last the report."""
        results: asyncio.Queue[IngestReport | None] = asyncio.Queue()
        self._results = results
        reading = asyncio.ensure_future(self.read())
        reading.add_done_callback(lambda _: results.put_nowait(None))
        told = 0
        try:
            while (report := await results.get()) is not None:
                yield report_of(report, self._failures[told:])
                told = len(self._failures)
            try:
                yield {"done": True, **await reading}
            except Exception as error:
                yield {"done": True, "problem": problem_of(error).body()}
        finally:
            reading.cancel()

    def _work(self, items: Any) -> dict[str, Any]:
        """In a thread: everything from ``items`` into the ledger."""
        call = self._call
        settings = call.service.settings
        work = Ingest(
            call.ledger,
            redact=settings.redact,
            skip_bad=not self._stop,
            on_bad=self._on_bad,
            progress=self._on_progress,
            depth_max=settings.depth_max,
            line_bytes_max=settings.event_bytes_max,
        )
        with closing(work):
            try:
                work.take(items)
            except InvalidEvent:
                if not self._stop or not self._failures:
                    raise
            except LedgerError as error:
                problem = problem_of(error)
                problem.more.update(report_of(work.report, self._failures))
                raise problem from None
            finally:
                if isinstance(items, Pipe):
                    items.abandon()
                call.service.counts.recorded(work.report.stored + work.report.known)
            return report_of(work.report, self._failures)

    def _on_bad(self, bad: BadLine) -> None:
        if len(self._failures) < FAILURES_MAX:
            self._failures.append(bad)

    def _on_progress(self, report: IngestReport) -> None:
        results = self._results
        if results is not None:
            self._loop.call_soon_threadsafe(results.put_nowait, report)


def report_of(report: IngestReport, failures: Iterable[BadLine]) -> dict[str, Any]:
    """The report as it is answered; everything up to ``committed_through_line`` is settled."""
    return {
        "stored": report.stored,
        "known": report.known,
        "failed": report.bad_count,
        "failures": [{"line": bad.number, "reason": bad.reason} for bad in failures],
        "committed_through_line": report.lines,
        "last_position": report.last_position,
    }
