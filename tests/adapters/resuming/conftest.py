"""What the tests of going on after a kill share: real processes that are killed at a point that they announce."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger

HERE = Path(__file__).parent

# Test files import these helpers by this name; the folder is no package. Each needs its line of AG2.
for _name, _line in (("streamed_program", "ag2"), ("classic_program", "autogen")):
    if importlib.util.find_spec(_line) is None:
        continue
    _spec = importlib.util.spec_from_file_location(_name, HERE / f"{_name}.py")
    assert _spec and _spec.loader
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])


class Place:
    """A ledger and a file that counts executions, which a killed process and its successor share."""

    def __init__(self, folder: Path, ending: str) -> None:
        self.folder = folder
        self.url = str(folder / f"runs.{ending}")

    @property
    def executed(self) -> list[str]:
        """The names of the tools that ran, in order, in all processes."""
        told = self.folder / "executed"
        return told.read_text().split() if told.exists() else []

    def start(self, program: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", str(HERE / f"{program}.py"), self.url, str(self.folder)]
        return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)

    def kill_when_told(self, program: str, *words: str) -> None:
        """Run a program until it says that it is at the point, and kill it there."""
        with self.start(program, *words) as process:
            assert process.stdout is not None
            assert any(line.strip() == "here" for line in process.stdout), (
                "the program never came to the point"
            )
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL

    def kill_in_model_call(self, gate: Gate, program: str, *words: str) -> None:
        """Run a program until the model has been asked what the gate holds back, and kill it there."""
        with self.start(program, *words) as process:
            gate.follow(process)
            assert gate.asked.wait(60) and process.poll() is None, "the model was never asked"
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        gate.open.set()

    def run(self, program: str, *words: str) -> str:
        """Run a program to its end; gives what it printed."""
        with self.start(program, *words) as process:
            out, _ = process.communicate(timeout=60)
        assert process.returncode == 0, out
        return out

    def ledger(self) -> Ledger:
        return chatsnapshot.open(self.url)


class Gate:
    """An entry of a model's script that says when it is asked, and answers when the test lets it."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.open = threading.Event()

    def follow(self, process: subprocess.Popen[str]) -> None:
        """Do not wait for a program that has ended."""

        def until_its_end() -> None:
            process.wait()
            self.asked.set()

        threading.Thread(target=until_its_end, daemon=True).start()

    def __call__(self, body: dict[str, Any]) -> int:
        self.asked.set()
        self.open.wait(60)
        return 503


@pytest.fixture(params=["db", "jsonl"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture
def at(tmp_path: Path) -> Callable[[str], Place]:
    """A place with a ledger of this kind of file."""
    return lambda ending: Place(tmp_path, ending)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def models(models: Callable[..., Any]) -> Callable[..., Any]:
    """The server of scripted models; both lines speak to it through the openai client."""
    pytest.importorskip("openai", reason="this environment has no openai client")
    return models


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The classic line logs that a key is no key of the vendor's; the server here takes any.
    logging.getLogger("autogen").setLevel(logging.ERROR)
    yield
    logging.getLogger("autogen").setLevel(logging.NOTSET)
