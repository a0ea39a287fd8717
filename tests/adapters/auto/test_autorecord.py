"""``chatsnapshot.autorecord()``: what was imported before or is imported after, once, and nothing when it is over."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ag2.agent
import pytest
from ag2 import Agent
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.adapters.auto.importing import ImportWatch
from chatsnapshot.adapters.auto.process import program_name
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.errors import InvalidEvent


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


def ask() -> Any:
    agent = Agent("desk", config=TestConfig("Hi there"))
    return asyncio.run(agent.ask("Hello")).body


def test_a_runtime_that_was_imported_before_is_recorded_until_it_is_closed(ledger: Any) -> None:
    before = dict(vars(ag2.agent.Agent))
    made_before = Agent("early", config=TestConfig("I was here"))
    with chatsnapshot.autorecord(ledger, runtimes=["ag2"]) as recording:
        assert ask() == "Hi there"
        assert asyncio.run(made_before.ask("And you?")).body == "I was here"
        assert chatsnapshot.autorecord() is recording  # the one that goes on
    assert dict(vars(ag2.agent.Agent)) == before
    recorded = ledger.head
    assert ask() == "Hi there"
    assert ledger.head == recorded
    started = [e for e in ledger.read() if e.event_type == "execution.run_started"]
    assert [entry.event.source.name for entry in started][1:] == ["desk", "early"]
    assert {entry.causation_id for entry in started[1:]} == {started[0].event_id}
    assert [e.event_type for e in ledger.read(runtime="process")][1:] == ["execution.run_completed"]


def test_a_recorder_of_the_programs_own_records_once_and_its_run_is_a_child_of_the_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    with chatsnapshot.autorecord(path, runtimes=["ag2"]) as recording, chatsnapshot.open(path) as own:
        recorder = AG2Recorder(own, correlation_id="case-7")
        agent = Agent("desk", config=TestConfig("Hi"), middleware=[recorder.middleware])
        asyncio.run(agent.ask("Hello"))
        with own.run(correlation_id="job-1", name="nightly"):
            ask()
        mine = RuntimeRecorder(own, runtime="mine")
        run = mine.begin("mine", key="1", correlation_id="mine-1")
        assert run is not None and run.parent is not None
        entries = list(recording.ledger.read())
    started = {e.event.source.name or "": e for e in entries if e.event_type == "execution.run_started"}
    process, desk = entries[0], [e for e in entries if e.payload.get("agent") == "desk"]
    first, second = (e for e in desk if e.event_type == "execution.run_started")
    assert (first.correlation_id, first.causation_id) == ("case-7", process.event_id)
    assert second.causation_id == next(
        e.event_id for e in entries if e.correlation_id == "job-1" and e.event_type == "execution.run_started"
    )
    assert run.parent.cause == process.event_id
    assert len(started) == 3


def test_an_exception_in_the_block_is_how_the_process_run_ends(ledger: Any) -> None:
    with pytest.raises(ValueError, match="no such city"), chatsnapshot.autorecord(ledger, runtimes=["ag2"]):
        raise ValueError("no such city")
    last = list(ledger.read())[-1]
    assert (last.event_type, last.payload["error"]["message"]) == ("execution.run_failed", "no such city")


def test_a_runtime_that_is_not_known_is_refused_with_the_nearest_name(ledger: Any) -> None:
    with pytest.raises(InvalidEvent, match="did you mean crewai"):
        chatsnapshot.autorecord(ledger, runtimes=["crewi"])
    with pytest.raises(InvalidEvent, match="no runtime 'crewi'"):
        chatsnapshot.autorecord(ledger, runtimes="crewi")
    assert ledger.head == 0


def test_a_runtime_that_cannot_be_recorded_is_logged_once_and_the_program_goes_on(
    ledger: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(ag2.agent.Agent, "_drive_scope")
    monkeypatch.delattr(ag2.agent.Agent, "_execute")
    with chatsnapshot.autorecord(ledger, runtimes=["ag2"]) as recording:
        pass
    assert "middleware=[recorder.middleware]" in recording.failures["ag2"]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["ag2 is not recorded"]


@pytest.mark.parametrize(
    ("code", "exit_code", "end"),
    [
        ("pass", 0, "completed"),
        ("raise ValueError('x')", 1, "failed"),
        ("sys.exit(3)", 3, "failed"),
        ("sys.exit()", 0, "completed"),
        ("try: sys.exit(3)\nexcept SystemExit: pass", 0, "completed"),
        ("sys.excepthook = lambda *error: None\nraise ValueError('x')", 1, "failed"),
    ],
)
def test_the_end_of_the_interpreter_is_the_end_of_the_process_run(
    tmp_path: Path, code: str, exit_code: int, end: str
) -> None:
    path = tmp_path / "runs.db"
    program = f"import chatsnapshot, sys; chatsnapshot.autorecord({str(path)!r})\n{code}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == exit_code
    assert ("ValueError: x" in ended.stderr) == code.startswith("raise")
    with chatsnapshot.open(path, read_only=True) as ledger:
        last = list(ledger.read())[-1]
    assert last.event_type == f"execution.run_{end}"
    why = last.payload["error"]["message"] if end == "failed" else last.payload["output"]
    assert why == {0: {"exit_code": 0}, 1: "x", 3: "exit code 3"}[exit_code]


def test_threads_go_on_before_the_end_and_what_ends_with_the_process_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    program = f"""
import chatsnapshot, threading
from chatsnapshot.adapters.custom import RuntimeRecorder
recording = chatsnapshot.autorecord({str(path)!r})
recorder = recording.recorders["own"] = RuntimeRecorder(recording.ledger, runtime="own")
def work(name):
    run = recorder.begin(name, key=name)
    recorder.record(run.started())
    begun[name].set()
    if name == "daemon":
        threading.Event().wait()
    threading.main_thread().join()
    recorder.record(run.completed())
    recorder.end(run)
