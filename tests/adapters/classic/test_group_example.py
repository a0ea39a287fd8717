"""The example of a group chat runs as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# What AG2 does when jsonschema is there is not the example's fault; see filterwarnings in pyproject.toml.
OF_AG2 = ["jsonschema.RefResolver is deprecated", "Accessing jsonschema.__version__ is deprecated"]
STRICT = ["-W", "error", *(f"-Wignore:{text}:DeprecationWarning" for text in OF_AG2)]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "ag2_group_chat.py"


def test_the_example_of_a_group_chat_runs_offline(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *STRICT, str(EXAMPLE)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 'look_up(order="A-17")' in done.stdout
    assert done.stdout.splitlines()[-4:] == [
        "handoff: desk -> refunds (reply_result)",
        "handoff: refunds -> Terminate (after_work)",
        "15 events of AG2 are 17 in the ledger, with the start and the variables",
        "True",
    ]
