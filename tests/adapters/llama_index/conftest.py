"""What the tests of LlamaIndex share: they are skipped where it is not installed, and its own warnings are its own."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
INSTALLED = importlib.util.find_spec("llama_index") is not None
OWN = ("llama_index", "workflows", "pydantic", "inspect")
"""Modules that warn: LlamaIndex's, and the one by which it looks for the steps of an agent."""

if INSTALLED:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import llama_index.core
        import llama_index.core.agent.workflow
        import llama_index.core.llms.mock  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing runs without the runtime; our code alone is held to warn of nothing."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        if not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="llama-index-core is not installed"))
        for module in OWN:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:::{module}"))


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a recording may take longer than it may hold up an event loop; here it may.

    The contract has its own measure of that.
    """
    if "contract" not in request.path.name:
        monkeypatch.setattr("chatsnapshot.adapters.custom._ON_THE_LOOP_SECONDS_MAX", 10.0)
