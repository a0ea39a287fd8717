"""The code of docs/llama-index.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "llama-index.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    monkeypatch.chdir(tmp_path)
    pattern = r"<!-- runnable with llama-index -->\n```python\n(.*?)```"
    (code,) = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "__main__"})
