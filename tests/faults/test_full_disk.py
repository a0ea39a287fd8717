"""Real ends of space: a small file system, a limit on file sizes. Recording goes on by itself when there is room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.timeout(120)]

RECORDS = """
import os, resource, signal, sys
import chatsnapshot
path, how = sys.argv[1:]
filler = os.path.join(os.path.dirname(path), "filler")
if how == "file system":
    with open(filler, "wb") as file:
        file.write(bytes(700_000))
ledger = chatsnapshot.open(path, validation="off")
stored = [ledger.record("execution.message", {"number": 0}, correlation_id="run-0").event_id]
if how == "file size":
    # CPython ignores SIGXFSZ, so that a write beyond the limit is an error and not the end.
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
errors, open_ids, number = [], [], 0
while len(errors) < 20:
    number += 1
    assert number < 5_000, "the disk was never full"
    payload = {"number": number, "text": "x" * 2_000, "data": bytes(35_000 if number % 7 == 0 else 10)}
    try:
        stored.append(ledger.record("execution.message", payload, correlation_id=f"run-{number % 3}").event_id)
    except chatsnapshot.CommitUncertain as error:
        errors.append(error)
        assert len(error.events) == 1
    except (chatsnapshot.StoreFull, chatsnapshot.StorePoisoned) as error:
        errors.append(error)
# Where not even the doubtful commit can be struck out, the rest is refused until there is room, and says why.
assert all(isinstance(error, chatsnapshot.CommitUncertain) or "full" in str(error) or "no space" in str(error)
           for error in errors), errors
assert how == "file system" or any(isinstance(error, chatsnapshot.StoreFull) for error in errors), errors
print(len(stored), *sorted({type(error).__name__ for error in errors}))
uncertain = {event.event_id for error in errors if hasattr(error, "events") for event in error.events}
found = {entry.event_id for entry in ledger.read()}
assert set(stored) <= found <= set(stored) | uncertain, "the prefix is readable while there is no room"
report = ledger.verify()
assert report.ok, report.problems
if how == "file system":
    os.unlink(filler)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for error in errors:
    if isinstance(error, chatsnapshot.CommitUncertain):
        assert ledger.record_many(error.events) == ledger.record_many(error.events)
stored += [ledger.record("execution.message", {"more": number}, correlation_id="run-0").event_id for number in range(20)]
ledger.close()
with chatsnapshot.open(path) as ledger:
    found = [entry.event_id for entry in ledger.read()]
    assert set(found) == set(stored) | uncertain and len(found) == len(set(found))
    assert ledger.verify().ok
"""


def test_a_full_file_system_is_said_and_recording_goes_on_when_there_is_room(
    path: Path, small_file_system: list[str]
) -> None:
    mount = 'mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" -W error -c "$3" "$4" "file system"'
    done = subprocess.run(
        [*small_file_system, "sh", "-c", mount, "sh", str(path.parent), sys.executable, RECORDS, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "") or "were never acknowledged" in done.stderr, done.stderr
    assert done.returncode == 0
    print(done.stdout)


def test_a_limit_on_the_size_of_files_is_said_and_recording_goes_on_without_it(path: Path) -> None:
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RECORDS, str(path), "file size"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
