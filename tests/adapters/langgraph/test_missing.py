"""Without LangGraph, or with one that lacks something, the adapter says so in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
import chatsnapshot

class Without:
    def find_spec(self, name, path=None, target=None):
        if any(name == gone or name.startswith(gone + ".") for gone in {gone!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
from chatsnapshot.adapters.langgraph import LangGraphRecorder, install
assert not [name for name in sys.modules if name.partition(".")[0] in ("langgraph", "langchain_core")]
ledger = chatsnapshot.open("memory:")

def told(call):
    try:
        call()
    except chatsnapshot.LedgerError as error:
        print(type(error).__name__, "|", error)
    else:
        print("fine")

def saver():
    from chatsnapshot.adapters.langgraph import ChatSnapshotSaver

told(lambda: LangGraphRecorder(ledger).handler)
told(lambda: install(LangGraphRecorder(ledger))())
told(saver)
"""


@pytest.mark.parametrize(
    ("gone", "wanted"),
    [
        (("langgraph", "langchain_core"), ["MissingExtra", "MissingExtra", "MissingExtra"]),
        (("langgraph",), ["fine", "fine", "MissingExtra"]),
        (("langgraph.callbacks",), ["LedgerError", "LedgerError", "fine"]),
    ],
)
def test_what_is_missing_is_told_in_one_sentence(gone: tuple[str, ...], wanted: list[str]) -> None:
    pytest.importorskip("langgraph.pregel")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(gone=gone)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" |")[0] for line in lines] == wanted
    for line in lines:
        kind, _, sentence = line.partition(" | ")
        if kind == "MissingExtra":
            assert "chatsnapshot[langgraph]" in sentence
        elif kind == "LedgerError":
            assert sentence.startswith("langgraph 1.")
            assert sentence.endswith("has no langgraph.callbacks; recording needs langgraph>=1.2")
