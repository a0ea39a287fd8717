"""What the tests of Agno share: they are skipped where it is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALLED = importlib.util.find_spec("agno") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing runs without the runtime."""
    for item in items:
        if HERE in item.path.parents and not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="agno is not installed"))
