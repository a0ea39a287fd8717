"""The page of Microsoft Agent Framework, run: `make test` has no such environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("agent_framework")
PAGE = Path(__file__).parents[3] / "docs" / "agent-framework.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"<!-- runnable with agent-framework -->\n```python\n(.*?)```"
    (code,) = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__page__"})
