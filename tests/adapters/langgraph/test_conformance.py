"""The saver passes LangGraph's own conformance suite for checkpointers, whole, on every kind of ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

conformance = pytest.importorskip("langgraph.checkpoint.conformance")
capabilities = pytest.importorskip("langgraph.checkpoint.conformance.capabilities")

LOCAL = ["memory", "sqlite", "jsonl"]


@pytest.mark.parametrize("kind", [*LOCAL, "postgresql"])
def test_the_saver_passes_the_official_suite_whole(
    kind: str,
    tmp_path: Path,
    servers: Callable[[str], Any],
    require: Callable[[object, str], None],
) -> None:
    from chatsnapshot.adapters.langgraph import ChatSnapshotSaver

    urls = {"memory": "memory:", "sqlite": str(tmp_path / "c.db"), "jsonl": str(tmp_path / "c.jsonl")}
    url = urls.get(kind)
    if url is None:
        server = servers(kind)
        require(not isinstance(server, Exception), f"a {kind} server ({server})")
        url = f"{server.url}{'&' if '?' in server.url else '?'}ledger=langgraph-saver"

    async def savers() -> AsyncGenerator[Any, None]:
        with chatsnapshot.open(url) as ledger:
            yield ChatSnapshotSaver(ledger)
            assert ledger.verify().ok

    registered = conformance.checkpointer_test(name=f"ChatSnapshotSaver on {kind}")(savers)
    report = asyncio.run(conformance.validate(registered))

    assert set(report.results) == {one.value for one in capabilities.Capability}
    assert {name: one.failures for name, one in report.results.items() if one.failures} == {}
    assert all(one.passed and one.tests_passed for one in report.results.values())
