"""CrewAI in tests: it sends nothing out, and the warnings of its own code and of what it imports are its own."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if importlib.util.find_spec("crewai") is not None:
    os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("CREWAI_DISABLE_TRACKING", "true")
    os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
    os.environ.setdefault("OTEL_SDK_DISABLED", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import crewai
        import crewai.flow.flow  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Our code alone is held to warn of nothing."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:::crewai"))


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CrewAI stores goes to the test's folder."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
