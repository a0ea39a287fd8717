"""The page of Agno, run: `make test` has no such environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "agno.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"<!-- runnable with agno -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__page__"})
