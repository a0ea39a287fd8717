"""``record``: an event from the command line is the event that was meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chatsnapshot


def entry_of(path: Path) -> chatsnapshot.LedgerEntry:
    with chatsnapshot.open(path, read_only=True) as ledger:
        return list(ledger.read())[-1]


def test_it_makes_the_ledger_and_says_where_the_event_stands(run, path: Path) -> None:
    done = run(
        "record",
        "execution.message",
        '{"role": "user", "content": "Hé"}',
        "--correlation",
        "run-1",
        "--ledger",
        str(path),
    )
    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first == "recorded execution.message at position 1, sequence 1 of run-1"
    assert second == f"event_id {entry_of(path).event_id}"
    assert entry_of(path).payload == {"role": "user", "content": "Hé"}


def test_every_option_reaches_the_event(run, path: Path) -> None:
    cause = run("record", "a.b", "--correlation", "r", "--json", "--ledger", str(path))
    cause_id = json.loads(cause.stdout)["event"]["event_id"]
    done = run(
        *(
            "record",
            "system.error",
            '{"x": 1}',
            "--correlation",
            "r",
            "--cause",
            cause_id,
            "--ledger",
            str(path),
        ),
        *("--source-origin", "integration", "--source-runtime", "cron", "--source-name", "backup"),
        *("--timestamp", "2026-01-02T03:04:05+01:00", "--schema-version", "2"),
        *(
            "--attribute",
            "policy=x=y",
            "--attribute",
            "n:=3",
            "--attribute",
            "links=a",
            "--attribute",
            "links=b",
        ),
        *(
            "--event-id",
            "0199aaaa-0000-7000-8000-000000000001",
            "--expected-sequence",
            "1",
            "--strict",
            "--json",
        ),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["event"] == {
        "event_id": "0199aaaa-0000-7000-8000-000000000001",
        "event_type": "system.error",
        "timestamp": "2026-01-02T02:04:05.000000Z",
        "source": {"origin": "integration", "runtime": "cron", "name": "backup"},
        "correlation_id": "r",
        "causation_id": cause_id,
        "payload": {"x": 1},
        "schema_version": 2,
        "attributes": {"links": ["a", "b"], "n": 3, "policy": "x=y"},
    }


def test_a_source_without_an_origin_has_that_of_the_domain(run, path: Path) -> None:
    run("record", "ui.interaction", "--correlation", "r", "--source-name", "dana", "--ledger", str(path))
    assert entry_of(path).source == chatsnapshot.Source("ui", "none", "dana")


def test_without_a_payload_it_is_an_empty_object(run, path: Path) -> None:
    run("record", "a.b", "--correlation", "r", "--ledger", str(path))
    assert entry_of(path).payload == {}


def test_a_payload_that_is_no_object_is_kept_under_value(run, path: Path) -> None:
    run("record", "a.b", "[1, 2]", "--correlation", "r", "--ledger", str(path))
    assert entry_of(path).payload == {"value": [1, 2]}


@pytest.mark.parametrize("form", ["-", "file"])
def test_the_payload_comes_from_standard_input_or_a_file(run, path: Path, tmp_path: Path, form: str) -> None:
    text = '{"text": "日本"}'.encode()
    (tmp_path / "payload.json").write_bytes(text)
    source = ["-"] if form == "-" else ["--payload-file", str(tmp_path / "payload.json")]
    done = run("record", "a.b", *source, "--correlation", "r", "--ledger", str(path), input=text)
    assert done.exit_code == 0, done.output
    assert entry_of(path).payload == {"text": "日本"}


def test_the_same_idempotency_key_records_once(run, path: Path) -> None:
    arguments = [
        "record",
        "a.b",
        '{"n": 1}',
        "--correlation",
        "r",
        "--idempotency-key",
        "k",
        "--ledger",
        str(path),
    ]
    assert run(*arguments, "--json").stdout == run(*arguments, "--json").stdout
    assert entry_of(path).position == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.b", "{", "--correlation", "r"], "error: PAYLOAD is not JSON"),
        (["a.b", "[" * 100_000, "--correlation", "r"], "error: PAYLOAD is not JSON"),
        (["a.b", "{}", "--payload-file", "x", "--correlation", "r"], "error: "),
        (["nodomain", "--correlation", "r"], "error: event_type must read domain.name"),
        (
            ["a.b", "--correlation", "r", "--timestamp", "2026-01-01T00:00:00"],
            "error: timestamp '2026-01-01T00:00:00'",
        ),
        (["a.b", "--correlation", "r", "--cause", "x"], "error: causation_id must be a UUID"),
        (["a.b", "--correlation", "r", "--attribute", "novalue"], "error: --attribute takes KEY=VALUE"),
        (["a.b", "--correlation", "r", "--attribute", "n:=x"], "error: --attribute n is not JSON"),
        (
            ["a.b", "--correlation", "r", "--expected-sequence", "5"],
            "error: correlation 'r' is at sequence 0, not at 5",
        ),
        (["a.b", "--correlation", "r", "--source-origin", "moon"], "error: "),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence_and_exit_code_1(
    run, path: Path, arguments: list[str], sentence: str
) -> None:
    done = run("record", *arguments, "--ledger", str(path))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_known_id_with_other_content_is_a_conflict(run, path: Path) -> None:
    common = ["--correlation", "r", "--idempotency-key", "k", "--ledger", str(path)]
    assert run("record", "a.b", '{"n": 1}', *common).exit_code == 0
    done = run("record", "a.b", '{"n": 2}', *common)
    assert done.exit_code == 1
    assert "is recorded at position 1 with another payload" in done.stderr


def test_the_traceback_is_shown_when_asked_for(run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATSNAPSHOT_DEBUG", "1")
    done = run("record", "nodomain", "--correlation", "r", "--ledger", str(path))
    assert done.exit_code == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("error: event_type")
