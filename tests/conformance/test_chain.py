"""Promise 7 across stores: a ledger that goes from store to store stays the same, leaf by leaf and view by view."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.projections.engine import run
from chatsnapshot.projections.refolding import verify
from chatsnapshot.projections.views import STANDARD
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.samples import Ticking, event, varied

CHAIN = ("memory", "sqlite", "postgresql", "mongodb", "nats", "jsonl")
NAMES = sorted(one.name for one in STANDARD)
RUNS = ("run-1", "run-2", "blobs")


def fill(ledger: Ledger) -> None:
    """Every column, blobs of their own and shared, a run with its parts, payloads that are erased."""
    ledger.record_many(varied(random.Random(7), 200))
    with ledger.run("run-4", name="parent") as parent:
        parent.record("execution.tool_call", {"tool_name": "search", "call_id": "1", "arguments": {"q": "x"}})
        parent.record("execution.tool_result", {"call_id": "1", "result": [1, 2]})
        with ledger.run(name="child") as child:
            child.record("execution.model_call", {"model": "m", "usage": {"input_tokens": 3}})
    shared = b"\x01" * 40_000
    for number in range(3):
        ledger.record(**event(number, "blobs", payload={"data": shared, "own": bytes([number]) * 50_000}))
    ledger.record(**event(3, "blobs", payload={"large": random.Random(7).randbytes(1_100_000)}))
    ledger.erase([5, 17, 210], reason="asked to")
    ledger.record(**event(9, "after"))


def move(source: Ledger, target: Ledger) -> None:
    """All entries and blobs, as they are."""
    rows = [entry._identity() for entry in source.read()]
    store = store_of(source)
    blobs = {digest: b"".join(store.blob(digest) or ()) for digest, _, _ in store.blobs()}
    for first in range(0, len(rows), 90):
        store_of(target).import_rows(rows[first : first + 90], blobs)


def picture(ledger: Ledger) -> dict[str, Any]:
    """What is the same on every store that holds the same entries."""
    store = store_of(ledger)
    report = ledger.verify()
    assert report.ok, report.summary
    run(ledger, NAMES)
    compared = {name: verify(ledger, name) for name in NAMES}
    assert {one.verdict for one in compared.values()} == {"same"}, "stored, and folded anew"
    return {
        "root": report.root,
        "erased": report.erased,
        "head": store.head(),
        "rows": [entry._identity() for entry in ledger.read()],
        "tiles": [store.tile(0, 0)],
        "blobs": sorted(store.blobs()),
        "blob bytes": [b"".join(store.blob(digest) or ()) for digest, _, _ in sorted(store.blobs())],
        "children": store.children("run-4"),
        "views": {
            (name, one): repr(ledger.view(name, one)) for name in ("timeline", "transcript") for one in RUNS
        },
        "digests": {name: one.stored for name, one in compared.items()},
    }


def test_a_ledger_that_goes_through_all_stores_keeps_leaves_root_blobs_and_views(
    tmp_path: Path, servers: Callable[[str], Any], require: Callable[[object, str], None]
) -> None:
    last = chatsnapshot.open("memory:", clock=Ticking())
    fill(last)
    wanted = picture(last)
    assert wanted["erased"] == 3
    assert len(wanted["blobs"]) > 3
    assert len(wanted["children"]) == 1
    for kind in CHAIN[1:]:
        if kind in ("sqlite", "jsonl"):
            place = str(tmp_path / f"chain.{'db' if kind == 'sqlite' else 'jsonl'}")
        else:
            server = servers(kind)
            require(not isinstance(server, Exception), f"a {kind} server ({server})")
            place = f"{server.url}{'&' if '?' in server.url else '?'}ledger=chain"
        ledger = chatsnapshot.open(place)
        move(last, ledger)
        found = picture(ledger)
        for what, value in wanted.items():
            assert found[what] == value, f"{what} on {kind}"
        last.close()
        last = ledger
    last.close()


def test_a_forged_step_of_the_chain_is_refused(tmp_path: Path) -> None:
    with chatsnapshot.open("memory:") as one, chatsnapshot.open(tmp_path / "two.db") as two:
        fill(one)
        rows = [entry._identity() for entry in one.read()]
        row: list[Any] = list(rows[3])
        row[4] = "execution.forged"
        with pytest.raises(chatsnapshot.Corrupt):
            store_of(two).import_rows([*rows[:3], tuple(row)], {})
        assert two.head == 0
