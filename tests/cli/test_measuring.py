"""``metrics``, ``audit``, ``state``, ``diff`` and ``timeline --waterfall``: readable, exact, and hard to break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.cli.width import columns

PRICES = '{"currency": "USD", "models": {"large-2": {"input": "2.50", "output": 10}}}'


@pytest.fixture
def busy(story: Path) -> Path:
    """The story, with model calls, an approval and text that would move the cursor."""
    with chatsnapshot.open(story) as ledger:

        def record(event_type: str, payload: Any, second: int, **options: Any) -> Any:
            at = f"2026-11-30T02:26:{second:02d}.000000Z"
            return ledger.record(event_type, payload, correlation_id="run-1", timestamp=at, **options)

        usage = {"input_tokens": 1, "output_tokens": 0}
        record("execution.model_call", {"model": "large-2", "usage": usage, "duration_ns": 1_500_000_000}, 20)
        record(
            "execution.model_call", {"model": "\x1b[31mother\x1b[2J" + "漢" * 60, "error": "overloaded"}, 21
        )
        record("execution.human_input_requested", {"kind": "approval", "question_id": "q"}, 22)
        record(
            "execution.human_input_received",
            {"answers": "q", "decision": "approved", "user": "dana"},
            40,
            attributes={"principal": "odile", "policy": "refunds\x07-3", "subjects": ["order-9"]},
        )
        record("system.state_transition", {"entity": "order 9", "from": "open", "to": "paid"}, 41)
    return story


@pytest.fixture
def prices(tmp_path: Path) -> str:
    path = tmp_path / "prices.json"
    path.write_text(PRICES)
    return str(path)


def test_metrics_tell_calls_cost_and_what_is_unknown(run: Any, busy: Path, prices: str) -> None:
    shown = run("metrics", "run-1", "--prices", prices, "--ledger", str(busy)).stdout
    for told in (
        "2 runs: 2 completed",
        "2 calls, 1 failed (50.0 %); p50 1.50 s, p90 1.50 s, p99 1.50 s; 1 of unknown duration",
        "1 in, 0 out; unknown for 1 call",
        "0.0000025 USD and unknown for 1 call",
        "2 calls, 1 failed (50.0 %)",
        "1 question; p50 18.0 s",
    ):
        assert told in shown
    assert "unknown; give a price table" in run("metrics", "--ledger", str(busy)).stdout


@pytest.mark.parametrize("by", ["agent", "model", "tool", "run", "day"])
def test_metrics_by_each_group_fit_a_narrow_terminal(run: Any, busy: Path, prices: str, by: str) -> None:
    done = run("metrics", "--by", by, "--prices", prices, "--ledger", str(busy), env={"COLUMNS": "100"})
    assert done.exit_code == 0
    assert by.upper() in done.stdout
    assert max(columns(line) for line in done.stdout.splitlines()) <= 100
    assert "\x1b" not in done.stdout


def test_metrics_as_json_hold_every_group(run: Any, busy: Path, prices: str) -> None:
    found = json.loads(run("metrics", "--json", "--prices", prices, "--ledger", str(busy)).stdout)
    assert found["total"]["model"]["cost"] == [{"currency": "USD", "amount": "0.0000025"}]
    assert found["total"]["model"]["cost_unknown_calls"] == 1
    assert len(found["by_run"]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file or directory"),
        ("{", "prices.json, line 1: the price table is no JSON"),
        ('{"models": {"m": {"input": 1}}}', "models['m'].currency: missing"),
        ('{"currency": "USD", "models": {"m": {"inptu": 1}}}', "did you mean 'input'"),
    ],
)
def test_a_bad_price_table_is_one_sentence_with_the_file_and_the_place(
    run: Any, busy: Path, tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "prices.json"
    if text is not None:
        path.write_text(text)
    done = run("metrics", "--prices", str(path), "--ledger", str(busy))
    assert done.exit_code == 1
    assert said in done.stderr
    assert "prices.json" in done.stderr
    assert done.stderr.count("\n") == 1


def test_audit_tells_authority_decision_and_positions(run: Any, busy: Path) -> None:
    shown = run("audit", "run-1", "--ledger", str(busy), env={"COLUMNS": "200"}).stdout
    line = next(line for line in shown.splitlines() if "asks for approval" in line)
    for told in ("14,15", "odile", "approved by dana", "policy refunds␇-3", "about order-9"):
        assert told in line
    everything = json.loads(run("audit", "--json", "--ledger", str(busy)).stdout)
    assert [one["kind"] for one in everything["lines"]].count("tool") == 2
    narrow = run("audit", "run-1", "--ledger", str(busy), env={"COLUMNS": "80"}).stdout
    assert max(columns(line) for line in narrow.splitlines()) <= 80
    assert "nothing to tell" in run("audit", "--actor", "nobody", "--ledger", str(busy)).stdout


def test_state_is_that_of_the_position_asked_for(run: Any, busy: Path) -> None:
    shown = run("state", "run-1", "--ledger", str(busy)).stdout
    assert "order 9" in shown
    assert "completed" in shown
    early = run("state", "run-1", "--until", "2", "--ledger", str(busy)).stdout
    assert "order 9" not in early
    assert "unfinished" in early
    assert json.loads(run("state", "run-1", "--json", "--ledger", str(busy)).stdout)["subjects"]


def test_diff_tells_the_first_divergence_and_what_differs(run: Any, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        for name, city in (("one", "Bergen"), ("two", "Os\x1b[2Jlo")):
            ledger.record("execution.run_started", {"name": "x"}, correlation_id=name)
            ledger.record(
                "execution.tool_call", {"name": "tides", "arguments": {"city": city}}, correlation_id=name
            )
        ledger.record("execution.handoff", {"from": "a", "to": "b"}, correlation_id="two")
    shown = run("diff", "one", "two", "--ledger", str(path)).stdout
    assert "1 of 2 steps agree, 1 added, 1 changed" in shown
    assert "the first difference comes after 1 step" in shown
    assert "arguments.city: Bergen → Os␛[2Jlo" in shown
    assert "+ a hands over to b" in shown
    assert "\x1b" not in shown
    assert "no difference: 2 steps agree" in run("diff", "one", "one", "--ledger", str(path)).stdout
    later = run("diff", "two", "--from", "3", "--to", "4", "--ledger", str(path)).stdout
    assert "1 added" in later
    assert json.loads(run("diff", "one", "two", "--json", "--ledger", str(path)).stdout)["added"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["one"], "name two runs, or one run with --from"),
        (["one", "two", "--from", "1"], "name two runs, or one run with --from"),
        (["one", "two", "--to", "1"], "--to goes with one run and --from"),
        (["run-1", "--from", "5", "--to", "2"], "position 2 is before 5"),
        (["run-1", "rnu-1"], "did you mean run-1"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(
    run: Any, story: Path, arguments: list[str], said: str
) -> None:
    done = run("diff", *arguments, "--ledger", str(story))
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_run_without_times_has_no_bars_and_no_span_of_time(run: Any, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        payload = {"native": {"time": "unknown"}}
        ledger.record("execution.run_started", payload, correlation_id="run-1")
    shown = run("timeline", "run-1", "--waterfall", "--ledger", str(path)).stdout
    assert shown == "nothing to draw: the times of 1 span are unknown\n"
    assert "times are unknown" in run("metrics", "--ledger", str(path)).stdout


def test_the_waterfall_draws_the_critical_path_within_the_width(run: Any, busy: Path) -> None:
    done = run("timeline", "run-1", "--waterfall", "--ledger", str(busy), env={"COLUMNS": "80"})
    assert done.exit_code == 0
    assert max(columns(line) for line in done.stdout.splitlines()) <= 80
    assert "█" in done.stdout
    assert "waiting for people" in done.stdout
    assert "\x1b" not in done.stdout
    plain = run("timeline", "run-1", "--waterfall", "--ledger", str(busy), charset="ascii").stdout
    assert "#" in plain
    document = json.loads(run("timeline", "run-1", "--waterfall", "--json", "--ledger", str(busy)).stdout)
    assert sum(step["duration_ns"] for step in document["steps"]) == document["duration_ns"]
