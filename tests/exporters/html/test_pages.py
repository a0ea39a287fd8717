"""Pages as an export: one run, or a folder of runs with a list; names that are no paths; one verification for all."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.errors import InvalidEvent, LedgerError
from chatsnapshot.exporters import export
from chatsnapshot.exporters.html import HtmlPages, write_page
from chatsnapshot.exporters.html.pages import INDEX, page_name


def test_the_page_of_one_run_is_the_one_that_show_writes(story: Any, tmp_path: Path) -> None:
    report = export(story, tmp_path / "run.html", "html", runs="run-1")
    write_page(story, "run-1", tmp_path / "shown.html")
    assert (tmp_path / "run.html").read_bytes() == (tmp_path / "shown.html").read_bytes()
    assert (report.written, report.unit, report.bytes) == (1, "runs", (tmp_path / "run.html").stat().st_size)


def test_a_folder_gets_a_page_for_each_run_that_is_nobodys_child_and_a_list(
    story: Any, tell: Any, tmp_path: Path, read_page: Any
) -> None:
    tell("execution.run_started", {"name": "second <b>"}, "Run/2")
    report = export(story, f"{tmp_path}/pages/", "html")
    names = sorted(os.listdir(tmp_path / "pages"))
    assert names == sorted(["run-1.html", page_name("Run/2"), INDEX])
    assert report.written == 2
    assert report.bytes == sum((tmp_path / "pages" / name).stat().st_size for name in names)
    listed = read_page((tmp_path / "pages" / INDEX).read_bytes())
    assert listed.faults == []
    links = [given["href"] for name, given, _ in listed.elements if name == "a"]
    assert links == ["run-1.html", page_name("Run/2")]
    assert (
        "second <b>" in listed.text
        and "completed, 1 tool error" in listed.text
        and "unfinished" in listed.text
    )
    assert stat.S_IMODE((tmp_path / "pages").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "pages" / INDEX).stat().st_mode) == 0o600


def test_a_child_that_is_named_has_a_page_of_its_own(story: Any, tmp_path: Path) -> None:
    export(story, f"{tmp_path}/", "html", runs=["run-1", "child-1"])
    assert sorted(os.listdir(tmp_path)) == ["child-1.html", INDEX, "run-1.html"]


def test_several_runs_need_a_folder(story: Any, tell: Any, tmp_path: Path) -> None:
    whole = io.BytesIO()
    export(story, whole, "html")  # one run, with its child
    assert whole.getvalue().count(b"<!doctype html>") == 1
    tell("execution.run_started", {}, "run-2")
    for target, runs in ((tmp_path / "one.html", None), (io.BytesIO(), ["run-1", "child-1"])):
        with pytest.raises(InvalidEvent, match="name a folder"):
            export(story, target, "html", runs=runs)
    assert os.listdir(tmp_path) == []


def test_a_page_that_is_there_is_replaced_only_with_force(story: Any, tmp_path: Path) -> None:
    (tmp_path / "run-1.html").write_text("mine")
    with pytest.raises(LedgerError, match="is there already"):
        export(story, tmp_path, "html", runs="run-1")
    assert (tmp_path / "run-1.html").read_text() == "mine"
    export(story, tmp_path, "html", runs="run-1", force=True)
    assert (tmp_path / "run-1.html").read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    "correlation",
    ["../../etc/passwd", "a/b", ".hidden", "A", "index", "\u202ex", "x" * 256, "", "a\\b", "..", "é"],
)
def test_no_name_of_a_run_leads_out_of_the_folder_or_over_another_page(correlation: str) -> None:
    name = page_name(correlation)
    assert name == os.path.basename(name) and name.isascii() and len(name) < 100
    assert not name.startswith(".") and name.lower() != INDEX
    assert name.lower() != page_name(correlation.lower() + "!").lower()


def test_names_that_differ_in_case_alone_are_two_files() -> None:
    assert len({page_name(one).lower() for one in ("run", "Run", "RUN")}) == 3


def test_the_ledger_is_verified_once_for_all_pages(
    story: Any, tell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell("execution.run_started", {}, "run-2")
    asked: list[int] = []
    verify = type(story).verify
    monkeypatch.setattr(type(story), "verify", lambda self, **given: asked.append(1) or verify(self, **given))
    export(story, tmp_path, "html")
    assert len(asked) == 1
    assert b"A1" in (tmp_path / "run-2.html").read_bytes()
    export(story, tmp_path, HtmlPages(verify=False), force=True)
    assert len(asked) == 1


def test_pages_are_redacted_priced_and_chosen_by_evaluation(ledger: Any, tell: Any, tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 12
    tell("execution.message", {"role": "user", "content": f"key {secret}"}, "good")
    tell(
        "execution.model_call",
        {"model": "m", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}},
        "good",
    )
    tell("execution.evaluation", {"name": "ok", "label": "yes"}, "good")
    tell("execution.message", {"role": "user", "content": "hello"}, "other")
    prices = {"currency": "USD", "models": {"m": {"input": "3.00", "output": "15.00"}}}
    report = export(ledger, tmp_path, HtmlPages(prices=prices), evaluation="ok=yes", redact="secrets")
    assert sorted(os.listdir(tmp_path)) == ["good.html", INDEX]
    assert report.left_out == {"runs that were not evaluated so": 1}
    page = (tmp_path / "good.html").read_text()
    assert secret not in page
    assert "3.00 USD" in page or "3 USD" in page


def test_no_page_lands_on_a_file_of_the_ledger(tmp_path: Path) -> None:
    import chatsnapshot

    with chatsnapshot.open(tmp_path / "run-1.html") as ledger:
        ledger.record("execution.run_started", {}, correlation_id="run-1")
        with pytest.raises(InvalidEvent, match="belongs to the ledger"):
            export(ledger, tmp_path, "html", force=True)
