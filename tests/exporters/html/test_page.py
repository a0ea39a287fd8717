"""The page of a run: what stands on it, that it is the same each time, and that its file appears whole."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.exporters.html import render_page, write_page
from chatsnapshot.exporters.html.facts import gather
from chatsnapshot.report import Problem


def test_a_run_of_one_event_has_every_section(ledger: Any, tell: Any, page_of: Any) -> None:
    tell("execution.message", {"role": "user", "content": "hello"})
    page = page_of(ledger)
    assert page.headings[0] == (1, "run-1")
    assert [text for level, text in page.headings if level == 2] == [
        "Run", "Verification", "Tree of runs", "Where the time went", "Transcript", "What led to what", "Metrics",
        "Events",
    ]  # fmt: skip
    assert "hello" in page.text


def test_the_page_tells_status_times_and_what_failed_inside(story: Any, page_of: Any) -> None:
    text = page_of(story).section("run")
    assert "completed, 1 tool error" in text
    assert "2026-11-30 02:26:01.000 UTC" in text
    assert "5 in, 2 out" in text
    assert "correctness 0.9" in text


def test_costs_come_from_the_price_table_and_are_unknown_without(story: Any, page_of: Any) -> None:
    assert "Cost unknown" in page_of(story).section("run")
    prices = {
        "currency": "USD",
        "models": {"m-1": {"input": "3.00", "output": "15.00"}},
    }
    assert "0.000045 USD" in page_of(story, prices=prices).section("run")


def test_the_page_says_what_is_proven_and_what_is_not(story: Any, page_of: Any) -> None:
    text = page_of(story).section("verification")
    report = story.verify()
    assert "verified" in text and report.root in text and "A1" in text
    assert "What is not proven" in text and "nobody rewrote the whole ledger" in text


def test_a_damaged_ledger_is_called_so_and_its_problems_link_to_their_positions(
    story: Any, read_page: Any
) -> None:
    facts = gather(story, "run-1")
    assert facts.report is not None
    problem = Problem(3, "payload does not match its commitment", "aa", "bb")
    report = msgspec.structs.replace(
        facts.report, ok=False, level="A0", problems=(problem,), problem_count=7, summary="7 problems"
    )
    page = read_page(render_page(msgspec.structs.replace(facts, report=report)))
    text = page.section("verification")
    assert "not sound" in text and "payload does not match its commitment" in text and "and 6 more" in text
    assert "verified" not in text.split("not sound")[0]


def test_a_page_without_a_verification_says_so(story: Any, page_of: Any) -> None:
    assert "without a verification" in page_of(story, verify=False).section("verification")


def test_the_tree_of_runs_nests_children_below_their_parents(story: Any, page_of: Any) -> None:
    page = page_of(story)
    assert re.search(r"triage.*read table", page.section("runs"))
    depths = [
        around.count("ul")
        for around, section, text in page.texts
        if section == "runs" and text in ("triage", "read table")
    ]
    assert depths == [1, 2]


def test_a_tool_call_is_folded_with_its_result(story: Any, page_of: Any) -> None:
    page = page_of(story)
    text = page.section("transcript")
    assert re.search(r'search\(q="tides"\) failed after 1\.00 s.*no answer', text)
    assert "Arguments" in text and "Result" in text
    assert re.search(r"Child run read table.*04:12", text)


def test_a_question_stands_with_its_answer_and_how_long_it_took(ledger: Any, tell: Any, page_of: Any) -> None:
    asked = tell("execution.human_input_requested", {"question": "Pay?", "kind": "approval"})
    tell(
        "execution.human_input_received",
        {"answers": asked.event_id, "decision": "approved"},
        source={"origin": "ui", "runtime": "none", "name": "dana"},
    )
    tell("execution.human_input_requested", {"question": "And this?"})
    page = page_of(ledger)
    text = page.section("transcript")
    assert "asks for approval" in text and "dana after 1.00 s approved" in text and "Not answered." in text
    assert 'class="bar question"' in page.html and 'class="bar question open"' in page.html
    assert "waiting for a person" in page.section("time")


def test_an_erased_payload_is_marked_and_its_words_are_gone(ledger: Any, tell: Any, page_of: Any) -> None:
    told = tell("execution.message", {"role": "user", "content": "my address"})
    ledger.erase(told.position, reason="asked for")
    page = page_of(ledger)
    assert "my address" not in page.html
    assert "[erased]" in page.section("transcript") and "[erased]" in page.section("events")


def test_with_redaction_no_secret_is_on_the_page(ledger: Any, tell: Any, page_of: Any) -> None:
    tell("execution.message", {"role": "user", "content": "password=hunter2hunter2"})
    assert "hunter2" in page_of(ledger).html
    page = page_of(ledger, redact="secrets")
    assert "hunter2" not in page.html and "[redacted:" in page.html
    assert "Secrets were taken out" in page.section("verification")


def test_unknown_times_are_told_as_unknown(ledger: Any, timeless: Any, page_of: Any) -> None:
    page = page_of(ledger, "old-1")
    assert "unknown" in page.section("events") and "time unknown" in page.section("transcript")


def test_what_led_to_it_and_lies_outside_or_is_missing_is_told(ledger: Any, tell: Any, page_of: Any) -> None:
    cause = "00000000-0000-4000-8000-00000000ffff"
    tell("execution.message", {"role": "user", "content": "x"}, causation_id=cause)
    page = page_of(ledger)
    assert "Causes that are not in this ledger, named at 1" in page.section("graph")
    assert cause in page.section("events")


def test_child_runs_can_be_left_out(story: Any, page_of: Any) -> None:
    assert "read table" not in page_of(story, children=False).html


def test_until_shows_the_run_as_it_stood(story: Any, page_of: Any) -> None:
    page = page_of(story, until=4)
    assert "At 04:12" not in page.html and "unfinished, 1 tool error" in page.section("run")
    assert "at position 4" in page.text


def test_the_same_ledger_gives_the_same_bytes(story: Any, page_of: Any) -> None:
    assert page_of(story).html == page_of(story).html
    assert page_of(story, until=7).html == page_of(story, until=7).html


def test_the_file_appears_whole_and_its_owner_alone_reads_it(story: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    report = write_page(story, "run-1", path)
    assert (report.events, report.bytes, report.verified) == (13, path.stat().st_size, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["run.html"]


def test_a_page_replaces_a_file_only_when_told_to(story: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("mine")
    with pytest.raises(LedgerError, match=r"run\.html"):
        write_page(story, "run-1", path)
    assert path.read_text() == "mine"
    write_page(story, "run-1", path, force=True)
    assert path.read_bytes().startswith(b"<!doctype html>")


def test_a_failed_page_leaves_the_old_file_and_nothing_beside_it(
    story: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_page(story, "run-1", path, force=True)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["run.html"]


def test_a_run_that_is_not_there_is_refused_before_a_file_is_made(story: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        write_page(story, "nothing", tmp_path / "run.html")
    assert os.listdir(tmp_path) == []


def test_a_run_over_several_days_tells_the_day_beside_the_time(ledger: Any, page_of: Any) -> None:
    for day in (1, 2):
        at = f"2026-11-0{day}T03:04:05.678Z"
        ledger.record("execution.message", {"content": "x"}, correlation_id="run-1", timestamp=at)
    page = page_of(ledger)
    for section in ("transcript", "events"):
        assert "11-01 03:04:05.678" in page.section(section) and "11-02 03:04:05.678" in page.section(section)


def test_what_was_shown_was_shown_to_somebody(ledger: Any, tell: Any, page_of: Any) -> None:
    person = {"origin": "ui", "runtime": "web", "name": "dana"}
    tell("ui.input_received", {"text": "hello"}, source=person)
    tell("ui.output_displayed", {"text": "hi"}, source=person)
    text = page_of(ledger).section("transcript")
    assert "input by dana" in text and "shown to dana" in text


def test_a_picture_shows_all_its_rows_without_scrolling_down(ledger: Any, tell: Any, page_of: Any) -> None:
    tell("execution.message", {"role": "user", "content": "hello"})
    (rule,) = re.findall(r"^\.picture\{([^}]*)\}", page_of(ledger).html, re.MULTILINE)
    assert "height" not in rule and "overflow-x:auto" in rule
