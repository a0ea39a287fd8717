"""The table of stores in README.md is that of the suite of today: claims, promises, number of checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chatsnapshot.testing.conformance import Bench, checks


@pytest.fixture(scope="module")
def status(root: Path) -> ModuleType:
    module = ModuleType("status")
    path = root / "scripts" / "status.py"
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def written(root: Path, status: ModuleType) -> dict[str, list[str]]:
    """The cells of the table by store."""
    page = (root / "README.md").read_text()
    rows = page.partition(status.BEGIN)[2].partition(status.END)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {name: rest for name, *rest in cells}


@pytest.fixture(params=["memory:", "status.db", "status.jsonl", "postgresql", "mongodb", "nats"])
def store(
    request: pytest.FixtureRequest,
    status: ModuleType,
    tmp_path: Path,
    servers: Callable[[str], Any],
    require: Callable[[object, str], None],
) -> Iterator[tuple[str, Bench]]:
    (name,) = [name for name, url in status.STORES.items() if url == request.param]
    if request.param in status.SERVERS:
        server = servers(request.param)
        require(not isinstance(server, Exception), f"a {request.param} server ({server})")
        with Bench(server.url, server=server) as bench:
            yield name, bench
        return
    with status.place(request.param, tmp_path) as (where, _), Bench(where) as bench:
        yield name, bench


def test_the_table_has_the_stores_of_the_script(status: ModuleType, written: dict[str, list[str]]) -> None:
    assert list(written) == list(status.STORES)


def test_a_store_claims_what_the_table_says(
    store: tuple[str, Bench], status: ModuleType, written: dict[str, list[str]]
) -> None:
    name, bench = store
    assert written[name][0] == status.claims(bench.traits), "run make status"


def test_every_promise_with_a_check_that_is_claimed_is_in_the_table(
    store: tuple[str, Bench], status: ModuleType, written: dict[str, list[str]]
) -> None:
    name, bench = store
    claimed = {check.promise for check in checks() if check.promise and not check.unclaimed(bench)}
    assert written[name][1] == status.ranges(claimed), "run make status"


def test_the_table_counts_the_checks_of_the_suite(
    store: tuple[str, Bench], status: ModuleType, written: dict[str, list[str]]
) -> None:
    name, bench = store
    asked = checks() if bench.server else [check for check in checks() if "server" not in check.needs]
    wanting = [check.unclaimed(bench) for check in asked]
    unclaimed = sum(bool(needs) for needs in wanting)
    counted = {
        kind: int((re.search(rf"(\d+) {words}", written[name][2]) or [0, 0])[1])
        for kind, words in status.STATUSES.items()
    }
    assert counted["not claimed"] == unclaimed, "run make status"
    assert counted["passed"] + counted["skipped"] == len(asked) - unclaimed, "run make status"


def test_numbers_are_told_in_ranges(status: ModuleType) -> None:
    assert status.ranges([6, 1, 2, 3, 8, 9]) == "1-3, 6, 8-9"
