"""``chatsnapshot spool``: what waits is listed, sent, and dropped when that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import chatsnapshot
from chatsnapshot.cli.main import cli
from chatsnapshot.stores.spool.store import SpooledStore

URL = "http://127.0.0.1:9?ledger=away"


@pytest.fixture(autouse=True)
def spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three events that wait for a service that is not there."""
    import chatsnapshot.stores.spool.store as store

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(store, "CLOSE_SECONDS_MAX", 0.05)
    with chatsnapshot.open(URL) as ledger:
        assert isinstance(ledger._store, SpooledStore)
        for number in range(3):
            ledger.record(
                "execution.message", {"role": "user", "content": str(number)}, correlation_id="run-1"
            )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["spool", *arguments])


def test_what_waits_is_listed() -> None:
    found = run("list")
    assert found.exit_code == 0
    assert URL in found.output
    line = json.loads(run("list", "--json").output)
    assert (line["url"], line["waiting"], line["refused"]) == (URL, 3, 0)
    assert json.loads(run("list", "--json", URL).output) == line
    assert run("list", "--json", URL + "-other").output == ""


def test_sending_to_nobody_fails_and_keeps_it() -> None:
    sent = run("send", URL, "--timeout", "0.2")
    assert sent.exit_code == 1
    assert json.loads(run("list", "--json").output)["waiting"] == 3


def test_dropping_leaves_what_waits_unless_it_is_asked_for() -> None:
    assert run("drop", URL).exit_code == 0
    assert json.loads(run("list", "--json").output)["waiting"] == 3
    assert run("drop", URL, "--waiting").exit_code == 0
    assert json.loads(run("list", "--json").output)["waiting"] == 0


@pytest.mark.parametrize("url", ["runs.db", "http://127.0.0.1:9?ledger=never"])
def test_what_has_no_spool_says_so(url: str) -> None:
    assert run("drop", url).exit_code in (1, 2)
