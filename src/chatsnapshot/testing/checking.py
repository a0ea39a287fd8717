"""Checks and their list: what each shows, which claim of a store it belongs to, and how it is run within a time."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.testing.expecting import Failed, Skipped

if TYPE_CHECKING:
    from chatsnapshot.testing.bench import Bench

__all__ = ["CLAIMS", "CONDITIONS", "TOPICS", "Check", "Result", "check", "registered"]

TOPICS: dict[int | str, str] = {
    1: "acknowledged means durable",
    2: "dense order",
    3: "exactly once by id, for ever",
    4: "atomic batches",
    5: "optimistic concurrency",
    6: "append only",
    7: "deterministic replay",
    8: "errors say what is known",
    9: "the recorder never harms the run",
    10: "fork, spawn, threads, asyncio, exit, Ctrl-C",
    "opening": "opening a ledger",
    "reading": "read, get, children",
    "following": "tail",
    "clock": "recorded_at",
    "blobs": "blobs",
    "copying": "import of whole entries",
    "erasing": "erased payloads",
    "projections": "state of projections",
    "histories": "any history, against a model",
}
"""The ten promises by their number, and the further duties of the Store contract, in the order of the report."""

CLAIMS: dict[str, str] = {
    "durable": "acknowledged events survive kill -9 and power loss",
    "processes": "several processes may use the ledger at once",
    "guarded": "the store itself refuses to change or remove an entry",
    "erases_in_commit": "the removal of a payload is in the transaction of its record",
}
"""What a store may claim (``Traits``); a check that needs a claim is not run where it is not made."""

CONDITIONS: dict[str, str] = {
    "server": "the bench was given a server to kill and to stand in front of: Bench(url, server=...)",
}
"""What a check may need of the bench; without it the check is not run either."""

SECONDS_MAX = 60.0
"""A check that takes longer hangs: it has failed."""


class Result(msgspec.Struct, frozen=True):
    """What became of one check. ``status`` is ``passed``, ``failed``, ``skipped`` or ``not claimed``."""

    name: str
    topic: int | str
    status: str
    seconds: float
    detail: str = ""


class Check(msgspec.Struct, frozen=True):
    """One named behaviour. ``topic`` is the number of a promise or a duty.

    ``needs`` are claims of the store, or ``server``: control over the server that keeps its ledgers.
    """

    name: str
    topic: int | str
    needs: tuple[str, ...]
    function: Callable[[Bench], None]

    @property
    def promise(self) -> int | None:
        """The number of the promise that it belongs to."""
        return self.topic if isinstance(self.topic, int) else None

    @property
    def title(self) -> str:
        """The name as a sentence."""
        return self.name.replace("_", " ")

    def unclaimed(self, bench: Bench) -> list[str]:
        """What it needs and is not there: claims that the store does not make, a server that the bench controls."""
        return [
            need
            for need in self.needs
            if not (bench.server is not None if need == "server" else getattr(bench.traits, need))
        ]

    def run(self, bench: Bench, seconds_max: float = SECONDS_MAX) -> Result:
        """Run it on a thread of its own, for at most ``seconds_max`` seconds times ``bench.thorough``; never raises."""
        if missing := self.unclaimed(bench):
            return Result(self.name, self.topic, "not claimed", 0.0, ", ".join(missing))
        started = time.monotonic()
        ended: list[tuple[str, str]] = []
        limit = seconds_max * max(bench.thorough, 1)

        def attempt() -> None:
            try:
                try:
                    self.function(bench)
                finally:
                    bench.tidy()
                ended.append(("passed", ""))
            except Skipped as why:
                ended.append(("skipped", str(why)))
            except Failed as why:
                ended.append(("failed", f"{why} ({_where(why)})"))
            except BaseException:
                ended.append(("failed", traceback.format_exc()))

        thread = threading.Thread(target=attempt, name=f"check {self.name}", daemon=True)
        thread.start()
        thread.join(limit)
        seconds = time.monotonic() - started
        if not ended:
            bench.hung = True
            frame = sys._current_frames().get(thread.ident or 0)
            place = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else ""
            return Result(
                self.name, self.topic, "failed", seconds, f"it hangs: not over after {limit:g} s\n{place}"
            )
        status, detail = ended[0]
        return Result(self.name, self.topic, status, seconds, detail)


def _where(error: BaseException) -> str:
    """The line of the check that failed."""
    lines = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.endswith(("checking.py", "expecting.py", "contextlib.py"))
    ]
    return lines[-1] if lines else "?"


_checks: dict[str, Check] = {}


def check(topic: int | str, *needs: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Make a function a check of the suite; its name says the behaviour, its arguments are a bench."""

    def register(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        name = function.__name__
        if topic not in TOPICS or not {*CLAIMS, *CONDITIONS} >= set(needs) or name in _checks:
            raise ValueError(f"check {name}: unknown topic or claim, or a name that is taken")
        _checks[name] = Check(name, topic, needs, function)
        return function

    return register


def registered() -> list[Check]:
    """Every check that has been made, in the order of the topics."""
    order = list(TOPICS)
    return sorted(_checks.values(), key=lambda check: order.index(check.topic))
