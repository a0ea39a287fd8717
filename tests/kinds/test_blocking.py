"""What holds a program up: the network in the middle of a call, ends that wait for a store that never answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from chatsnapshot import Ledger
from chatsnapshot.stores.base import Group, Outcome

PROGRAM = """
import asyncio, sys
watching = False
def watch(event, arguments):
    if watching and event.split(".")[0] in ("socket", "http", "urllib", "subprocess", "os.system"):
        raise AssertionError((event, arguments))
sys.addaudithook(watch)
import chatsnapshot
watching = True
with chatsnapshot.open(sys.argv[1]) as ledger:
    with ledger.run(name="r"):
        ledger.record("a.b", {"n": 0})
        ledger.record("a.b", {"n": 1}, wait=False)
    assert ledger.flush(30).ok
    list(ledger.read()); ledger.verify(); ledger.view("runs")
    for entry in ledger.tail(after=0):
        break
watching = False
loop = asyncio.new_event_loop()   # asyncio wakes its own loop through a pair of sockets
watching = True
async def main():
    async with chatsnapshot.open(sys.argv[1]) as ledger:
        async with ledger.run(name="r"):
            await ledger.arecord("a.b", {"n": 2})
        await ledger.aflush()
loop.run_until_complete(main())
watching = False
loop.close()
"""


def test_nothing_that_a_ledger_does_touches_the_network_or_starts_a_program(python: Any, path: str) -> None:
    python(PROGRAM, path)


def test_accepting_never_waits_for_a_store_that_hangs(ledger: Ledger) -> None:
    free = threading.Event()
    append: Callable[[Sequence[Group]], list[Outcome]] = ledger._store.append

    def hang(groups: Sequence[Group]) -> list[Outcome]:
        assert free.wait(60)
        return append(groups)

    ledger._store.append = hang  # type: ignore[method-assign]
    started = time.monotonic()
    pending = [ledger.record("a.b", {"n": n}, correlation_id="c", wait=False) for n in range(500)]

    async def main() -> None:
        task = asyncio.ensure_future(ledger.arecord("a.b", {"n": 500}, correlation_id="c"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert time.monotonic() - started < 20
    assert not any(one.done() for one in pending)
    free.set()
    assert ledger.flush(30).ok
    assert [one.result(0).payload["n"] for one in pending] == list(range(500))
