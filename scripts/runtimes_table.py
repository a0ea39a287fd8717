"""Write the table of runtimes in docs/runtimes.md from the reports of the contract of adapters.

The runtimes that are installed here are run, and those with an environment of their own (``make test-runtimes`` sets them
up); the rows of the others stay. A report from elsewhere may be given: ``python -m chatsnapshot.testing.adapters crewai
--json > crewai.json`` there, and here ``python scripts/runtimes_table.py crewai.json``. Run by `make runtimes-page`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chatsnapshot.testing.adaptercontract.bench import AdapterBench
from chatsnapshot.testing.adaptercontract.checking import COLUMNS
from chatsnapshot.testing.adapters import benches, named, run

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "runtimes.md"
BEGIN, END = "<!-- runtimes: written by make runtimes-page -->\n", "<!-- end of runtimes -->\n"
HEAD = ("runtime", "tested", "tests", *COLUMNS)
WHY_HEAD = ("runtime", "has none of", "because")


class Table:
    """The rows of the page: what was tested, and what it shows."""

    def __init__(self) -> None:
        self.tested: dict[str, tuple[str, str]] = {}
        """By label: version and day, and the file of tests."""
        self.marks: dict[str, list[str]] = {}
        """By label: ``yes``, ``none`` or ``partly`` in each column."""
        self.reasons: dict[str, list[tuple[str, str]]] = {}
        """By label: what it has none of, and why."""

    def put(self, label: str, tested: str, tests: str, row: Mapping[str, str]) -> None:
        """Write the row of a report."""
        self.tested[label] = (tested, tests)
        self.marks[label] = [mark_of(value) for value in row.values()]
        reasons: dict[str, list[str]] = {}
        for column, value in row.items():
            what, _, why = value.partition(": ")
            if why:
                reasons.setdefault(why, []).append(column if what == "has none" else what.partition("no ")[2])
        self.reasons[label] = [(", ".join(whats), _cell(why)) for why, whats in reasons.items()]

    @classmethod
    def read(cls, page: str) -> Table:
        """The tables of a page."""
        made = cls()
        inside = page.partition(BEGIN)[2].partition(END)[0]
        first, _, second = inside.partition("\n\n")
        for label, tested, tests, *marks in _rows(first):
            made.tested[label], made.marks[label] = (tested, tests), marks
            made.reasons[label] = []
        for label, what, why in _rows(second):
            made.reasons[label].append((what, why))
        return made

    def text(self) -> str:
        """Both tables."""
        labels = sorted(self.marks, key=str.lower)
        lines = [_line(HEAD), _line(["---"] * len(HEAD))]
        lines += [_line([label, *self.tested[label], *self.marks[label]]) for label in labels]
        if any(self.reasons.values()):
            lines += ["", _line(WHY_HEAD), _line(["---"] * len(WHY_HEAD))]
            lines += [_line([label, *reason]) for label in labels for reason in self.reasons[label]]
        return "\n".join(lines) + "\n"


def mark_of(value: str) -> str:
    """The short form of a cell."""
    return "none" if value.startswith("has none") else "partly" if value.startswith("yes; ") else value


def _rows(table: str) -> list[list[str]]:
    lines = table.strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "&#124;").split())


def page_with(page: str, table: Table) -> str:
    """The page with its tables replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table.text() + END + after


def installed() -> list[AdapterBench]:
    """The benches whose runtime is installed."""
    made = [kind() for name in benches() for kind in named(name)]
    return [bench for bench in made if bench.missing() is None]


def tested(report: Mapping[str, Any]) -> str:
    """The version and the day of a report."""
    return f"{report['package']} {report['version']}, {report['day']}" if report["version"] else report["day"]


def tests_of(bench: str) -> str:
    """The file of tests that holds a bench, a class, to the contract."""
    for file in sorted((ROOT / "tests" / "adapters").rglob("test_*.py")):
        if f"contract_tests({bench})\n" in file.read_text():
            return f"`{file.stem}`"
    raise SystemExit(
        f"no test in tests/adapters says contract_tests({bench}): write one beside its adapter's tests"
    )


def reports(files: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The reports of the files, those of the other environments, and those of what is installed here."""
    for file in files:
        yield from _documents(Path(file).read_text())
    for name, python in elsewhere().items():
        command = [str(python), "-m", "chatsnapshot.testing.adapters", name, "--json"]
        yield from _documents(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout)
    for bench in installed():
        yield json.loads(run(bench).to_json())


def elsewhere() -> dict[str, Path]:
    """The benches that are not installed here, with the Python of the environment that has them."""
    missing = [name for name in benches() if any(kind().missing() for kind in named(name))]
    pythons = {name: ROOT / ".venvs" / _environment(name) / "bin" / "python" for name in missing}
    return {name: python for name, python in pythons.items() if python.exists()}


def _environment(name: str) -> str:
    """The environment that runs the tests of a bench; where none says so, the one that is named as it is."""
    for inputs in sorted(ROOT.glob("requirements/runtimes/*.in")):
        if f"tests/adapters/{name}" in inputs.read_text().split():
            return inputs.stem
    return name.replace("_", "-")


def _documents(text: str) -> Iterable[dict[str, Any]]:
    """A file holds one report after the other: a runtime may have several benches."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        found, at = decoder.raw_decode(text, at)
        yield found
        at += len(text[at:]) - len(text[at:].lstrip())


def main(files: list[str]) -> int:
    """The command; 1 when a runtime breaks the contract, and then its row stays as it was."""
    page = PAGE.read_text()
    table = Table.read(page)
    broken = 0
    for report in reports(files):
        print(f"{report['title']}: {'keeps' if report['ok'] else 'BREAKS'} the contract")
        if report["ok"]:
            table.put(report["title"], tested(report), tests_of(report["name"]), report["row"])
        broken += not report["ok"]
    PAGE.write_text(page_with(page, table))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
