"""Takes lines of events from a request into a ledger, in a thread of its own, in memory that does not grow with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import closing
from typing import Any

from chatsnapshot.errors import CommitUncertain, InvalidEvent, LedgerError
from chatsnapshot.ingesting import BadLine, Ingest, IngestReport
from chatsnapshot.server.bodies import chunks
from chatsnapshot.server.counting import Slot
from chatsnapshot.server.endpoints import Call
from chatsnapshot.server.pipes import Pipe
from chatsnapshot.server.problems import Problem, problem_of
from chatsnapshot.server.shapes import FAILURES_MAX

__all__ = ["Lines", "report_of"]

_ENDING_SECONDS = 5.0
"""How long an upload may go on when the service is to end."""


class Lines:
    """The lines of one request. ``stop`` ends at the first that is refused, with what came before it stored.

    ``name`` makes the ids of events that bring none follow from it, their line and their content, so that the same
    upload again stores nothing twice; ``correlation_id`` is that of lines without one.
    """

    def __init__(
        self, call: Call, *, stop: bool = False, name: str | None = None, correlation_id: str | None = None
    ) -> None:
        self._call = call
        self._stop = stop
        self._options: dict[str, Any] = {"name": name, "correlation_id": correlation_id}
        self._failures: list[BadLine] = []
        self._report = IngestReport()
        self._settled: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()

    async def take(self, items: Iterable[Any]) -> dict[str, Any]:
        """Take events that are there already; gives the report."""
        return await asyncio.to_thread(self._work, items)

    async def read(self, slot: Slot) -> dict[str, Any]:
        """Take the body as it arrives; gives the report after its end, and the slot of the upload back."""
        call, pipe = self._call, Pipe()
        threads = call.service.upload_threads
        try:
            work = asyncio.ensure_future(self._loop.run_in_executor(threads, self._work, pipe))
            try:
                await self._feed(pipe)
            except BaseException as error:
                pipe.end(error if isinstance(error, Exception) else OSError("the request was given up"))
                await asyncio.wait([work])
                if not work.cancelled():
                    work.exception()
                if isinstance(error, Problem):
                    error.more.update(self._told(self._failures))
                raise
            report: dict[str, Any] = await work
            return report
        finally:
            slot.give()

    async def _feed(self, pipe: Pipe) -> None:
        service = self._call.service
        late: float | None = None
        async for piece in chunks(self._call.request, service.settings):
            if not await pipe.feed(piece):
                break
            if service.ending.is_set():
                late = late or self._loop.time() + _ENDING_SECONDS
                if self._loop.time() > late:
                    raise Problem(
                        503,
                        "ending",
                        "the service is being ended; send what comes after committed_through_line again",
                        retry_after=2,
                    )
        pipe.end()

    async def results(self, slot: Slot) -> AsyncGenerator[dict[str, Any], None]:
        """What became of the lines so far, while the body arrives; at last the report.

        A client that does not read them is told less often: nothing is kept for it but the last report.
        """
        self._settled = settled = asyncio.Event()
        reading = asyncio.ensure_future(self.read(slot))
        reading.add_done_callback(lambda _: settled.set())
        told = 0
        try:
            while True:
                await settled.wait()
                settled.clear()
                if reading.done():
                    break
                failures = self._failures[told:]
                told += len(failures)
                yield self._told(failures)
            try:
                yield {"done": True, **await reading}
            except Exception as error:
                problem = problem_of(error)
                self._call.service.counts.failed(problem.kind)
                yield {"done": True, "problem": problem.body()}
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()

    def _work(self, items: Any) -> dict[str, Any]:
        """In a thread: everything from ``items`` into the ledger."""
        settings = self._call.service.settings
        try:
            work = Ingest(
                self._call.ledger,
                redact=settings.redact,
                skip_bad=not self._stop,
                on_bad=self._on_bad,
                progress=self._on_progress,
                depth_max=settings.depth_max,
                line_bytes_max=settings.event_bytes_max,
                **self._options,
            )
            with closing(work):
                work.take(items)
        except InvalidEvent:
            if not self._stop or not self._failures:
                raise
        except LedgerError as error:
            problem = problem_of(error)
            if isinstance(error, CommitUncertain):
                problem.detail += "; lines without ids are known again by the name of the upload alone"
            problem.more.update(self._told(self._failures))
            raise problem from None
        finally:
            if isinstance(items, Pipe):
                items.abandon()
        return self._told(self._failures)

    def _told(self, failures: Iterable[BadLine]) -> dict[str, Any]:
        return report_of(self._report, failures, self._report.bad_count - len(self._failures))

    def _on_bad(self, bad: BadLine) -> None:
        if len(self._failures) < FAILURES_MAX:
            self._failures.append(bad)

    def _on_progress(self, report: IngestReport) -> None:
        old, self._report = self._report, report
        stored, known = report.stored - old.stored, report.known - old.known
        if stored or known:
            self._call.service.counts.recorded(stored + known, known)
        if self._settled is not None:
            self._loop.call_soon_threadsafe(self._settled.set)


def report_of(report: IngestReport, failures: Iterable[BadLine], left_out: int) -> dict[str, Any]:
    """The report as it is answered; everything up to ``committed_through_line`` is settled."""
    return {
        "stored": report.stored,
        "known": report.known,
        "failed": report.bad_count,
        "failures": [{"line": bad.number, "reason": bad.reason} for bad in failures],
        "failures_left_out": max(left_out, 0),
        "committed_through_line": report.lines,
        "last_position": report.last_position,
    }
