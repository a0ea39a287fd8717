"""The stage: one process is killed in the middle of the case, a second one goes on, and the ledger is shown."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import chatsnapshot
from chatsnapshot.demo.worker import DONE, HOLD
from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.exporters.html import write_page

__all__ = ["Played", "main", "run"]

_DEFAULT_LEDGER = "./chatsnapshot.db"

Say = Callable[[str], None]


class Played(NamedTuple):
    """What happened: the case's correlation, the tasks of each process, how the first one ended, the shop's book."""

    case: str
    before: list[str]
    after: list[str]
    first_returncode: int
    book: list[str]


def run(url: str | None = None, *, kill_after: str = "triage", say: Say = lambda line: None) -> Played:
    """Play the case into the ledger at ``url``; the first process is killed with SIGKILL after ``kill_after``.

    Raises :class:`MissingExtra` without AG2, :class:`LedgerError` for a ledger that lives in one process.
    """
    if importlib.util.find_spec("ag2") is None:
        raise MissingExtra("the demonstration", "ag2")
    with chatsnapshot.open(url) as ledger:
        place, case = ledger.url, _free_case(ledger)
    if place.startswith("memory:"):
        raise LedgerError("the demonstration kills a process: give it a ledger on disk, such as runs.db")
    with tempfile.TemporaryDirectory(prefix="chatsnapshot-demo-") as folder:
        book = Path(folder) / "book.txt"
        say(f"A letter has come to Wick & Wane, makers of lamps. It is case {case}.")
        before, returncode = _work(place, case, book, kill_after, say)
        say("A second process reads from the ledger what is completed, and does the rest:")
        after, _ = _work(place, case, book, "", say)
        return Played(case, before, after, returncode, book.read_text(encoding="utf-8").splitlines())


def main(url: str | None = None, *, say: Say | None = None) -> int:
    """Play the case and show it with the commands that anybody can type; gives an exit code."""
    tell = say or _print
    with chatsnapshot.open(url) as ledger:
        place = ledger.url
    played = run(place, say=tell)
    twice = len(played.book) - len(set(played.book))
    tell(f"The shop's book has {len(played.book)} lasting things in it; {twice or 'none'} happened twice.")
    option = "" if url in (None, _DEFAULT_LEDGER) else f" --ledger {'…' if '@' in str(url) else url}"
    for command in (
        ["runs", "--last", "1"],
        ["timeline", played.case],
        ["transcript", played.case],
        ["verify"],
    ):
        tell("")
        tell(f"$ chatsnapshot {' '.join(command)}{option}")
        shown = subprocess.run([sys.executable, "-m", "chatsnapshot", *command, "--ledger", place])
        if shown.returncode:
            return shown.returncode
    page = _page_beside(place, played.case)
    told = _shown_path(page)
    tell("")
    tell(f"$ chatsnapshot show {played.case} --html {told}{option}")
    with chatsnapshot.open(place, read_only=True) as ledger:
        # The page of an earlier demonstration on another ledger may stand there.
        write_page(ledger, played.case, page, force=True)
    tell(f"The whole case on one page, to open in a browser: {told}")
    tell("")
    tools = _tools()
    again, own = (
        f"{tools}chatsnapshot replay {played.case} --speed 10{option}",
        f"{tools}python examples/minimal.py",
    )
    width = max(len(again), len(own))
    tell(f"Next: {again:<{width}}   plays the case again")
    tell(f"      {own:<{width}}   records an agent of your own, with one line")
    return 0


def _page_beside(url: str, case: str) -> Path:
    """Where the page goes: beside a ledger that is a file, else into this folder."""
    file = Path(url.partition("://")[2].partition("?")[0] if "://" in url else url)
    return (file.parent if file.exists() else Path.cwd()) / f"{case}.html"


def _shown_path(path: Path) -> str:
    """The path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _tools() -> str:
    """What to write before a command so that it is this environment's: nothing where it is on the path already."""
    folder = Path(sys.executable).parent
    if shutil.which("chatsnapshot") == str(folder / "chatsnapshot") or not folder.is_relative_to(Path.cwd()):
        return ""
    return f"{folder.relative_to(Path.cwd())}/"


def _free_case(ledger: chatsnapshot.Ledger) -> str:
    """``lamp-1``, or the next number on a ledger that has seen the demonstration before."""
    number = 1
    while list(ledger.read(correlation_id=f"lamp-{number}", limit=1)):
        number += 1
    return f"lamp-{number}"


def _work(url: str, case: str, book: Path, kill_after: str, say: Say) -> tuple[list[str], int]:
    """Let one process work on the case; gives the tasks it completed and how it ended."""
    command = [sys.executable, "-m", "chatsnapshot.demo", url, case, str(book), kill_after]
    done: list[str] = []
    killed = False
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(DONE):
                done.append(line.removeprefix(DONE).strip())
                say(f"  {done[-1]:<10} completed by process {process.pid}")
            elif line.strip() == HOLD:
                process.kill()
                killed = True
                say(f"Process {process.pid} is killed with SIGKILL.")
                break
    if killed is not bool(kill_after) or (process.returncode and not killed):
        raise LedgerError(
            f"process {process.pid} ended with {process.returncode} after {len(done)} tasks; "
            "what it says about it stands above"
        )
    return done, process.returncode


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
