"""The page of AutoGen AgentChat, run: `make test` has no such environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("autogen_agentchat")
PAGE = Path(__file__).parents[3] / "docs" / "autogen.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"<!-- runnable with autogen-agentchat -->\n```python\n(.*?)```"
    (code,) = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__page__"})
