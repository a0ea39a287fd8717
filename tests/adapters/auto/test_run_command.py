"""``chatsnapshot run -- PROGRAM``: the program stays as it is; its process and its agents are on record."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.auto.command import run_program

Programs = Callable[[str], Any]


def without_ids(text: str) -> str:
    """AG2 prints an id of the run at its end."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text)


def test_an_ag2_program_says_the_same_and_its_run_is_a_child_of_the_process(program: Programs) -> None:
    desk = program("ag2_desk")
    alone = desk("--api-key", "sk-abcdefghijklmnop1234", recorded=False, env={"CODE": "3"})
    recorded = desk("--api-key", "sk-abcdefghijklmnop1234", env={"CODE": "3"})
    assert recorded == alone and alone[0] == 3
    events = desk.events()
    first, child = events[0], events[1]
    assert (first.event.source.runtime, child.event.source.runtime) == ("process", "ag2")
    assert child.causation_id == first.event_id
    assert child.payload["parent_run_id"] == first.payload["run_id"] == first.event.correlation_id
    assert "sk-abcdefghijklmnop1234" not in str([entry.payload for entry in events])
    assert first.payload["input"]["argv"][1:] == [str(desk.file), "--api-key", "[redacted:api-key]"]
    assert [entry.event_type for entry in events].count("execution.tool_result") == 1
    assert desk.ends() == [
        ("desk", "completed", "five"),
        ("ag2_desk.py", "failed", {"type": "SystemExit", "message": "exit code 3", "code": "3"}),
    ]


def test_a_classic_program_says_the_same_and_each_of_its_chats_is_a_run(program: Programs) -> None:
    chat = program("classic_chat")
    alone, recorded = chat(recorded=False), chat()
    assert [without_ids(text) for text in recorded[1:]] == [without_ids(text) for text in alone[1:]]
    assert recorded[0] == alone[0] == 0
    started = [entry for entry in chat.events() if entry.event_type == "execution.run_started"]
    assert [entry.event.source.runtime for entry in started[:1]] == ["process"]
    assert len({entry.event.correlation_id for entry in started[1:]}) == len(started) - 1 >= 2
    says = [str(entry.payload) for entry in chat.events() if entry.event_type == "execution.message"]
    assert sum("hello" in text for text in says) == 1
    assert sum("again" in text for text in says) == 1
    assert {kind for _, kind, _ in chat.ends()} == {"completed"}


def test_only_the_runtimes_that_are_named_are_recorded(program: Programs) -> None:
    desk = program("ag2_desk")
    desk(options=("--runtime", "langgraph"))
    assert {entry.event.source.runtime for entry in desk.events()} == {"process"}


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "why"),
    [
        ((), 0, "completed", {"exit_code": 0}),
        (("raise",), 1, "failed", {"type": "SystemExit", "message": "exit code 1", "code": "1"}),
        (
            ("kill",),
            -signal.SIGKILL,
            "failed",
            {"type": "SIGKILL", "message": "killed by SIGKILL", "code": "SIGKILL"},
        ),
    ],
)
def test_the_end_of_the_process_is_recorded_and_handed_on(
    program: Programs, arguments: tuple[str, ...], code: int, kind: str, why: Any
) -> None:
    plain = program("plain")
    assert plain(*arguments, given="what is given") == plain(
        *arguments, given="what is given", recorded=False
    )
    assert plain(*arguments, recorded=False)[0] == code
    assert plain.ends() == [("plain.py", kind, why)]


def test_a_run_that_a_signal_ends_with_its_process_is_cancelled(program: Programs) -> None:
    desk = program("ag2_desk")
    assert desk(env={"SIGNAL": str(int(signal.SIGTERM))})[0] == -signal.SIGTERM
    assert desk.ends() == [
        (None, "cancelled", "its process ended: SIGTERM"),
        ("ag2_desk.py", "cancelled", "ended by SIGTERM"),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_program_and_counts_as_its_end(
    program: Programs, number: signal.Signals
) -> None:
    plain = program("plain")
    process = plain.start("wait")
    process.send_signal(number)
    process.communicate(timeout=30)
    if number is signal.SIGINT:  # Python makes an exception of it, and then ends by it
        assert process.returncode == -signal.SIGINT
    assert process.returncode == -number
    assert plain.ends() == [("plain.py", "cancelled", f"ended by {number.name}")]


def test_a_signal_that_comes_while_the_program_is_being_started_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def told_meanwhile(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", told_meanwhile)
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        code, run_id = run_program(ledger, ["sleep", "60"], url=str(path))
        (end,) = ledger.read(event_type="execution.run_cancelled")
    assert (code, end.payload["run_id"]) == (-signal.SIGTERM, run_id)


def test_python_processes_that_the_program_starts_are_recorded_too(program: Programs) -> None:
    plain = program("plain")
    code, _, err = plain("child", str(plain.file.with_name("ag2_desk.py")))
    assert code == 0, err
    started = [entry for entry in plain.events() if entry.event_type == "execution.run_started"]
    assert [entry.event.source.runtime for entry in started] == ["process", "ag2"]
    assert started[1].causation_id == started[0].event_id


def test_a_python_that_uses_no_runtime_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; print(*sorted({'asyncio', 'apsw', 'msgspec', 'logging'} & set(sys.modules)))"
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", str(tmp_path / "runs.db"), "--"]
    ended = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "\n", "")


def test_a_program_of_the_sites_own_runs_at_the_start_as_it_would_have(
    program: Programs, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('the site was here\\n')")
    plain = program("plain")
    env = {"PYTHONPATH": str(tmp_path)}
    assert plain(env=env, recorded=False)[2] == "the site was here\n"
    assert plain(env=env)[2] == "the site was here\n" * 2  # in chatsnapshot itself, and in the program


def test_a_python_without_chatsnapshot_is_told_and_only_its_process_is_recorded(
    program: Programs, tmp_path: Path
) -> None:
    plain = program("plain")
    command = plain.command()
    command[command.index("--") + 1 : -1] = [sys._base_executable, "-S", "-c", "print(1)"]  # type: ignore[attr-defined]
    ended = subprocess.run(command[:-1], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "1\n")
    assert plain.ends() == [("python -c", "completed", {"exit_code": 0})]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "run-1"], 1, "chatsnapshot show run-1"),
        (["run"], 1, "chatsnapshot run -- python app.py"),
        (["run", "--"], 1, "PROGRAM"),
        (["run", "--", "no-such-program-anywhere"], 127, "there is no program no-such-program-anywhere"),
        (["run", "--runtime", "langgraf", "--", "true"], 1, "did you mean langgraph?"),
        (["run", "--ledger", "memory:", "--", "true"], 1, "not memory:"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_sentence(
    arguments: list[str], code: int, says: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "chatsnapshot", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert says in ended.stderr and len(ended.stderr.strip().splitlines()) == 1
    if code == 127 and (tmp_path / "chatsnapshot.db").exists():
        with chatsnapshot.open(tmp_path / "chatsnapshot.db") as ledger:
            assert ledger.head == 0
