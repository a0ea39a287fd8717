"""``verify``: the exit code says what is wrong, the report what is proven and what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest


def test_a_sound_ledger_is_proven_to_a1(run, story: Path) -> None:
    done = run("verify", "--ledger", str(story))
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()[:2]
    assert first == f"{story}  sound"
    assert "level A1" in second
    assert "\nProven\n  A0: " in done.stdout
    assert "\n  A1: " in done.stdout
    assert "\nNot proven\n  that nobody rewrote the whole ledger" in done.stdout
    assert "Problems" not in done.stdout


def test_the_report_as_json(run, story: Path) -> None:
    found = json.loads(run("verify", "--json", "--ledger", str(story)).stdout)
    assert (found["ok"], found["level"], found["entries"], found["problems"]) == (True, "A1", 11, [])


@pytest.mark.parametrize(
    ("statements", "code", "what"),
    [
        (["UPDATE entry SET payload = x'7b7d' WHERE position = 3"], 3, "length of the payload"),
        (["UPDATE entry SET event_type = 'execution.output' WHERE position = 3"], 3, "leaf does not follow"),
        (["UPDATE entry SET sequence = 77 WHERE position = 11"], 3, "sequence of 'run-1'"),
        (["DELETE FROM entry WHERE position = 11"], 4, "entries up to the head are missing"),
        (["DELETE FROM entry WHERE position = 5"], 4, "positions are missing"),
        (
            ["UPDATE entry SET payload = NULL, salt = NULL WHERE position = 3"],
            7,
            "payload is missing without a record",
        ),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_damage_is_found_and_the_exit_code_says_which(
    run, damage, story: Path, statements: Sequence[str], code: int, what: str, form: tuple[str, ...]
) -> None:
    damage(story, *statements)
    done = run("verify", *form, "--ledger", str(story))
    assert done.exit_code == code
    assert what in done.stdout
    assert done.stderr == ""


def test_only_the_first_problems_are_listed_and_the_rest_is_counted(run, damage, story: Path) -> None:
    damage(story, "UPDATE entry SET timestamp = '2020-01-01T00:00:00.000000Z'")
    done = run("verify", "--last", "2", "--ledger", str(story))
    assert done.exit_code == 3
    assert done.stdout.count("leaf does not follow") == 3  # in the summary, and twice in the list
    assert "more (--json has them)" in done.stdout


def test_a_file_that_is_no_ledger_is_corrupt(run, path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)
    done = run("verify", "--ledger", str(path))
    assert done.exit_code == 3
    assert "Traceback" not in done.output
    found = run("verify", "--json", "--ledger", str(path))
    assert found.exit_code == 3
    assert json.loads(found.stdout)["ok"] is False
    assert run("runs", "--ledger", str(path)).exit_code == 1


@pytest.mark.parametrize(("level", "code"), [("A0", 0), ("A1", 0), ("a1", 0), ("A2", 8), ("A5", 8)])
def test_a_required_level_that_is_not_reached_is_8(run, story: Path, level: str, code: int) -> None:
    done = run("verify", "--require", level, "--ledger", str(story))
    assert done.exit_code == code
    assert ("is required; A1 is reached" in done.stdout) == (code == 8)


def test_an_empty_ledger_proves_no_level(run, path: Path) -> None:
    import chatsnapshot

    chatsnapshot.open(path).close()
    assert run("verify", "--ledger", str(path)).exit_code == 0
    assert run("verify", "--require", "A0", "--ledger", str(path)).exit_code == 8


def test_what_is_wrong_weighs_more_than_what_is_required(run, damage, story: Path) -> None:
    damage(story, "DELETE FROM entry WHERE position = 11")
    assert run("verify", "--require", "A2", "--ledger", str(story)).exit_code == 4
