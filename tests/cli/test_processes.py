"""The command as a process: pipes, signals, terminals, encodings."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chatsnapshot

COMMAND = [sys.executable, "-m", "chatsnapshot"]
FOREVER = 60  # seconds after which a process that hangs is ended; no test waits for it


@contextlib.contextmanager
def started(*arguments: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=FOREVER)


def finished(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **variables}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=FOREVER, env=environment)


def test_tail_shows_what_another_process_records_as_it_is_recorded(story: Path) -> None:
    with started("tail", "--last", "1", "--json", "--ledger", str(story)) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["position"] == 11
        for number in (12, 13):
            recorded = finished("record", "a.b", "--correlation", "other", "--ledger", str(story))
            assert recorded.returncode == 0, recorded.stderr
            assert json.loads(tail.stdout.readline())["position"] == number


def test_tail_for_people_flushes_each_line_into_a_pipe(story: Path) -> None:
    with started("tail", "--last", "0", "--correlation", "other", "--ledger", str(story)) as tail:
        assert tail.stdout is not None
        with chatsnapshot.open(story) as ledger:
            # Until tail has opened the ledger nothing is new to it: record until the first line comes.
            os.set_blocking(tail.stdout.fileno(), False)
            lines = b""
            for number in range(2000):
                ledger.record("a.b", {"n": number}, correlation_id="other")
                with contextlib.suppress(BlockingIOError):
                    lines += tail.stdout.read() or b""
                if b"\n" in lines:
                    break
        assert b" UTC\n" in lines


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_ends_tail_with_130_and_without_a_traceback(story: Path, form: tuple[str, ...]) -> None:
    with started("tail", *form, "--ledger", str(story)) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        _, errors = tail.communicate(timeout=FOREVER)
        assert tail.returncode == 130
        assert errors.strip() == b""


def test_ctrl_c_ends_a_slow_replay_with_130(story: Path) -> None:
    with started("replay", "run-1", "--speed", "0.001", "--json", "--ledger", str(story)) as replay:
        assert replay.stdout is not None
        replay.stdout.readline()
        replay.send_signal(signal.SIGINT)
        _, errors = replay.communicate(timeout=FOREVER)
        assert replay.returncode == 130
        assert errors.strip() == b""


@pytest.fixture
def long_story(path: Path) -> Path:
    """More than a pipe holds."""
    with chatsnapshot.open(path) as ledger:
        text = "x" * 1000
        ledger.record_many(
            [
                {"event_type": "a.b", "correlation_id": "run-1", "payload": {"n": n, "text": text}}
                for n in range(2000)
            ]
        )
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "run-1", "--json"],
        ["replay", "run-1"],
        ["tail", "--after", "0", "--json"],
        ["timeline", "run-1"],
    ],
)
def test_a_reader_that_goes_away_ends_the_command_quietly(long_story: Path, arguments: list[str]) -> None:
    with started(*arguments, "--ledger", str(long_story)) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=FOREVER) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_reader_that_goes_away_does_not_hide_what_verify_found(long_story: Path, damage) -> None:
    damage(long_story, "UPDATE entry SET timestamp = '2020-01-01T00:00:00.000000Z'")
    with started("verify", "--json", "--ledger", str(long_story)) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=FOREVER) == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [["runs"], ["replay", "run-1", "--json"], ["--help"], ["--version"]])
def test_output_that_cannot_be_written_is_an_error(story: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            ["env", f"CHATSNAPSHOT_LEDGER={story}", *COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=FOREVER,
        )
    assert done.returncode == 1
    assert done.stderr == b"error: no space left on device\n"


def test_without_a_standard_output_a_command_still_does_its_work(story: Path) -> None:
    line = 'exec "$@" >&-'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *COMMAND, "record", "a.b", "--correlation", "r", "--ledger", str(story)],
        stderr=subprocess.PIPE,
        timeout=FOREVER,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with chatsnapshot.open(story, read_only=True) as ledger:
        assert ledger.head == 12


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs"],
        ["show", "run-1"],
        ["timeline", "run-1"],
        ["transcript", "run-1"],
        ["tail", "--no-follow"],
        ["stats"],
        ["verify"],
    ],
)
def test_an_ascii_terminal_gets_ascii(story: Path, arguments: list[str]) -> None:
    with chatsnapshot.open(story) as ledger:
        ledger.record("execution.message", {"role": "user", "content": "日本 é 👍"}, correlation_id="run-1")
    done = finished(*arguments, "--ledger", str(story), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    if arguments == ["runs"]:
        assert b"\n`- child-1" in done.stdout


def test_an_argument_that_is_no_unicode_is_an_error_not_a_crash(story: Path) -> None:
    done = subprocess.run(
        [*COMMAND, b"show", b"\xff\xfe", b"--ledger", os.fsencode(story)],
        capture_output=True,
        timeout=FOREVER,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """What a command writes to a terminal of 100 columns."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    assert process.wait(timeout=FOREVER) == 0
    return shown.decode()


def test_a_terminal_gets_colour_unless_no_color_is_set(story: Path) -> None:
    assert "\x1b[33mcompleted, 1 tool error\x1b[0m" in on_a_terminal("runs", "--ledger", str(story))
    assert "\x1b" not in on_a_terminal("runs", "--ledger", str(story), NO_COLOR="1")


def test_json_on_a_terminal_cannot_move_its_cursor(path: Path) -> None:
    hostile = "\x1b[2J\x9b2J\u202e\x7f"
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"text": hostile}, correlation_id="r")
    shown = on_a_terminal("replay", "r", "--json", "--ledger", str(path))
    assert not set(hostile) - set("[2J") & set(shown)
    assert json.loads(shown)["payload"] == {"text": hostile}


def test_completion_in_the_shell_knows_commands_and_options(story: Path) -> None:
    done = finished(_CHATSNAPSHOT_COMPLETE="bash_complete", COMP_WORDS="chatsnapshot ti", COMP_CWORD="1")
    assert b"plain,timeline" in done.stdout
    done = finished(
        _CHATSNAPSHOT_COMPLETE="bash_complete", COMP_WORDS="chatsnapshot tail --no", COMP_CWORD="2"
    )
    assert b"plain,--no-follow" in done.stdout
