"""The table of runtimes in the docs is what the benches claim, and each claim is tested."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chatsnapshot.testing.adaptercontract.report import claims
from chatsnapshot.testing.adapters import benches, named, run
from chatsnapshot.testing.runtimes.custom import CustomBench

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runtimes_table", ROOT / "scripts" / "runtimes_table.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench_of(name: str) -> list[Any]:
    return [kind() for kind in named(name)]


@pytest.mark.parametrize("name", benches())
def test_the_page_says_what_the_bench_claims(script: ModuleType, name: str) -> None:
    page = script.Table.read(script.PAGE.read_text())
    claimed = script.Table()
    for bench in bench_of(name):
        label = bench.title or bench.package or bench.runtime
        claimed.put(label, "", "", claims(bench.lacks))
        assert label in page.marks, "write the page anew: make runtimes-page"
        assert page.marks[label] == claimed.marks[label]
        assert page.reasons[label] == claimed.reasons[label]
        assert page.tested[label][1] == script.tests_of(type(bench).__name__)


@pytest.mark.parametrize("name", benches())
def test_every_claim_is_tested(script: ModuleType, name: str) -> None:
    for bench in bench_of(name):
        assert script.tests_of(type(bench).__name__).startswith("`test_")


def test_a_bench_without_a_test_is_told_so(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"no test in tests/adapters says contract_tests\(Untested\)"):
        script.tests_of("Untested")


def test_the_page_is_read_as_it_was_written(script: ModuleType) -> None:
    page = script.PAGE.read_text()
    assert script.page_with(page, script.Table.read(page)) == page


def test_a_report_from_elsewhere_becomes_a_row_and_a_broken_one_changes_nothing(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "installed", list)
    monkeypatch.setattr(script, "elsewhere", dict)
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    script.PAGE.write_text(f"# Page\n\n{script.BEGIN}{script.Table().text()}{script.END}\nThe end.\n")
    good = json.loads(run(CustomBench(), only="plain").to_json())
    good |= {"title": "elsewhere", "package": "its-package", "version": "1.2"}
    good["row"]["handoff"] = "has none: one | only"
    good["row"]["errors"] = "yes; no model_error: there are no models"
    broken = {**good, "ok": False, "title": "broken"}
    (tmp_path / "reports.json").write_text(json.dumps(good) + "\n" + json.dumps(broken) + "\n")
    assert script.main([str(tmp_path / "reports.json")]) == 1
    assert capsys.readouterr().out == "elsewhere: keeps the contract\nbroken: BREAKS the contract\n"
    told = script.PAGE.read_text()
    assert f"| elsewhere | its-package 1.2, {good['day']} | `test_custom` | yes |" in told
    assert "| elsewhere | handoff | one &#124; only |\n" in told
    assert "| elsewhere | model_error | there are no models |\n" in told
    assert "| partly | none |" in told
    assert "broken" not in told
    assert told.startswith("# Page\n") and told.endswith("\nThe end.\n")
    assert script.page_with(told, script.Table.read(told)) == told


def test_a_runtime_with_an_environment_of_its_own_is_run_there(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "benches", lambda: ["custom"])
    python = tmp_path / ".venvs" / "custom" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert script.elsewhere() == {}, "it is installed here"
    monkeypatch.setattr("chatsnapshot.testing.runtimes.custom.CustomBench.package", "no-such-runtime")
    assert script.elsewhere() == {"custom": python}
    python.unlink()
    assert script.elsewhere() == {}
