"""The command of the contract: its report for people and machines, its exit codes, and what it says of wrong input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chatsnapshot.testing.adaptercontract.checking import COLUMNS
from chatsnapshot.testing.adaptercontract.playing import SETTINGS
from chatsnapshot.testing.adapters import AdapterBench, Outcome, benches, cells, main, named, run
from chatsnapshot.testing.runtimes.custom import CustomBench

Printed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_runtime_that_keeps_the_contract_is_told_with_its_row(printed: Printed) -> None:
    code, out, err = printed("custom", "--only", "plain")
    assert (code, err) == (0, "")
    assert out.startswith("CustomBench: custom, 20")
    assert "  ok   plain" in out
    assert "  messages   yes\n  tools      not run\n" in out
    assert out.rstrip().splitlines()[-1].startswith("keeps the contract: ")


def test_the_report_for_machines_has_the_row_and_every_cell(printed: Printed) -> None:
    code, out, _ = printed("custom", "--only", "plain", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["runtime"]) == (0, True, "custom")
    assert set(told["row"]) == set(COLUMNS)
    assert [one["check"] for one in told["results"]] == [cell.check.name for cell in cells("plain")]
    assert {one["status"] for one in told["results"]} == {"passed"}


def test_the_cells_as_a_table_have_a_column_a_story(printed: Printed) -> None:
    code, out, _ = printed("custom", "--only", "recording the same", "--markdown")
    assert code == 0
    head, _, row = out.strip().splitlines()
    assert head == (
        "| rule | plain | parallel_tools | sub_agent | handoff | interruption | tool_error | model_error | streaming |"
    )
    assert row == "| recording the same capture twice adds nothing |" + " yes |" * 8


class Silent(AdapterBench):
    """Records nothing, and has no handoffs."""

    lacks: ClassVar[Mapping[str, str]] = {"handoff": "it has one agent"}

    def recorder(self, ledger: Any) -> Any:
        return CustomBench().recorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        self.attached(recorder)
        return Outcome("Hi there")


class Empty(Silent):
    """Gives no reason."""

    lacks: ClassVar[Mapping[str, str]] = {"handoff": " "}


class Unknown(Silent):
    """Lacks what no runtime needs."""

    lacks: ClassVar[Mapping[str, str]] = {"telepathy": "nobody has it"}


class Away(Silent):
    """Its runtime is not installed."""

    package = "no-such-runtime"


def test_a_runtime_that_breaks_the_contract_is_told_what_and_where() -> None:
    report = run(Silent(), only="plain")
    assert not report.ok
    assert report.row()["messages"] == "FAILS"
    assert report.row()["handoff"] == "has none: it has one agent"
    text = report.text()
    assert "         FAIL everything is recorded and fits the schemas" in text
    assert "              nothing was recorded" in text
    assert text.splitlines()[-1].startswith("BREAKS THE CONTRACT: ")


def test_a_bench_of_ones_own_is_named_by_module_and_class(
    printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_bench.py").write_text(
        "from chatsnapshot.testing.runtimes.custom import CustomBench\n"
        "class Mine(CustomBench):\n    title = 'mine'\n"
        "class Broken(CustomBench):\n    def play(self, scenario, recorder):\n        raise OSError('no model')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, _ = printed("my_bench:Mine", "--only", "plain", "--json")
    assert (code, json.loads(out)["title"]) == (0, "mine")
    code, out, _ = printed("my_bench:Broken", "--only", "plain")
    assert code == 1
    settings = set(re.findall(r"could not play plain \(([^)]+)\)", out))
    assert settings <= SETTINGS.keys()
    assert out.count("OSError: no model") == len(settings), "once a setting, not once a rule"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nonsense", "there is no bench for 'nonsense'; there are "),
        ("no_such_module:Bench", "there is no bench no_such_module:Bench: No module named 'no_such_module'"),
        (
            "chatsnapshot.testing.runtimes.custom:Nobody",
            "there is no bench chatsnapshot.testing.runtimes.custom:Nobody",
        ),
        ("chatsnapshot.clock:uuid7", "chatsnapshot.clock:uuid7 is no AdapterBench; subclass"),
        (":", "there is no bench :"),
    ],
)
def test_a_wrong_name_is_one_sentence_and_code_2(printed: Printed, name: str, said: str) -> None:
    code, out, err = printed(name)
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("bench", "said"),
    [
        (Empty, "Empty: lacks['handoff'] needs a reason"),
        (Unknown, "Unknown: lacks['telepathy'] is no story; there are plain, "),
    ],
)
def test_a_bench_that_lacks_without_reason_is_refused(bench: type[AdapterBench], said: str) -> None:
    with pytest.raises(ValueError, match="lacks") as caught:
        run(bench(), only="plain")
    assert str(caught.value).startswith(said)


def test_a_runtime_that_is_not_installed_is_named(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatsnapshot.testing.runtimes.custom.CustomBench.package", "no-such-runtime")
    code, _, err = printed("custom")
    assert (code, err) == (2, "no-such-runtime is not installed, and the bench custom runs it\n")


def test_rules_that_nobody_knows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["custom", "--only", "nonsense"])
    assert ended.value.code == 2
    assert "no story and no rule is named 'nonsense'" in capsys.readouterr().err


def test_every_runtime_that_comes_along_has_a_bench() -> None:
    assert {"ag2", "custom"} <= set(benches())
    assert named("custom") == [CustomBench]


def test_the_contract_holds_in_files_too(tmp_path: Path) -> None:
    count = iter(range(10_000))
    report = run(CustomBench(), only="interruption", url=lambda: str(tmp_path / f"{next(count)}.db"))
    assert report.ok, report.text()
