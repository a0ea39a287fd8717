"""``ingest``: files and pipes into a ledger, what is printed, and the exit codes."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot


def event(number: object, **fields: Any) -> str:
    return json.dumps({"event_type": "a.b", "correlation_id": "r", "payload": {"n": number}, **fields}) + "\n"


def numbers(path: Path) -> list[Any]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        return [entry.payload["n"] for entry in ledger.read()]


def test_it_makes_the_ledger_and_says_what_became_of_each_file(run, path: Path, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(event(1) + event(2))
    (tmp_path / "two.gz").write_bytes(gzip.compress(event(3).encode()))
    done = run("ingest", "one", "two.gz", "--ledger", str(path))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["one  2 events stored, 0 known", "two.gz  1 event stored, 0 known"]
    assert numbers(path) == [1, 2, 3]
    again = run("ingest", "one", "two.gz", "--ledger", str(path))
    assert again.stdout.splitlines() == ["one  0 events stored, 2 known", "two.gz  0 events stored, 1 known"]


def test_standard_input_is_read_with_or_without_a_dash(run, path: Path) -> None:
    for arguments in ((), ("-",)):
        done = run("ingest", *arguments, "--ledger", str(path), input=event(1))
        assert done.exit_code == 0, done.output
        assert "1 event got a new id" in done.stdout
    assert numbers(path) == [1, 1]


def test_standard_input_with_a_name_is_recorded_once_whatever_window_of_it_comes(run, path: Path) -> None:
    lines = [event(1), event(2), event(2)]
    run("ingest", "--name", "log", "--ledger", str(path), input="".join(lines))
    done = run("ingest", "--name", "log", "--ledger", str(path), input="".join(lines[1:]))
    assert done.stdout == "standard input  0 events stored, 2 known\n"


def test_defaults_and_a_name_of_ones_own_reach_the_events(run, path: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text('{"event_type": "a.b"}\n')
        done = run(
            "ingest",
            name,
            "--correlation",
            "c",
            "--source",
            "agent/ag2/plan/er",
            "--name",
            "n",
            "--ledger",
            str(path),
        )
        assert done.exit_code == 0, done.output
    with chatsnapshot.open(path, read_only=True) as ledger:
        (entry,) = ledger.read()
    assert entry.correlation_id == "c"
    assert entry.source.to_dict() == {"origin": "agent", "runtime": "ag2", "name": "plan/er"}


def test_secrets_are_taken_out_unless_that_is_switched_off(run, path: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    run("ingest", "--ledger", str(path), input=event(secret))
    run("ingest", "--no-redact", "--ledger", str(path), input=event(secret))
    first, second = numbers(path)
    assert secret not in first
    assert second == secret


def test_the_first_bad_line_ends_it_with_1_and_what_came_before_is_stored(
    run, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text(event(1) + "\n{x\n" + event(2))
    done = run("ingest", "in", "--ledger", str(path))
    assert done.exit_code == 1
    assert done.stdout == "in  1 event stored, 0 known\n"
    assert done.stderr.startswith("error: line 3 of in: not JSON: ")
    assert "--skip-bad" in done.stderr and len(done.stderr.splitlines()) == 1
    assert numbers(path) == [1]


def test_bad_lines_are_left_out_and_listed_with_exit_code_10(run, path: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(event(1) + "{x\n" * 120 + event(2))
    done = run("ingest", "in", "--skip-bad", "--bad-lines", "bad", "--ledger", str(path))
    assert done.exit_code == 10
    lines = done.stdout.splitlines()
    assert lines[0] == "in  2 events stored, 0 known, 120 bad lines left out"
    assert lines[1].startswith("  line 2  not JSON: ")
    assert (len(lines), lines[-1]) == (102, "  and 20 more; --bad-lines FILE lists all")
    listed = [json.loads(line) for line in (tmp_path / "bad").read_text().splitlines()]
    assert [bad["line"] for bad in listed] == list(range(2, 122))
    assert listed[0].keys() == {"input", "line", "reason"}


@pytest.mark.parametrize(("options", "code", "stored"), [((), 1, 1), (("--skip-bad",), 10, 2)])
def test_the_report_for_programs_is_one_object(
    run, path: Path, options: tuple[str, ...], code: int, stored: int
) -> None:
    done = run("ingest", "--json", *options, "--ledger", str(path), input=event(1) + "[]\n" + event(2))
    assert done.exit_code == code
    report = json.loads(done.stdout)
    assert (report["stored"], report["known"], report["bad_count"]) == (stored, 0, 1)
    (one,) = report["inputs"]
    assert one["bad"] == [{"number": 2, "reason": "not a JSON object, but an array"}]
    assert one["input"] == "-"


def test_what_was_replayed_is_ingested_as_it_was(run, story: Path, tmp_path: Path) -> None:
    replayed = run("replay", "run-1", "--json", "--ledger", str(story)).stdout
    done = run("ingest", "--ledger", "copy.db", input=replayed)
    assert done.exit_code == 0, done.output
    assert run("replay", "run-1", "--json", "--ledger", "copy.db").stdout == replayed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a", "b", "--name", "n"), "--name goes with one input"),
        (("-", "-"), "standard input can be read once"),
        (("absent",), "'absent' does not exist"),
        (("a", "--source", "robot/x"), "source.origin is one of"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_stored(
    run, path: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(event(name))
    done = run("ingest", *arguments, "--ledger", str(path))
    assert done.exit_code == 1
    assert said in done.stderr
    assert not path.exists() or numbers(path) == []


def test_lines_of_a_pipe_that_waits_are_stored_meanwhile_and_ctrl_c_says_how_far(path: Path) -> None:
    arguments = [sys.executable, "-m", "chatsnapshot", "ingest", "-", "--name", "log", "--ledger", str(path)]
    with chatsnapshot.open(path) as ledger, ledger.tail(after=0, timeout=60) as tail:
        child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdin is not None and child.stderr is not None
        child.stdin.write(event(1) + event(2))
        child.stdin.flush()
        coming = iter(tail)
        assert [next(coming).payload["n"], next(coming).payload["n"]] == [1, 2]
        os.kill(child.pid, signal.SIGINT)
        said = child.stderr.read()
        child.stdin.close()
        child.stderr.close()
        assert child.wait() == 130
    assert "interrupted; " in said and "the same command again" in said


def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(path: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(event(n) for n in range(2_000)))
    arguments = [sys.executable, "-m", "chatsnapshot", "ingest", "in", "--ledger", str(path)]
    ours, theirs = pty.openpty()
    subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, check=True, cwd=tmp_path)
    os.close(theirs)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "ingesting" in drawn and "100%" in drawn
    quiet = subprocess.run(arguments, capture_output=True, check=True, cwd=tmp_path)
    assert quiet.stderr == b""
