"""``schema`` and ``verify --schemas``: what they print, write and end with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

import chatsnapshot
from chatsnapshot.cli.commands.schema import command
from chatsnapshot.events.catalogue import TYPES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")

ORDER: dict[str, Any] = {
    "x-event-type": "order.placed",
    "x-version": 1,
    "type": "object",
    "properties": {"total": {"type": "integer", "description": "in cents"}},
    "required": ["total"],
}


@pytest.fixture
def order(tmp_path: Path) -> Path:
    """A schema file of one's own."""
    path = tmp_path / "order.json"
    path.write_text(json.dumps(ORDER))
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """One payload that fits, two that do not, one of an unknown version, one of an unknown type, one erased."""
    path = tmp_path / "orders.db"
    with chatsnapshot.open(path, validation="off") as snapshot:

        def record(event_type: str, payload: Any, **options: Any) -> chatsnapshot.LedgerEntry:
            return snapshot.record(event_type, payload, correlation_id="o-1", **options)

        record("execution.message", {"role": "user", "content": "Hello"})
        record("execution.tool_call", {"arguments": {"q": "SECRET"}})
        record("order.placed", {"total": "SECRET"})
        record("execution.message", {"role": "user"}, schema_version=4)
        record("order.lost", {})
        entry = record("execution.tool_call", {"nothing": True})
        snapshot.erase(entry.position, reason="asked")
    return path