begun = {{name: threading.Event() for name in ("daemon", "late")}}
for name in begun:
    threading.Thread(target=work, args=(name,), daemon=name == "daemon").start()
    begun[name].wait()
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    with chatsnapshot.open(path, read_only=True) as ledger:
        ends = [(entry.event.source.name, entry.event_type) for entry in ledger.read()][3:]
    assert ends == [
        ("late", "execution.run_completed"),
        ("daemon", "execution.run_cancelled"),
        ("python -c", "execution.run_completed"),
    ]


def test_a_block_that_is_left_by_sys_exit_ends_as_its_exit_code_says(ledger: Any) -> None:
    for code in (0, 3):
        with pytest.raises(SystemExit), chatsnapshot.autorecord(ledger):
            sys.exit(code)
    assert [entry.event_type.partition("_")[2] for entry in ledger.read()] == [
        "started", "completed", "started", "failed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "name"),
    [(["-m", "package"], "python -m package"), (["-"], "python"), (["package/__main__.py"], "__main__.py")],
)
def test_a_process_is_called_the_same_from_inside_as_from_outside(
    tmp_path: Path, start: list[str], name: str
) -> None:
    program = "import chatsnapshot; chatsnapshot.autorecord('runs.db').close()"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(program)
    subprocess.run([sys.executable, *start], input=program, text=True, timeout=60, cwd=tmp_path, check=True)
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        (started,) = ledger.read(event_type="execution.run_started")
    assert started.payload["name"].replace(Path(sys.executable).name, "python") == name
    assert started.payload["input"]["argv"][1:] == start


def test_a_forked_child_that_leaves_the_block_does_not_end_the_run_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    program = f"""
import chatsnapshot, os
with chatsnapshot.autorecord({str(path)!r}):
    if child := os.fork():
        os.waitpid(child, 0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert [entry.event_type for entry in ledger.read()] == [
            "execution.run_started",
            "execution.run_completed",
        ]


def test_an_import_is_told_once_when_nothing_of_its_package_is_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_package").mkdir()
    (tmp_path / "watched_package" / "__init__.py").write_text("import watched_package.inner\nDONE = True\n")
    (tmp_path / "watched_package" / "inner.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[tuple[str, bool]] = []

    def imported(name: str) -> None:
        told.append((name, hasattr(sys.modules["watched_package"], "DONE")))

    watch = ImportWatch(("watched_package", "watched_package.inner", "watched_nowhere"), imported)
    watch.begin()
    try:
        importlib.import_module("watched_package")
        importlib.reload(sys.modules["watched_package"])
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("watched_nowhere")
    finally:
        watch.end()
        for name in ("watched_package", "watched_package.inner"):
            sys.modules.pop(name, None)
    assert told == [("watched_package", True), ("watched_package.inner", True)]
    assert watch not in sys.meta_path


@pytest.mark.parametrize(
    "line",
    [
        "import langgraph.graph",
        "from langchain_core.language_models import FakeListChatModel",
        "import agents.testing, pydantic_ai.models.test, autogen, mcp.types",
    ],
)
def test_whatever_a_program_imports_first_the_runtime_is_recorded(line: str) -> None:
    code = f"""
import chatsnapshot
with chatsnapshot.autorecord("memory:") as recording:
    {line}
    assert recording.recorders and not recording.failures, (recording.recorders, recording.failures)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


def test_switching_on_imports_no_runtime() -> None:
    code = textwrap.dedent(
        """
        import sys, chatsnapshot
        recording = chatsnapshot.autorecord("memory:")
        recording.close()
        names = {"ag2", "autogen", "langchain_core", "agents", "pydantic_ai", "pydantic"}
        assert not names & set(sys.modules), names & set(sys.modules)
        """
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["/usr/bin/python3", "/srv/app.py", "x"], "app.py"),
        (["python", "-m", "app.main"], "python -m app.main"),
        (["python3.11", "-X", "dev", "-c", "print(1)"], "python -c"),
        (["./serve", "--port", "1"], "serve"),
        ([""], "process"),
        ([], "process"),
    ],
)
def test_a_process_is_called_what_people_call_it(arguments: list[str], name: str) -> None:
    assert program_name(arguments) == name
