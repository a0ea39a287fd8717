"""The adapter works where AG2 is not installed, as far as it can: importing it needs neither line."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_two_functions_work_without_any_ag2() -> None:
    code = """
import sys
sys.modules["ag2"] = sys.modules["autogen"] = None
from chatsnapshot.adapters.ag2 import map_event, normalize

class Event:
    type = "text"
    class content:
        content, sender, recipient = "hi", "user", "assistant"

print(map_event(Event()), normalize(Event())["role"])
"""
    assert run(code).split() == ["execution.message", "user"]


def test_importing_the_recorder_imports_no_runtime() -> None:
    code = """
import sys
from chatsnapshot.adapters.ag2 import AG2Recorder
print(sorted({"ag2", "autogen", "openai", "pydantic"} & set(sys.modules)))
"""
    assert run(code).strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    import chatsnapshot.adapters.ag2 as adapter

    with pytest.raises(AttributeError, match="no attribute 'Recorder'"):
        adapter.Recorder  # noqa: B018
