"""``runs``, ``show``, ``timeline``, ``replay``, ``tail``, ``stats``: what a person sees of a ledger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot.cli.width import columns

READING = {
    "runs": [],
    "show": ["run-1"],
    "timeline": ["run-1"],
    "transcript": ["run-1"],
    "replay": ["run-1"],
    "tail": ["--no-follow"],
    "verify": [],
    "stats": [],
}


def rows(text: str) -> list[list[str]]:
    """Cells of a table: what at least two blanks part."""
    return [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


# --- which ledger -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READING)
def test_a_reading_command_never_makes_a_ledger(run, tmp_path: Path, name: str) -> None:
    done = run(name, *READING[name], "--ledger", "nowhere.db")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: no ledger at nowhere.db; ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_is_named_before_or_after_the_command_and_after_wins(run, story: Path) -> None:
    assert run("--ledger", str(story), "runs").exit_code == 0
    assert run("runs", "--ledger", str(story)).exit_code == 0
    assert run("--ledger", "nowhere.db", "runs", "--ledger", str(story)).exit_code == 0
    assert run("--ledger", str(story), "runs", "--ledger", "nowhere.db").exit_code == 2


def test_the_environment_names_the_ledger_when_no_option_does(
    run, story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATSNAPSHOT_LEDGER", str(story))
    assert run("runs").exit_code == 0
    assert run("runs", "--ledger", "nowhere.db").exit_code == 2


def test_the_default_ledger_is_chatsnapshot_db_here(run, tmp_path: Path) -> None:
    assert run("record", "a.b", "--correlation", "r").exit_code == 0
    assert (tmp_path / "chatsnapshot.db").exists()
    assert run("runs").exit_code == 0


def test_a_password_in_a_url_is_not_printed(run) -> None:
    done = run("runs", "--ledger", "postgresql://me:hunter2@db/ledger")
    assert done.exit_code in (1, 2)
    assert "hunter2" not in done.output


def test_an_empty_ledger_is_no_error(run, path: Path) -> None:
    chatsnapshot.open(path).close()
    for name in ("runs", "tail", "verify", "stats"):
        done = run(name, *READING[name], "--ledger", str(path))
        assert (done.exit_code, done.stderr) == (0, ""), name
    assert run("runs", "--ledger", str(path)).stdout == "no runs yet\n"
    assert "nothing to verify" in run("verify", "--ledger", str(path)).stdout


# --- runs ---------------------------------------------------------------------------------------------------------


def test_runs_shows_children_under_their_parents(run, story: Path) -> None:
    done = run("runs", "--ledger", str(story))
    assert done.exit_code == 0
    heading, parent, child = done.stdout.splitlines()
    assert heading.split() == ["RUN", "NAME", "STARTED", "TOOK", "EVENTS", "STATUS"]
    assert parent.startswith("run-1       triage")
    assert parent.endswith("completed, 1 tool error")
    assert child.startswith("└─ child-1  read table")
    assert "2026-11-30 02:26Z" in parent


def test_runs_as_json_is_one_run_a_line_with_its_children(run, story: Path) -> None:
    (line,) = run("runs", "--json", "--ledger", str(story)).stdout.splitlines()
    found = json.loads(line)
    assert (found["run_id"], found["status"]) == ("run-1", "completed")
    assert [child["run_id"] for child in found["children"]] == ["child-1"]


def test_runs_last_and_until_leave_out_the_rest(run, story: Path) -> None:
    with chatsnapshot.open(story) as ledger:
        ledger.record("execution.run_started", {}, correlation_id="run-2")
    assert [row[0] for row in rows(run("runs", "--last", "1", "--ledger", str(story)).stdout)[1:]] == [
        "run-2"
    ]
    early = run("runs", "--until", "4", "--ledger", str(story)).stdout
    assert "child-1" not in early
    assert "unfinished, 1 tool error" in early


# --- show ---------------------------------------------------------------------------------------------------------


def test_show_of_a_run_is_summary_timeline_and_transcript(run, story: Path) -> None:
    done = run("show", "run-1", "--ledger", str(story))
    assert done.exit_code == 0, done.output
    summary, timeline = done.stdout.split("\nTimeline\n")
    timeline, transcript = timeline.split("\nTranscript\n")
    assert "status    completed, 1 tool error" in summary
    assert "└─ child-1" in summary
    assert "tool failed: TimeoutError: no answer" in timeline
    assert "When is high tide?" in transcript


def test_show_finds_a_run_by_its_run_id(run, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        for run_id in ("first", "second"):
            ledger.record("execution.run_started", {"run_id": run_id}, correlation_id="thread")
            ledger.record("execution.run_completed", {"run_id": run_id}, correlation_id="thread")
    done = run("show", "second", "--ledger", str(path))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("second\n")
    assert "correlation  thread" in done.stdout


def test_show_of_an_event_tells_what_led_to_it_and_what_came_of_it(run, story: Path) -> None:
    with chatsnapshot.open(story, read_only=True) as ledger:
        call, result = [entry for entry in ledger.read() if entry.position in (5, 9)]
    shown = run("show", call.event_id, "--ledger", str(story)).stdout
    assert shown.startswith("execution.tool_call  position 5, sequence 5 of run-1\n")
    before, after = shown.split("\nCame of it\n")
    assert "  3  execution.tool_call" in before.split("\nLed to it, nearest first\n")[1]
    assert "  9  execution.tool_result" in after
    assert '"q": "tides"' in after.split("\nPayload\n")[1]
    assert json.loads(run("show", result.event_id, "--json", "--ledger", str(story)).stdout) == {
        "position": 9,
        "sequence": 6,
        "recorded_at": result.recorded_at,
        "leaf": result.leaf.hex(),
        "event": json.loads(result.event.to_json()),
    }


def test_show_names_a_cause_that_is_not_in_the_ledger(run, path: Path) -> None:
    unknown = "0199aaaa-0000-7000-8000-000000000001"
    with chatsnapshot.open(path) as ledger:
        entry = ledger.record("a.b", {}, correlation_id="r", causation_id=unknown)
    assert f"{unknown} is not in this ledger" in run("show", entry.event_id, "--ledger", str(path)).stdout


def test_show_of_a_circle_of_causes_ends(run, path: Path) -> None:
    one, two = "0199aaaa-0000-7000-8000-000000000001", "0199aaaa-0000-7000-8000-000000000002"
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {}, correlation_id="r", event_id=one, causation_id=two)
        ledger.record("a.b", {}, correlation_id="r", event_id=two, causation_id=one)
    assert f"and in a circle back to {one}" in run("show", one, "--ledger", str(path)).stdout


def test_show_of_an_erased_event_says_so(run, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        entry = ledger.record("a.b", {"secret": "x"}, correlation_id="r")
        ledger.erase(entry.position, reason="asked for")
    shown = run("show", entry.event_id, "--ledger", str(path)).stdout
    assert "payload   erased" in shown
    assert json.loads(run("show", entry.event_id, "--json", "--ledger", str(path)).stdout)["erased"] is True


@pytest.mark.parametrize("name", ["show", "timeline", "transcript", "replay"])
def test_an_unknown_run_is_an_error_that_names_similar_ones_or_the_last(run, story: Path, name: str) -> None:
    done = run(name, "run-9", "--ledger", str(story))
    assert done.exit_code == 1
    assert done.stderr == "error: no run 'run-9'; did you mean run-1? (see 'chatsnapshot runs')\n"
    done = run(name, "zzz", "--ledger", str(story))
    assert done.stderr == "error: no run 'zzz'; the last runs are run-1 (see 'chatsnapshot runs')\n"


# --- timeline, replay, tail ---------------------------------------------------------------------------------------


def test_timeline_gives_offsets_durations_and_what_failed(run, story: Path) -> None:
    found = run("timeline", "run-1", "--ledger", str(story)).stdout.splitlines()
    assert found[0] == "times from 2026-11-30 02:26:00.123Z"
    assert len(found) == 13
    failure = next(line for line in found if "no answer" in line)
    assert failure.split()[:4] == ["4", "+00:03.000", "1.00", "s"]


def test_timeline_without_children_and_only_the_last(run, story: Path) -> None:
    text = run("timeline", "run-1", "--no-children", "--last", "3", "--ledger", str(story)).stdout
    assert "5 earlier entries left out" in text
    assert [row[0].strip() for row in rows(text)[3:]] == ["9", "10", "11"]


def test_replaying_twice_gives_the_same_bytes_and_they_are_what_was_recorded(run, story: Path) -> None:
    first, second = (run("replay", "run-1", "--json", "--ledger", str(story)).stdout_bytes for _ in range(2))
    assert first == second
    with chatsnapshot.open(story, read_only=True) as ledger:
        assert first == b"".join(entry.event.to_json() + b"\n" for entry in ledger.replay("run-1"))


def test_replay_with_children_follows_the_order_of_the_ledger(run, story: Path) -> None:
    lines = run("replay", "run-1", "--children", "--json", "--ledger", str(story)).stdout.splitlines()
    assert len(lines) == 11
    assert [json.loads(line)["correlation_id"] for line in lines[5:8]] == ["child-1"] * 3


def test_replay_until_a_position_or_a_time_is_a_prefix(run, story: Path) -> None:
    by_position = run("replay", "run-1", "--json", "--until", "4", "--ledger", str(story)).stdout
    assert len(by_position.splitlines()) == 4
    with chatsnapshot.open(story, read_only=True) as ledger:
        moment = [entry.recorded_at for entry in ledger.read()][3]
    assert run("replay", "run-1", "--json", "--until", moment, "--ledger", str(story)).stdout == by_position


def test_replay_at_a_speed_waits_as_the_timestamps_say(
    run, story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.cli.commands import replay

    slept: list[float] = []

    class Time:
        now = 0.0

        @staticmethod
        def monotonic() -> float:
            return Time.now

        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)
            Time.now += seconds

    monkeypatch.setattr(replay, "time", Time)
    done = run("replay", "run-1", "--speed", "10", "--ledger", str(story))
    assert done.exit_code == 0
    with chatsnapshot.open(story, read_only=True) as ledger:
        times = [chatsnapshot.clock.parse_time(entry.timestamp) for entry in ledger.replay("run-1")]
    assert sum(slept) == pytest.approx((times[-1] - times[0]).total_seconds() / 10)


def test_tail_begins_with_the_last_events_or_after_a_position(run, story: Path) -> None:
    def positions(*options: str) -> list[int]:
        lines = run("tail", "--no-follow", "--json", *options, "--ledger", str(story)).stdout.splitlines()
        return [json.loads(line)["position"] for line in lines]

    assert positions() == list(range(2, 12))
    assert positions("--last", "2") == [10, 11]
    assert positions("--last", "0") == []
    assert positions("--after", "0") == list(range(1, 12))
    assert positions("--after", "9") == [10, 11]
    assert positions("--after", "99") == []
    assert positions("--correlation", "child-1") == [6, 7, 8]
    assert positions("--type", "execution.message", "--last", "2") == [7, 10]
    assert positions("--type", "system.*") == []


def test_stats_counts_events_and_payload_bytes(run, story: Path) -> None:
    found = json.loads(run("stats", "--json", "--ledger", str(story)).stdout)
    with chatsnapshot.open(story, read_only=True) as ledger:
        sizes = [(entry.correlation_id, len(entry.payload_json or b"")) for entry in ledger.read()]
    assert found["events"] == found["head"] == 11
    assert found["payload_bytes"] == sum(size for _, size in sizes)
    assert found["file_bytes"] >= story.stat().st_size
    assert {row["correlation_id"]: row["payload_bytes"] for row in found["correlations"]} == {
        name: sum(size for other, size in sizes if other == name) for name in ("run-1", "child-1")
    }
    assert sum(row["events"] for row in found["types"]) == 11


def test_stats_lists_the_largest_first_and_says_how_many_more(run, story: Path) -> None:
    text = run("stats", "--last", "1", "--ledger", str(story)).stdout
    assert "run-1" in text
    assert "child-1" not in text
    assert "and 1 more" in text


# --- hostile text -------------------------------------------------------------------------------------------------

HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07\x9b31m\r\b\u202e\u200b\ud800 日本" + "x" * 5000


@pytest.fixture
def hostile(path: Path) -> Path:
    with chatsnapshot.open(path) as ledger:
        start = ledger.record("execution.run_started", {"name": HOSTILE}, correlation_id="r\u202e1")
        ledger.record(
            "execution.message",
            {"role": HOSTILE, "name": HOSTILE, "content": HOSTILE + "\nsecond line"},
            correlation_id="r\u202e1",
            causation_id=start,
            source={"origin": "agent", "runtime": "none", "name": "a\u202eb"},
            attributes={"reason": HOSTILE},
        )
        ledger.record(
            "execution.tool_call",
            {"tool_name": HOSTILE, "arguments": {HOSTILE: HOSTILE}},
            correlation_id="r\u202e1",
        )
        ledger.record(
            "execution.run_failed",
            {"error": {"type": HOSTILE, "message": HOSTILE}},
            correlation_id="r\u202e1",
        )
    return path


@pytest.mark.parametrize("charset", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", READING)
def test_no_command_lets_an_agent_move_the_cursor(run, hostile: Path, name: str, charset: str) -> None:
    arguments = ["r\u202e1" if argument == "run-1" else argument for argument in READING[name]]
    done = run(name, *arguments, "--ledger", str(hostile), charset=charset)
    assert done.exit_code == 0, done.output
    bad = [
        c
        for c in done.output
        if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c in "\u202e\u200b\ud800"
    ]
    assert bad == []


def test_show_of_a_hostile_event_is_harmless(run, hostile: Path) -> None:
    with chatsnapshot.open(hostile, read_only=True) as ledger:
        entry = list(ledger.read())[1]
    done = run("show", entry.event_id, "--ledger", str(hostile))
    assert done.exit_code == 0, done.output
    assert [
        c for c in done.output if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c in "\u202e\u200b"
    ] == []


@pytest.mark.parametrize("name", ["runs", "timeline", "tail"])
def test_no_row_is_wider_than_the_terminal(
    run, hostile: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["r\u202e1" if argument == "run-1" else argument for argument in READING[name]]
    text = run(name, *arguments, "--ledger", str(hostile)).stdout
    assert max(columns(line) for line in text.splitlines()) <= 80


def test_an_error_shows_hostile_arguments_too(run, story: Path) -> None:
    done = run("show", "\x1b[2Jx", "--ledger", str(story))
    assert done.exit_code == 1
    assert "\x1b" not in done.stderr


def test_a_narrow_list_of_runs_shows_what_failed_before_it_shows_when(path, run):
    long = "run-" + "1" * 36
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.run_started", {"name": "a name"}, correlation_id=long)
        ledger.record("execution.tool_result", {"name": "t", "error": "no"}, correlation_id=long)
        ledger.record("execution.run_completed", {}, correlation_id=long)
    for width, whole in ((120, True), (80, True), (50, False)):
        lines = run("runs", "--ledger", str(path), env={"COLUMNS": str(width)}).stdout.splitlines()
        assert "completed, 1 tool error" in lines[1]
        assert (long in lines[1]) == whole
        assert ("STARTED" in lines[0]) == (width == 120)
        assert max(map(len, lines)) <= width


def test_an_unknown_event_id_is_called_no_event(story, run):
    done = run("show", "00000000-0000-4000-8000-000000000000", "--ledger", str(story))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: no event and no run '00000000-0000-4000-8000-000000000000'")
    assert run("show", "run-9", "--ledger", str(story)).stderr.startswith("error: no run 'run-9'")
