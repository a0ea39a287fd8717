"""Our own stores pass the whole suite that we give to others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chatsnapshot.testing.conformance import Bench, Check, checks

STORES = {"memory": "memory:", "sqlite": "runs.db", "jsonl": "runs.jsonl"}


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bench]]:
    made = {}
    for name, url in STORES.items():
        place = url if name == "memory" else str(tmp_path_factory.mktemp(name) / url)
        made[name] = Bench(place, seed=7).__enter__()
    yield made
    for bench in made.values():
        bench.__exit__(None, None, None)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("check", checks(), ids=lambda check: check.name)
def test_a_store_does_what_the_suite_asks(benches: dict[str, Bench], store: str, check: Check) -> None:
    result = check.run(benches[store])
    if result.status in ("not claimed", "skipped"):
        pytest.skip(f"{store}: {result.status} {result.detail}")
    assert result.status == "passed", result.detail
