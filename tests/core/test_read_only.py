"""Reading without the right to write: another user's ledger, a copy on a read-only medium, a ledger in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Ledger, NotFound, ReadOnly, StoreUnavailable

Python = Callable[..., "subprocess.CompletedProcess[str]"]

AS_NOBODY = """
import os, shutil, sys, tempfile
import chatsnapshot
# Everything is imported before the rights are given up: the other user may not be able to read this interpreter.
folder = tempfile.mkdtemp()
with chatsnapshot.open(folder + "/warm.db") as warm:
    warm.record("a.b", correlation_id="c")
    warm.verify(), list(warm.tail(after=0, timeout=0)), list(warm.read(correlation_id="c"))
with chatsnapshot.open(folder + "/warm.db", read_only=True) as warm:
    try:
        warm.record("a.b", correlation_id="c")
    except chatsnapshot.ReadOnly:
        pass
shutil.rmtree(folder)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""

READER = f"""{AS_NOBODY}
before = sorted(os.listdir(os.path.dirname(sys.argv[1])))
with chatsnapshot.open(sys.argv[1], read_only=True) as ledger:
    positions = [entry.position for entry in ledger.read()]
    assert ledger.head == len(positions)
    assert [entry.position for entry in ledger.read(correlation_id="c")] == positions
    assert ledger.verify().ok
    assert [entry.position for entry in ledger.tail(after=0, timeout=0)] == positions
    try:
        ledger.record("a.b", correlation_id="c")
    except chatsnapshot.ReadOnly:
        print(len(positions))
assert sorted(os.listdir(os.path.dirname(sys.argv[1]))) == before
"""


@pytest.fixture
def shared(require: Callable[[object, str], None]) -> Iterator[Path]:
    """A folder that others may enter and read, and only its owner may write to.

    It has a place of its own: pytest's folders are closed to others, and other runs of the tests rely on them.
    """
    own = Path(tempfile.mkdtemp(prefix="cs-"))
    try:
        closed = [parent for parent in own.parents if parent.stat().st_mode & 0o005 != 0o005]
        require(not closed or os.geteuid() != 0, f"a temporary folder that others may enter ({closed})")
        own.chmod(0o755)
        folder = own / "shared"
        folder.mkdir()
        yield folder
        folder.chmod(0o755)
    finally:
        shutil.rmtree(own)


def take_rights(folder: Path) -> None:
    """From now on nobody but root writes here."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


def filled(path: Path, count: int = 5) -> None:
    with chatsnapshot.open(path) as ledger:
        for n in range(count):
            ledger.record("a.b", {"n": n}, correlation_id="c")


def test_another_user_reads_a_closed_ledger_and_leaves_no_file_behind(shared: Path, python: Python) -> None:
    filled(shared / "runs.db")
    take_rights(shared)
    assert python(READER, shared / "runs.db").stdout == "5\n"


def test_another_user_reads_a_ledger_that_is_in_use(shared: Path, python: Python) -> None:
    with chatsnapshot.open(shared / "runs.db") as ledger:
        for n in range(5):
            ledger.record("a.b", {"n": n}, correlation_id="c")
        take_rights(shared)
        assert python(READER, shared / "runs.db").stdout == "5\n"


def test_a_copy_of_the_file_alone_can_be_read_where_nothing_can_be_written(
    shared: Path, python: Python
) -> None:
    filled(shared.parent / "runs.db")
    shutil.copy(shared.parent / "runs.db", shared / "copy.db")
    take_rights(shared)
    assert python(READER, shared / "copy.db").stdout == "5\n"
    assert [file.name for file in shared.iterdir()] == ["copy.db"]


def test_recording_where_nothing_may_be_written_says_so(shared: Path, python: Python) -> None:
    filled(shared / "runs.db")
    take_rights(shared)
    program = f"""{AS_NOBODY}
try:
    chatsnapshot.open(sys.argv[1]).record("a.b", correlation_id="c")
except (chatsnapshot.StoreUnavailable, chatsnapshot.ReadOnly) as error:
    print(error)
"""
    done = python(program, shared / "runs.db")
    assert "read_only=True" in done.stdout
    assert "writable" in done.stdout or "permissions" in done.stdout


def test_a_reader_sees_what_is_recorded_later_and_never_writes(
    path: str, opened: Callable[..., Ledger]
) -> None:
    writer = opened(path)
    writer.record("a.b", correlation_id="c")
    reader = opened(path, read_only=True)
    assert (reader.head, reader.read_only) == (1, True)
    for n in range(3):
        writer.record("a.b", {"n": n}, correlation_id="c")
    assert reader.head == 4
    assert list(reader.read()) == list(writer.read())
    for call in (
        lambda: reader.record("a.b", correlation_id="c"),
        lambda: reader.erase(1, reason="x"),
    ):
        with pytest.raises(ReadOnly):
            call()
    writer.close()
    assert len(list(reader.read())) == 4


def test_a_reader_survives_that_the_writer_comes_and_goes(path: str, opened: Callable[..., Ledger]) -> None:
    filled(Path(path), 1)
    reader = opened(path, read_only=True)
    for round in range(1, 6):
        assert reader.head == round
        filled(Path(path), 1)
    assert reader.verify().ok


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(
            NotFound, match=r"no ledger at .*none\.db; record something there first, or check"
        ):
            chatsnapshot.open(tmp_path / "none.db", **options)  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            chatsnapshot.open(tmp_path / "no" / "folder.db", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotFound, match="no ledger 'main' in"):
        chatsnapshot.open(tmp_path / "empty.db", read_only=True)
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_folder_is_no_ledger_and_gets_no_side_files(tmp_path: Path) -> None:
    folder = tmp_path / "runs.db"
    folder.mkdir()
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises((NotFound, StoreUnavailable), match="folder"):
            chatsnapshot.open(folder, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [folder]


STALE = f"""{AS_NOBODY}
with chatsnapshot.open(sys.argv[1], read_only=True) as ledger:
    print(ledger.head, flush=True)
    sys.stdin.readline()
    print(ledger.head, len(list(ledger.read())), ledger.verify().entries, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="another user takes root")
def test_a_reader_of_the_file_alone_sees_what_a_later_writer_adds(shared: Path) -> None:
    """Opened alone where nothing can be written, the file is taken as unchanging: for that one look only."""
    with chatsnapshot.open(shared / "source.db") as ledger:
        ledger.record("a.b", correlation_id="c")
    path = shared / "alone.db"
    shutil.copyfile(shared / "source.db", path)
    reader = subprocess.Popen(
        [sys.executable, "-c", STALE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None and reader.stdout is not None
    with reader:
        assert reader.stdout.readline().split() == ["1"]
        with chatsnapshot.open(path) as ledger:
            ledger.record_many([{"event_type": "a.b", "correlation_id": "c"}] * 3_000)
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline().split() == ["3001", "3001", "3001"]
