"""What the tests of Google ADK share: they are skipped where it is not installed."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALLED = (
    importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.adk") is not None
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Our code alone is held to warn of nothing, and nothing runs without the runtime."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:::google"))
            item.add_marker(pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"))
            if not INSTALLED:
                item.add_marker(pytest.mark.skip(reason="google-adk is not installed"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """ADK logs the errors that these tests raise."""
    logger = logging.getLogger("google_adk")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)
