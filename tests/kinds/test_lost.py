"""Events that get lost on their way: at the end of a process, in another process, in a second queue."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger

Numbers = Callable[[str], list[int]]

PRELUDE = """
import sys
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
def note(n, **options):
    return ledger.record("a.b", {"n": n}, correlation_id="c", **options)
"""


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise RuntimeError('broken')", 1)])
def test_what_was_accepted_is_stored_when_the_program_just_ends(
    python: Any, path: str, numbers: Numbers, ending: str, code: int
) -> None:
    python(f"{PRELUDE}\nfor n in range(500):\n    note(n, wait=False)\n{ending}\n", path, code=code)
    assert numbers(path) == list(range(500))


def test_a_run_whose_program_ended_early_is_listed_as_unfinished(python: Any, path: str) -> None:
    started = 'ledger.record("execution.run_started", {"name": "triage"}, correlation_id="c", wait=False)'
    python(f"{PRELUDE}\n{started}\nraise SystemExit\n", path)
    with chatsnapshot.open(path, read_only=True) as ledger:
        (run,) = ledger.view("runs")
    assert (run.name, run.status, run.ended_at) == ("triage", "unfinished", None)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_child_process_stores_what_it_accepted_however_it_was_started(
    python: Any, path: str, numbers: Numbers, method: str
) -> None:
    """It gets the ledger that the parent has used, leaves by the way of multiprocessing, and closes nothing."""
    program = """
import multiprocessing, sys
import chatsnapshot
def work(ledger):
    for n in range(100):
        ledger.record("a.b", {"n": n}, correlation_id="child", wait=n % 2 == 0)
if __name__ == "__main__":
    ledger = chatsnapshot.open(sys.argv[1])
    ledger.record("a.b", {"n": -1}, correlation_id="parent", wait=False)
    process = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(ledger,))
    process.start()
    process.join(30)
    assert process.exitcode == 0, process.exitcode
    ledger.record("a.b", {"n": 100}, correlation_id="parent")
"""
    python(program, path, method)
    found = numbers(path)
    assert sorted(found) == list(range(-1, 101))
    assert [n for n in found if 0 <= n < 100] == list(range(100))


def test_flush_waits_for_every_way_in(ledger: Ledger) -> None:
    """Ledger, scope, run, threads, tasks that nobody awaits: one call answers for all of them."""
    ledger.record("a.b", {"n": 0}, correlation_id="c", wait=False)
    with ledger.scope("c") as scope:
        scope.record("a.b", {"n": 1}, wait=False)
    with ledger.run("r") as run:
        run.record("a.b", {"n": 2}, wait=False)
    with ThreadPoolExecutor(4) as pool:
        for n in range(3, 50):
            pool.submit(ledger.record, "a.b", {"n": n}, correlation_id="c", wait=False)

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(ledger.arecord("a.b", {"n": n}, correlation_id="c")) for n in range(50, 60)
        ]
        await asyncio.sleep(0)
        assert (await ledger.aflush(30)).ok
        assert sorted(entry.payload["n"] for entry in ledger.read(event_type="a.b")) == list(range(60))
        await asyncio.gather(*tasks)

    asyncio.run(main())