def test_list_names_every_type_of_the_catalogue(run) -> None:
    lines = run("schema", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(TYPES)


def test_list_names_schemas_of_ones_own_and_their_file(run, order: Path) -> None:
    found = [
        json.loads(line)
        for line in run("schema", "list", "--json", "--schemas", str(order)).stdout.splitlines()
    ]
    own = next(one for one in found if one["event_type"] == "order.placed")
    assert own == {"event_type": "order.placed", "version": 1, "source": f"file {order}", "summary": ""}


def test_show_describes_each_key(run, order: Path) -> None:
    done = run("schema", "show", "order.placed", "--schemas", str(order))
    assert done.exit_code == 0
    assert re.search(r"^  total +integer +needed +in cents$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("event_type", sorted(TYPES))
def test_show_works_for_every_type(run, event_type: str) -> None:
    done = run("schema", "show", event_type)
    assert done.exit_code == 0
    assert "Example" in done.stdout


def test_an_unknown_type_gets_the_nearest_names(run) -> None:
    done = run("schema", "show", "execution.mesage")
    assert done.exit_code == 1
    assert "no schema is known for 'execution.mesage'; did you mean execution.message" in done.stderr


def test_an_unknown_version_says_which_there_are(run) -> None:
    done = run("schema", "show", "execution.message", "--version", "9")
    assert (done.exit_code, done.stderr) == (1, "error: execution.message has no version 9; there is 1\n")


def test_what_export_writes_is_what_schemas_reads(run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = run("schema", "export", "-o", str(folder), "--json")
    assert json.loads(done.stdout)["files"] == sorted(path.name for path in folder.iterdir())
    assert (folder / "envelope.json").exists()
    one_file = tmp_path / "all.json"
    one_file.write_text(run("schema", "export").stdout)
    for source in (folder, one_file):
        lines = run("schema", "list", "--json", "--schemas", str(source)).stdout.splitlines()
        assert {json.loads(line)["source"].split()[0] for line in lines} == {"file"}
        assert len(lines) == len(TYPES)


def test_one_type_is_exported_alone_and_the_envelope_too(run) -> None:
    one = json.loads(run("schema", "export", "--type", "execution.message").stdout)
    assert (one["$id"], one["x-version"]) == ("urn:chatsnapshot:schema:execution.message:1", 1)
    envelope = json.loads(run("schema", "export", "--envelope", "--json").stdout)
    assert list(envelope["properties"])[:7] == envelope["required"]


def test_export_to_a_place_that_cannot_be_written_is_one_sentence(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("schema", "export", "-o", str(tmp_path / "file" / "sub"))
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize("arguments", [("schema", "check"), ("verify", "--schemas")])
def test_payloads_that_do_not_fit_are_listed_without_their_values(
    run, ledger: Path, order: Path, arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "verify":
        arguments = (*arguments, str(order))
    else:
        arguments = (*arguments, "--schemas", str(order))
    done = run(*arguments, "--ledger", str(ledger))
    assert done.exit_code == 10
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+  (execution|order)", line)]
    assert [line[:4] for line in lines] == [
        ["2", "execution.tool_call", "1", "$"],
        ["3", "order.placed", "1", "$.total"],
        ["4", "execution.message", "4", "$"],
    ]
    assert "unknown version 4 of execution.message (known: 1)" in done.stdout
    assert "SECRET" not in done.stdout


def test_check_counts_what_it_did_not_judge(run, ledger: Path) -> None:
    found = json.loads(run("schema", "check", "--json", "--ledger", str(ledger)).stdout)
    counts = {key: found[key] for key in ("count", "checked", "unknown", "erased", "stopped")}
    assert counts == {"count": 2, "checked": 4, "unknown": 2, "erased": 1, "stopped": ""}


def test_verify_with_schemas_alone_takes_the_catalogue_and_stays_sound(run, ledger: Path) -> None:
    done = run("verify", "--json", "--schemas", "--ledger", str(ledger))
    found = json.loads(done.stdout)
    assert (done.exit_code, found["ok"], found["level"], found["misfits"]["count"]) == (10, True, "A1", 2)


def test_verify_names_damage_before_what_does_not_fit(run, damage, ledger: Path) -> None:
    damage(ledger, "UPDATE entry SET event_type = 'execution.output' WHERE position = 1")
    assert run("verify", "--schemas", "--ledger", str(ledger)).exit_code == 3


def test_a_ledger_whose_payloads_fit_ends_with_0(run, story: Path) -> None:
    assert run("schema", "check", "--ledger", str(story)).exit_code == 0
    assert run("verify", "--schemas", "--ledger", str(story)).exit_code == 0


def test_check_of_no_ledger_ends_with_2(run) -> None:
    assert run("schema", "check").exit_code == 2


def test_diff_names_the_key_that_breaks(run, order: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps({**ORDER, "required": ["total", "currency"]}))
    done = run("schema", "diff", str(order), str(new))
    assert done.exit_code == 10
    assert "order.placed  not compatible (full)" in done.stdout
    assert "backward  $.currency  required by the new schema, unknown to the old" in done.stdout
    assert run("schema", "diff", str(order), str(new), "--mode", "forward").exit_code == 0
    found = json.loads(run("schema", "diff", str(order), str(new), "--json").stdout)
    assert found["types"]["order.placed"]["breaks"][0]["path"] == "$.currency"


def test_diff_takes_known_types_by_name(run) -> None:
    done = run("schema", "diff", "execution.message", "execution.message:1")
    assert (done.exit_code, done.stdout) == (0, "execution.message  compatible (full)\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no JSON"),
        ("[]", "must hold one JSON object"),
        ("{}", "says of no event type that it is its schema"),
        ('{"x-event-type": "Order"}', "has no usable x-event-type and x-version"),
        (
            json.dumps({**ORDER, "required": ["total"], "properties": {"total": False}}),
            "contradicts itself at /",
        ),
        (json.dumps({**ORDER, "type": "objekt"}), "this is no JSON Schema"),
    ],
)
def test_a_bad_schema_file_is_one_sentence(run, tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    done = run("schema", "list", "--schemas", str(path))
    assert done.exit_code == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_command_the_help_is_shown(run) -> None:
    done = run("schema")
    assert done.exit_code == 1
    assert all(name in done.stdout for name in command.commands)


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_option_of_a_command_is_on_the_page_and_no_other(name: str) -> None:
    found = re.search(rf"^#### schema {name}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    rows = re.findall(r"^\| `(-[^`]+)`(?:, `(--\S+)`)? \|", found[1], re.MULTILINE)
    documented = {long or short.split()[0] for short, long in rows}
    options = [one for one in command.commands[name].params if isinstance(one, click.Option)]
    assert documented == {one.opts[-1] for one in options}
    assert [one.name for one in options if not one.help] == []
