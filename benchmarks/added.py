"""What recording adds to a run, in bare records made in the run itself and in a loop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import chatsnapshot
from benchmarks.measure import Result, interleave

__all__ = ["ADDED_MAX", "Turn", "grown", "instead", "report", "same"]

ADDED_MAX = 1.5
ROUNDS_TIMES = 3
GROWN_EVENTS = 1_000
"""More than fit into the 4,000 pages after which SQLite begins its log anew, at some five pages a commit."""


def same(ledger: chatsnapshot.Ledger) -> list[dict[str, Any]]:
    """What a ledger holds, as arguments of bare ``record`` calls."""
    return [
        {"event_type": one.event_type, "payload": one.payload, "correlation_id": one.correlation_id}
        for one in ledger.read()
    ]


def grown(ledger: chatsnapshot.Ledger, events: list[dict[str, Any]]) -> None:
    """Record the events until the file has had a checkpoint: commits are slower while its log still grows."""
    for number in range(GROWN_EVENTS):
        ledger.record(**events[number % len(events)])


def instead(recorder: Any, ledger: Any) -> Any:
    """A recorder that builds its events, and has them recorded one at a time by a bare ``record``, or not at all."""

    def record(*events: Any, seconds_max: float | None = None) -> None:
        for event in events if ledger is not None else ():
            ledger.record(event["event_type"], event["payload"], correlation_id=event["correlation_id"])

    async def arecord(*events: Any) -> None:
        record(*events)

    recorder.safe.record, recorder.safe.arecord = record, arecord
    return recorder


class Turn:
    """A turn of a contestant; remembers the processor time of each item, in seconds."""

    def __init__(self, count: int, work: Callable[[], object]) -> None:
        self._count, self._work = count, work
        self.cpu: list[float] = []

    def __call__(self) -> int:
        begin = time.process_time()
        self._work()
        self.cpu.append((time.process_time() - begin) / self._count)
        return self._count


def report(
    what: str, count: int, contestants: dict[str, Callable[[], object]], rounds: int
) -> dict[str, Result]:
    """Measure side by side and print; ``count`` events are recorded in a turn.

    The contestants are ``alone`` (the run, not recorded), ``recorded``, ``loop`` (the same events by bare ``record`` in
    a loop), ``inside`` (the run with a bare ``record`` where the recorder is told of an event), ``silent`` (the run whose
    events are built and recorded by nobody), and ``traced`` where there is OpenTelemetry for it. Others are left to the
    caller, who gets what was found.
    """
    turns = {name: Turn(count, work) for name, work in contestants.items()}
    found = interleave(turns, ROUNDS_TIMES * rounds)  # a difference of two times is noisier than they are
    cpu = {name: turn.cpu for name, turn in turns.items()}
    times = {name: [1 / rate for rate in one.rates] for name, one in found.items()}
    cpu = {name: took[1:] for name, took in cpu.items()}  # the first round warms up
    verdict = "  ok" if _bare_records(times) <= ADDED_MAX else f"  ABOVE {ADDED_MAX:g}"
    print(f"  {what:<28} time {_line(times)}{verdict}")
    print(f"  {'':<28} CPU  {_line(cpu)}")
    return found


def _line(took: dict[str, list[float]]) -> str:
    """What was measured, in microseconds an event."""

    def micros(more: str, less: str | None = None) -> str:
        less_by = took[less] if less else [0.0] * len(took[more])
        return f"{statistics.median(a - b for a, b in zip(took[more], less_by, strict=True)) * 1e6:>6,.0f} µs"

    traced = f", OpenTelemetry {micros('traced', 'alone')}" if "traced" in took else ""
    return (
        f"adds {micros('recorded', 'alone')}{traced}; a bare record {micros('inside', 'silent')}, in a loop "
        f"{micros('loop')}; run alone {micros('alone')}   ratio {_bare_records(took):5.2f}, "
        f"{_bare_records(took, 'loop'):5.2f}"
    )


def _bare_records(took: dict[str, list[float]], where: str = "inside") -> float:
    """The median over the rounds of what is added, in bare records made in the run or in a loop."""
    rounds = range(len(took["recorded"]))
    added = [took["recorded"][at] - took["alone"][at] for at in rounds]
    bare = [took[where][at] - (took["silent"][at] if where == "inside" else 0) for at in rounds]
    return statistics.median(one / two for one, two in zip(added, bare, strict=True))
