"""The page on the contract: its bench keeps it, its stories are the stories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.testing.adapters import SCENARIOS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "adapter-contract.md").read_text()


def test_the_bench_of_the_page_keeps_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/adapter-contract.md", "exec"), known)
    assert known["report"].ok
    assert callable(known["test_the_contract"])
    assert "keeps the contract" in capsys.readouterr().out


def test_the_page_tells_every_story() -> None:
    told = re.findall(r"^\| (\w+) \|", PAGE.partition("## The stories")[2].partition("## The rules")[0], re.M)
    assert told == ["story", *SCENARIOS]
