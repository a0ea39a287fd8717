"""CPU time of this process and of a server: what a busy machine changes less than it changes seconds on the clock."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.measure import Contestant

__all__ = ["CpuTimes"]

_TICKS = os.sysconf("SC_CLK_TCK")


class CpuTimes:
    """Wraps contestants, and notes what each of their rounds took: here, and in the processes of a server (Linux)."""

    def __init__(self, server: Callable[[], int]) -> None:
        self._server = server
        self._found: dict[str, list[tuple[float, float]]] = {}

    def around(self, contestants: Mapping[str, Contestant]) -> dict[str, Contestant]:
        """The same contestants, measured."""
        return {name: self._measured(name, work) for name, work in contestants.items()}

    def _measured(self, name: str, work: Contestant) -> Contestant:
        def measured() -> int:
            here, there = time.process_time(), _of_processes(self._server())
            items = work()
            found = self._found.setdefault(name, [])
            found.append(
                (
                    (time.process_time() - here) / items,
                    (_of_processes(self._server()) - there) / items,
                )
            )
            return items

        return measured

    def row(self) -> str:
        """One line: medians of all rounds but the first, in microseconds an event, client + server."""
        parts = []
        for name, found in self._found.items():
            here, there = (
                statistics.median(one[side] for one in found[1:] or found) * 1e6 for side in (0, 1)
            )
            parts.append(f"{name} {here:,.1f} + {there:,.1f}")
        return f"    CPU in µs an event, client + server: {'; '.join(parts)}"


def _of_processes(first: int) -> float:
    """Seconds that a process and its children have used, also those that have ended."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    ended: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ran = sum(
                int((task / "schedstat").read_text().split()[0]) for task in (folder / "task").iterdir()
            )
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = ran / 1e9
        ended[int(folder.name)] = (int(fields[13]) + int(fields[14])) / _TICKS
    family, wave = {first}, {first}
    while wave:
        wave = {process for process, parent in parents.items() if parent in wave}
        family |= wave
    return sum(used.get(one, 0.0) for one in family) + ended.get(first, 0.0)
