"""The checks with a server in between pass for a store that does as it should, and tell those that do not."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.testing import together
from chatsnapshot.testing.checks import harmless, network, outages
from chatsnapshot.testing.conformance import Bench, Check, checks, run

SERVER_CHECKS = [check for check in checks() if "server" in check.needs]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The small server and its stores; worker processes import them by name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    module = importlib.import_module("served")
    monkeypatch.setattr(module, "SECONDS_MAX", 1.0)
    return module


@pytest.fixture
def bench(served: Any, tmp_path: Path) -> Iterator[Bench]:
    server = served.ServedServer(tmp_path)
    with Bench(server.url, opener=served.open_served, server=server, seed=7) as made:
        yield made
    server.kill()


def named(name: str) -> Check:
    (found,) = [check for check in checks() if check.name == name]
    return found


@pytest.mark.parametrize("check", SERVER_CHECKS, ids=lambda check: check.name)
def test_a_plain_server_passes(bench: Bench, check: Check) -> None:
    result = check.run(bench)
    assert result.status == "passed", result.detail


BROKEN = [
    ("SaysThatNothingWasStored", "whatever_request_or_answer_is_lost_what_is_said_of_the_events_is_true"),
    ("KeepsDeadConnections", "connections_that_were_cut_while_nothing_went_on_are_made_anew"),
    ("WaitsForEver", "a_stalled_connection_is_given_up_in_time_and_holds_up_nobody_else"),
    (
        "TakesSilenceForAbsence",
        "a_refused_connection_is_a_definite_error_and_recording_goes_on_when_it_is_taken",
    ),
    ("GivesUpForGood", "while_a_server_is_away_errors_are_definite_and_it_is_found_again_by_itself"),
    ("GivesUpForGood", "an_adapter_keeps_its_events_while_the_server_is_away_and_tells_of_the_rest"),
    ("SkipsAfterACut", "a_tail_goes_on_over_connections_that_were_cut_and_misses_nothing"),
    ("TearsImports", "whatever_is_lost_of_an_erasure_or_an_import_it_is_whole_or_not_there"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{one[0]}-{one[1][:30]}" for one in BROKEN])
def test_a_client_that_breaks_a_promise_is_told_so(
    bench: Bench, served: Any, broken: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "STORE", [getattr(served, broken)])
    monkeypatch.setattr(together, "JOIN_SECONDS_MAX", 4.0)
    monkeypatch.setattr(network, "STALL_SECONDS_MAX", 3.0)
    monkeypatch.setattr(outages, "OUTAGE_SECONDS_MAX", 3.0)
    monkeypatch.setattr(harmless, "FLUSH_SECONDS_MAX", 2.0)
    result = named(name).run(bench, seconds_max=20)
    assert result.status == "failed"
    assert "ImportError" not in result.detail and "AttributeError" not in result.detail, result.detail


def test_a_server_that_forgets_what_it_acknowledged_is_told_so(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "OUTAGE_SECONDS_MAX", 3.0)
    server = served.ServedServer(tmp_path, forgetful=True)
    monkeypatch.setattr(Bench, "traits", property(lambda bench: bench.claimed))
    with Bench(server.url, opener=served.open_served, server=server, seed=7) as bench:
        with bench.open() as ledger:
            claimed: Any = ledger._store.traits
        bench.claimed = type(claimed)(  # type: ignore[attr-defined]
            name="forgetful", durable=True, processes=True, guarded=False, erases_in_commit=False
        )
        result = named("a_server_that_is_killed_and_comes_back_has_lost_nothing_acknowledged").run(bench)
    server.kill()
    assert result.status == "failed"


def test_without_a_server_to_control_these_checks_are_not_run_and_say_so(served: Any, tmp_path: Path) -> None:
    report = run("memory:", only="server", seed=7)
    assert {result.status for result in report.results if "server" in result.detail} == {"not claimed"}
    assert len(report.results) >= len(SERVER_CHECKS)
    assert report.ok


def test_the_report_names_what_was_not_run_and_shows_no_password(served: Any, tmp_path: Path) -> None:
    server = served.ServedServer(tmp_path)
    url = server.url.replace("://", "://ann:secret@") + "?ledger=main&token=secret"
    report = run(url, opener=served.open_served, only="server", seed=7)
    server.kill()
    assert "secret" not in report.text(verbose=True) + report.to_json().decode()
    assert f"{len(SERVER_CHECKS)} checks kill the server" in report.text()
