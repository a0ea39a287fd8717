"""``chatsnapshot import --follow`` as a process, beside a process that writes a session slowly and in torn pieces."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

COMMAND = [sys.executable, "-m", "chatsnapshot"]
FOREVER = 60  # seconds after which a process that hangs is ended; no test waits for it
WRITER = """
import json, os, sys
for order in sys.stdin:
    path, text = json.loads(order)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab", buffering=0) as stream:
        stream.write(text.encode())
    print("written", flush=True)
"""
"""Writes what it is told, piece by piece, and says when each is in the file."""

SESSION = "5b1c0f6e-0000-4000-8000-000000000001"


def line(number: int, kind: str, content: Any, agent: str | None = None, **more: Any) -> str:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"m{number}", "model": "c", "usage": {"input_tokens": 1, "output_tokens": 2}}
    found = {
        "type": kind,
        "uuid": f"{agent}-{number}",
        "parentUuid": None,
        "sessionId": SESSION,
        "timestamp": f"2026-11-30T10:00:{number:02d}Z",
        "message": message,
        **({} if agent is None else {"agentId": agent, "isSidechain": True}),
        **more,
    }
    return json.dumps(found, ensure_ascii=False) + "\n"


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


@contextlib.contextmanager
def started(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **{**pipes, **options})
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=FOREVER)


@pytest.fixture
def write() -> Iterator[Callable[[Path, str], None]]:
    """``write(path, text)``: another process appends it; returns when it is in the file."""
    with started(sys.executable, "-c", WRITER) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        stdin, stdout = writer.stdin, writer.stdout

        def order(path: Path, piece: str) -> None:
            stdin.write(json.dumps([str(path), piece]).encode() + b"\n")
            stdin.flush()
            assert stdout.readline() == b"written\n"

        yield order


def told(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next change that a follower tells."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def words(path: Path) -> list[str]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        messages = ledger.read(event_type="execution.message")
        return [one.payload["parts"][0]["content"] for one in messages]


def test_a_session_appears_while_it_is_written_also_after_a_kill(
    path: Path, tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    folder = tmp_path / "projects"
    main = folder / "-shed" / f"{SESSION}.jsonl"
    agent = folder / "-shed" / SESSION / "subagents" / "agent-a.jsonl"
    folder.mkdir()
    command = [*COMMAND, "import", "claude-code", str(folder), "--follow", "--json", "--ledger", str(path)]
    spawn = {
        "type": "tool_use",
        "id": "t1",
        "name": "Task",
        "input": {"prompt": "Zähle.", "subagent_type": "E"},
    }
    with started(*command) as follower:
        for piece in ("Zähle Lampen — wie viele?", "Und Dochte?"):
            whole = line(len(words(path)) + 1 if path.exists() else 1, "user", piece)
            for start in range(0, len(whole), 40):  # torn between any two bytes of a line
                write(main, whole[start : start + 40])
            assert told(follower)["stored"] >= 2
            assert words(path)[-1] == piece
        write(main, line(3, "assistant", [spawn]))
        assert told(follower)["stored"] >= 1
        write(agent, line(4, "user", "Zähle.", "a"))
        assert told(follower)["beside"] == [str(agent)]
        assert words(path)[-1] == "Zähle."
        write(agent, line(5, "assistant", text("12"), "a")[:50])
        follower.send_signal(signal.SIGKILL)
    write(agent, line(5, "assistant", text("12"), "a")[50:])
    with started(*command) as follower:
        assert (told(follower)["known"], words(path)[-1]) != (0, "Zähle.")
        result = [{"type": "tool_result", "tool_use_id": "t1", "content": "12"}]
        write(main, line(6, "user", result, toolUseResult={"agentId": "a", "status": "completed"}))
        write(main, line(7, "assistant", text("Es sind 12.")) + line(8, "assistant", text("torn"))[:-9])
        while "Es sind 12." not in words(path):
            told(follower)
        follower.send_signal(signal.SIGINT)
        _, errors = follower.communicate(timeout=FOREVER)
        assert follower.returncode == 130
        assert b"Traceback" not in errors
        assert b"the same command again goes on from there" in errors
    with chatsnapshot.open(path) as ledger:
        followed = {entry.event_id for entry in ledger.read()}
        (run,) = ledger.view("runs", SESSION).runs
        assert [(child.run_id, child.status) for child in run.children] == [
            (f"{SESSION}.agent-a", "completed")
        ]
        assert ledger.verify(schemas=True).ok
    once = tmp_path / "once.db"
    imported = subprocess.run(
        [*COMMAND, "import", "claude-code", str(folder), "--ledger", str(once)], timeout=FOREVER, check=False
    )
    assert imported.returncode == 10
    with chatsnapshot.open(once) as ledger:
        assert {entry.event_id for entry in ledger.read()} == followed


def test_a_rollout_is_followed_for_people(
    path: Path, tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    def rollout(kind: str, payload: dict[str, Any]) -> str:
        return json.dumps({"timestamp": "2026-11-30T10:00:00Z", "type": kind, "payload": payload}) + "\n"

    file = tmp_path / "rollout-x.jsonl"
    write(file, rollout("session_meta", {"id": "thread-1", "cwd": "/", "timestamp": "2026-11-30T10:00:00Z"}))
    command = [*COMMAND, "import", "auto", str(file), "--follow", "--ledger", str(path)]
    with started(*command) as follower:
        assert follower.stdout is not None
        write(file, rollout("event_msg", {"type": "user_message", "message": "Go."}))
        assert b"codex, 2 events stored, 0 known" in follower.stdout.readline()
        assert follower.stdout.readline() == b"  run thread-1\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(FOREVER) == 130


def test_two_imports_at_once_tell_everything_once(path: Path, tmp_path: Path) -> None:
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_text("".join(line(number, "user", f"Prompt {number}.") for number in range(60)))
    with chatsnapshot.open(path):
        pass
    command = [*COMMAND, "import", "auto", str(file), "--json", "--ledger", str(path)]
    with started(*command) as one, started(*command) as other:
        reports = [json.loads(process.communicate(timeout=FOREVER)[0]) for process in (one, other)]
    with chatsnapshot.open(path) as ledger:
        assert [sum(report[key] for report in reports) for key in ("stored", "known", "problem_count")] == [
            ledger.head,
            ledger.head,
            0,
        ]


def test_following_what_does_not_grow_is_refused_before_anything_is_made(
    run: Any, path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "trace.json"
    log.write_text('{"resourceSpans": []}')
    result = run("import", "auto", str(log), "--follow", "--ledger", str(path))
    assert (result.exit_code, path.exists()) == (1, False)
    assert "is no file that grows; sessions can be followed, otlp files not" in result.stderr


def test_a_folder_stands_for_its_sessions_and_one_without_is_named(
    run: Any, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "projects"
    (folder / "-shed").mkdir(parents=True)
    assert "nothing in the folder" in run("import", "auto", str(folder), "--ledger", str(path)).stderr
    assert "nothing in the folder" in run("import", "codex", str(folder), "--ledger", str(path)).stderr
    assert not path.exists()
    for name in ("one", "two"):
        session = json.loads(line(1, "user", "Go.")) | {"sessionId": name}
        (folder / "-shed" / f"{name}.jsonl").write_text(json.dumps(session) + "\n")
    (folder / "notes.jsonl").write_text('{"a": 1}\n')
    result = json.loads(run("import", "auto", str(folder), "--json", "--ledger", str(path)).stdout)
    assert [file["correlations"] for file in result["files"]] == [["one"], ["two"]]
    assert (result["stored"], result["problem_count"]) == (4, 0)


def test_the_help_names_every_kind(run: Any) -> None:
    from chatsnapshot.importers import KINDS

    told = run("import", "--help").stdout
    assert [kind for kind in KINDS if kind not in told] == []
