"""The code of docs/smolagents.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "smolagents.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(
        r"<!-- runnable with smolagents -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    exec(compile(code, PAGE.name, "exec"), {"__name__": "__main__"})
