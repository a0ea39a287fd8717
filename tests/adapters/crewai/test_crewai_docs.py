"""The code of docs/crewai.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "crewai.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("crewai", reason="crewai is not installed")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"<!-- runnable with crewai -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "__main__"})
