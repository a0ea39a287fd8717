"""The server for tests: it takes connections, keeps its data over kills, and goes with the process that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import chatsnapshot
from chatsnapshot.testing.servers.postgresql import PostgresqlServer

SECONDS_MAX = 20.0


def test_what_was_acknowledged_is_there_after_a_kill_and_a_start(
    server: PostgresqlServer, tools: Any
) -> None:
    with chatsnapshot.open(server.url) as ledger:
        first = ledger.record(**tools.event())
    server.kill()
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        tools.connect(server.url)
    server.start()
    with chatsnapshot.open(server.url, create=False) as ledger:
        assert ledger.get(first.event_id) == first


def test_a_password_is_asked_for_on_tcp_only(server: PostgresqlServer, tools: Any) -> None:
    assert tools.run(server.url, "SELECT 1") == [(1,)]
    assert tools.run(server.tcp_url, "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="password"):
        tools.connect(server.tcp_url.replace(server.password, "wrong"))


def test_its_folder_goes_with_it(parts: None) -> None:
    with PostgresqlServer() as server:
        folder = Path(server.folder)
        assert folder.is_dir() and len(str(folder)) < 80
    assert not folder.exists()


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), 9)", "raise SystemExit"])
def test_it_ends_with_the_process_that_started_it(parts: None, how: str) -> None:
    code = (
        "import os\n"
        "from chatsnapshot.testing.servers.postgresql import PostgresqlServer\n"
        "server = PostgresqlServer()\n"
        "server.start()\n"
        "print(server.folder, server._process.pid, flush=True)\n"
        f"{how}\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    folder, pid = made.stdout.split()
    deadline = time.monotonic() + SECONDS_MAX
    while Path(folder).exists() or Path(f"/proc/{pid}").exists() or _runs(int(pid)):
        assert time.monotonic() < deadline, "the server or its folder is still there"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
