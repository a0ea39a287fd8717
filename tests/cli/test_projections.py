"""``chatsnapshot projections``: where stored states stand, runs, rebuilds, comparisons."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.projections import base, engine


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_nothing_is_stored_before_the_first_run_and_all_after_it(run, story: Path) -> None:
    ledger = ("--ledger", str(story))
    assert "nothing stored" in run("projections", "list", *ledger).stdout
    assert run("projections", "verify", *ledger).stdout.startswith("nothing is stored")
    done = run("projections", "run", "--json", *ledger)
    assert done.exit_code == 0
    assert {one["position"] for one in lines(done.stdout)} == {11}
    listed = lines(run("projections", "list", "--json", *ledger).stdout)
    assert {(one["role"], one["behind"]) for one in listed} == {("current", 0)}
    assert {"runs", "timeline", "transcript"} <= {one["name"] for one in listed}
    shown = run("projections", "list", *ledger).stdout.splitlines()
    assert shown[0].split() == ["NAME", "VERSION", "POSITION", "BEHIND", "KEYS", "STATES", "DIGEST"]


def test_reading_commands_say_the_same_before_and_after_a_run(run, story: Path) -> None:
    commands = [
        ("runs",),
        ("timeline", "run-1"),
        ("transcript", "run-1"),
        ("graph", "run-1"),
        ("show", "run-1"),
    ]
    before = [run(*one, "--ledger", str(story)).stdout for one in commands]
    run("projections", "run", "--ledger", str(story))
    assert [run(*one, "--ledger", str(story)).stdout for one in commands] == before


def test_verify_finds_a_changed_state_and_a_rebuild_mends_it(run, story: Path) -> None:
    ledger = ("--ledger", str(story))
    run("projections", "run", "runs", *ledger)
    assert run("projections", "verify", *ledger).exit_code == 0
    db = apsw.Connection(str(story))
    db.execute(
        "UPDATE projection_state SET state = CAST(replace(state, 'triage', 'tirage') AS BLOB) WHERE name = 'runs'"
    )
    db.close()
    found = run("projections", "verify", "runs", *ledger)
    assert found.exit_code == 3
    assert "different" in found.stdout
    assert "run-1" in found.stdout
    assert run("projections", "rebuild", "runs", *ledger).exit_code == 0
    assert run("projections", "verify", "runs", *ledger).exit_code == 0


def test_a_digest_of_any_position_can_be_compared_with_that_of_a_copy(run, story: Path) -> None:
    ledger = ("--ledger", str(story))
    alone = run("projections", "verify", "timeline", "--at", "4", "--json", *ledger)
    assert alone.exit_code == 10
    digest = lines(alone.stdout)[0]["digest"]
    same = run("projections", "verify", "timeline", "--at", "4", "--expect", digest, *ledger)
    assert same.exit_code == 0
    other = run("projections", "verify", "timeline", "--at", "5", "--expect", digest, *ledger)
    assert other.exit_code == 3
    assert run("projections", "verify", "--expect", digest, *ledger).exit_code == 1
    assert run("projections", "verify", "--at", "12", *ledger).exit_code == 1


def test_what_stops_or_is_parked_is_told_with_position_and_reason(
    run, story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.known()
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))

    @base.register
    class Fails:
        name, version = "test_fails", 1

        def key(self, entry: Any) -> str:
            return str(entry.correlation_id)

        def initial(self) -> list[int]:
            return []

        def apply(self, state: list[int], entry: Any) -> list[int]:
            if entry.position == 4:
                raise RuntimeError("not four")
            return [*state, entry.position]

    ledger = ("--ledger", str(story))
    stopped = run("projections", "run", "test_fails", *ledger)
    assert stopped.exit_code == 10
    assert "stops at position 4: RuntimeError: not four" in stopped.stdout
    listed = run("projections", "list", *ledger).stdout
    assert "stopped  test_fails at position 4, key 'run-1': RuntimeError: not four" in listed
    parked = run("projections", "run", "test_fails", "--on-error", "park", *ledger)
    assert (parked.exit_code, "1 parked key" in parked.stdout) == (0, True)
    assert "parked   test_fails at position 4" in run("projections", "list", *ledger).stdout
    monkeypatch.setattr(Fails, "apply", lambda self, state, entry: [*state, entry.position])
    assert "1 key going on" in run("projections", "run", "test_fails", "--retry", *ledger).stdout
    assert run("projections", "verify", "test_fails", *ledger).exit_code == 0


def test_the_commands_make_no_ledger_and_know_no_other_projection(run, story: Path, tmp_path: Path) -> None:
    for command in (["list"], ["run"], ["rebuild", "runs"], ["verify"]):
        assert run("projections", *command, "--ledger", str(tmp_path / "nowhere.db")).exit_code == 2
    found = run("projections", "rebuild", "run", "--ledger", str(story))
    assert found.exit_code == 1
    assert "did you mean runs" in found.stderr
    with chatsnapshot.open(story, read_only=True) as ledger:
        assert ledger.head == 11


def test_following_tells_of_each_run_and_ends_on_ctrl_c_with_130(story: Path) -> None:
    command = [sys.executable, "-m", "chatsnapshot", "projections", "run", "runs", "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--ledger", str(story)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["position"] == 11
            with chatsnapshot.open(story) as ledger:
                ledger.record("a.b", {}, correlation_id="other")
            assert json.loads(process.stdout.readline())["position"] == 12
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors.strip()) == (130, b"")
        finally:
            process.kill()


@pytest.mark.parametrize("command", ["stats", "metrics", "audit"])
def test_views_of_the_whole_ledger_store_what_they_needed(run, story: Path, command: str) -> None:
    first = run(command, "--json", "--ledger", str(story))
    name = "volume" if command == "stats" else command
    listed = lines(run("projections", "list", "--json", "--ledger", str(story)).stdout)
    (standing,) = [one for one in listed if one["name"] == name]
    assert (standing["position"], standing["behind"]) == (11, 0)
    again = run(command, "--json", "--ledger", str(story))
    facts = [json.loads(one.stdout) for one in (first, again)]
    for one in facts:
        one.pop("file_bytes", None)  # the file has grown by the states
    assert facts[0] == facts[1]


@pytest.mark.parametrize("command", ["stats", "metrics", "audit"])
def test_views_of_a_ledger_that_cannot_be_written_are_folded(run, story: Path, command: str) -> None:
    with chatsnapshot.open(story) as ledger:
        ledger.head  # noqa: B018  # leaves no log beside the file when it is closed
    written = run(command, "--json", "--ledger", str(story)).stdout
    story.chmod(0o400)
    story.parent.chmod(0o500)
    try:
        found = run(command, "--json", "--ledger", str(story))
    finally:
        story.parent.chmod(0o700)
        story.chmod(0o600)
    assert found.exit_code == 0
    facts = [json.loads(one) for one in (written, found.stdout)]
    for one in facts:
        one.pop("file_bytes", None)
    assert facts[0] == facts[1]
