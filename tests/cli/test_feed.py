"""``feed``: lines for a named consumer, its place kept after each batch that was written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chatsnapshot

Run = Callable[..., Any]


def positions(result: Any) -> list[int]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["position"] for line in result.stdout.splitlines()]


def test_each_call_writes_what_is_new_for_this_consumer(run: Run, story: Path) -> None:
    with chatsnapshot.open(story, read_only=True) as ledger:
        head = ledger.head
    assert positions(run("feed", "a", "--batch", "2", "--ledger", str(story))) == list(range(1, head + 1))
    assert positions(run("feed", "a", "--ledger", str(story))) == []
    with chatsnapshot.open(story) as ledger:
        ledger.record("a.b", correlation_id="c")
    assert positions(run("feed", "a", "--ledger", str(story))) == [head + 1]
    assert positions(run("feed", "late", "--after", "now", "--ledger", str(story))) == []
    assert positions(run("feed", "mid", "--after", "3", "--ledger", str(story)))[0] == 4


def test_filters_are_kept_with_the_feed(run: Run, story: Path) -> None:
    options = ("--type", "execution.message", "--correlation", "run-1", "--ledger", str(story))
    with chatsnapshot.open(story, read_only=True) as ledger:
        wanted = [
            entry.position for entry in ledger.read(event_type="execution.message", correlation_id="run-1")
        ]
    assert positions(run("feed", "a", *options)) == wanted
    other = run("feed", "a", "--ledger", str(story))
    assert (other.exit_code, other.stdout) == (1, "")
    assert "was made with correlation_id run-1, event_types execution.message" in other.stderr


def test_feeds_are_listed_reset_and_dropped(run: Run, story: Path) -> None:
    at = ("--ledger", str(story))
    assert "there is no feed" in run("feed", "--list", *at).stdout
    run("feed", "a", *at)
    run("feed", "b", "--type", "x.*", "--after", "2", *at)
    assert "goes on after position 1" in run("feed", "a", "--reset", "1", *at).stdout
    shown = run("feed", "--list", *at)
    assert shown.stdout.splitlines()[1].split()[:2] == ["a", "1"]
    assert "type_prefixes x." in shown.stdout
    [one] = [json.loads(line) for line in run("feed", "a", "--list", "--json", *at).stdout.splitlines()]
    assert (one["name"], one["position"], one["fault"]) == ("a", 1, None)
    assert positions(run("feed", "a", *at))[0] == 2
    assert run("feed", "a", "--drop", *at).exit_code == 0
    for options in (("--drop",), ("--reset", "0")):
        gone = run("feed", "a", *options, *at)
        assert (gone.exit_code, "there is no feed 'a'" in gone.stderr) == (1, True)


def test_what_cannot_be_meant_is_refused(run: Run, story: Path, tmp_path: Path) -> None:
    at = ("--ledger", str(story))
    for wrong in ((), ("a", "--drop", "--reset", "1"), ("a", "--after", "x"), ("a", "--batch", "0")):
        result = run("feed", *wrong, *at)
        assert (result.exit_code, result.stdout) == (1, "")
    assert run("feed", "a", "--ledger", str(tmp_path / "none.db")).exit_code == 2
    assert run("feed", "--list", "--ledger", str(tmp_path / "none.db")).exit_code == 2


def test_a_batch_that_the_reader_did_not_take_comes_again(run: Run, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record_many(
            [
                {"event_type": "a.b", "correlation_id": "c", "payload": {"text": "x" * 30_000}}
                for _ in range(20)
            ]
        )
    command = [sys.executable, "-m", "chatsnapshot", "feed", "a", "--batch", "10", "--ledger", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["position"] == 1
        process.stdout.close()  # a pipe holds far less than a batch
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
    assert positions(run("feed", "a", "--ledger", str(path))) == list(range(1, 21))


def test_following_writes_what_is_recorded_later_and_commits_it(path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", correlation_id="c")
        command = [sys.executable, "-m", "chatsnapshot", "feed", "a", "--follow", "--ledger", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["position"] == 1
            ledger.record("a.b", correlation_id="c")
            assert json.loads(process.stdout.readline())["position"] == 2
            ledger.record("a.b", correlation_id="c")
            assert json.loads(process.stdout.readline())["position"] == 3
            process.kill()
        assert ledger.feeds()[0].position >= 2  # asking for the third committed the second
