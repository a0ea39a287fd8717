"""Stored states: rebuilding them, reading views and lists from them, and catching up."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import chatsnapshot
from benchmarks.measure import interleave, ratio, row
from chatsnapshot.projections import engine
from chatsnapshot.projections.views import list_runs, view

EVENTS = 100_000
LARGE = 1_000_000
MEASURED = ("runs", "transcript", "metrics")
RUN_EVENTS = 20
LONG = 10_000
NEW = 100


def events(count: int, run: str, first: int = 0) -> list[dict[str, Any]]:
    """A run: its start, then messages, tool calls and their results, and its end."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        kind = number % 4
        if number == 0:
            one = ("execution.run_started", {"name": f"job {run}"})
        elif number == count - 1:
            one = ("execution.run_completed", {"output": "done"})
        elif kind == 1:
            one = ("execution.message", {"role": "user", "content": f"What about {first + number}? " * 6})
        elif kind == 2:
            call = {
                "tool_name": "search",
                "call_id": f"c{number}",
                "arguments": {"q": "x" * 120, "n": number},
            }
            one = ("execution.tool_call", call)
        elif kind == 3:
            one = ("execution.tool_result", {"call_id": f"c{number - 1}", "result": "found " * 30})
        else:
            one = ("execution.message", {"role": "assistant", "content": f"That is {number}. " * 8})
        made.append({"event_type": one[0], "payload": one[1], "correlation_id": run})
    return made


def fill(path: str, count: int) -> Any:
    ledger = chatsnapshot.open(path, validation="off")
    batch: list[dict[str, Any]] = []
    for number in range(count // RUN_EVENTS):
        batch += events(RUN_EVENTS, f"run-{number}")
        if len(batch) >= 5_000:
            ledger.record_many(batch)
            batch = []
    ledger.record_many(batch)
    return ledger


class Bare:
    """A ledger without its store: views of it are folded anew."""

    def __init__(self, ledger: Any) -> None:
        self.read, self.replay, self.get = ledger.read, ledger.replay, ledger.get


def run(folder: str, rounds: int, *, large: bool = False) -> None:
    count = LARGE if large else EVENTS
    print(
        f"Stored states over {count:,} events in runs of {RUN_EVENTS} (limit: reading and decoding them; CPU time)"
    )
    ledger = fill(os.path.join(folder, "many.db"), count)
    _rebuilding(ledger, 1 if large else min(rounds, 3))
    _views(ledger, rounds, count)
    _catching_up(folder, ledger, rounds, count)
    ledger.close()


def _rebuilding(ledger: Any, rounds: int) -> None:
    def scan() -> int:
        number = 0
        for entry in ledger.read():
            entry.payload  # noqa: B018  # decoding is what is measured
            number += 1
        return number

    def rebuild(names: tuple[str, ...]) -> Callable[[], int]:
        return lambda: sum(one.position for one in engine.run(ledger, names)) // len(names)

    def forget() -> None:
        for name in MEASURED:
            slot = engine.find_slot(ledger._store, engine.resolve(name))
            if slot is not None:
                ledger._store.drop_states(slot.name, slot.version)

    several = [*((name,) for name in MEASURED), MEASURED]
    contestants: dict[str, Callable[[], int]] = {"limit": scan}
    contestants.update((" + ".join(names), rebuild(names)) for names in several)
    found = interleave(contestants, rounds, forget, time.process_time)
    for names in several:
        what = " + ".join(names)
        wanted = 0.3 if names == MEASURED else None
        print(row(f"  rebuild {what}", found[what], found["limit"], "limit", wanted))


def _views(ledger: Any, rounds: int, count: int) -> None:
    print(
        f"A run of {LONG:,} events, and the last 20 of {count // RUN_EVENTS:,} runs: stored, beside folded anew"
    )
    ledger.record_many(events(LONG, "long"))
    names = ("runs", "timeline", "transcript", "graph")
    engine.run(ledger, [*names, "starts", "judgements"])
    bare = Bare(ledger)
    for name in names:
        pair: dict[str, Callable[[], int]] = {
            "stored": lambda name=name: _once(lambda: view(ledger, name, "long")),  # type: ignore[misc]
            "folded": lambda name=name: _once(lambda: view(bare, name, "long")),  # type: ignore[misc]
        }
        found = interleave(pair, rounds, clock=time.process_time)
        took = 1000 / found["stored"].median
        share = 1 / ratio(found["stored"], found["folded"])
        print(
            f"  view {name:<12} stored {took:7.1f} ms   share of folding {share:5.2f}{_verdict(share, 0.1)}"
        )
    found = interleave(
        {
            "stored": lambda: _once(lambda: list_runs(ledger, last=20)),
            "folded": lambda: _once(lambda: list_runs(bare, last=20)),
        },
        1 if count > EVENTS else min(rounds, 3),
        clock=time.process_time,
    )
    share = 1 / ratio(found["stored"], found["folded"])
    print(
        f"  last 20 runs      stored {1000 / found['stored'].median:7.1f} ms   share of folding {share:7.4f}"
    )


def _once(work: Callable[[], object]) -> int:
    work()
    return 1


def _verdict(share: float, wanted: float) -> str:
    return "  ok" if share <= wanted else f"  ABOVE {wanted:g}"


def _catching_up(folder: str, large: Any, rounds: int, count: int) -> None:
    fewer = EVENTS // 10
    small = fill(os.path.join(folder, "few.db"), fewer)
    names = ("runs", "transcript")
    took: dict[str, list[float]] = {"small": [], "large": []}
    for ledger in (small, large):
        engine.run(ledger, names)
    for number in range(rounds):
        for name, ledger in (("small", small), ("large", large)):
            ledger.record_many(events(NEW, f"new-{number}"))
            begin = time.process_time()
            engine.run(ledger, names)
            took[name].append(time.process_time() - begin)
    one, other = statistics.median(took["small"]), statistics.median(took["large"])
    print(f"Catching up with {NEW} new events, runs + transcript")
    print(
        f"  after {fewer:,} events {one * 1000:6.1f} ms   after {count:,} events {other * 1000:6.1f} ms"
        f"   ratio {other / one:5.2f}"
    )
    small.close()
