"""Write the table of stores in README.md from the conformance report of each (run by `make status`)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from chatsnapshot.testing.checking import CLAIMS
from chatsnapshot.testing.conformance import ConformanceReport, run

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "README.md"
BEGIN, END = "<!-- stores: written by make status -->\n", "<!-- end of stores -->\n"
STORES = {
    "memory, for tests": "memory:",
    "SQLite, one file": "status.db",
    "JSONL, lines to read by eye": "status.jsonl",
}
STATUSES = {"passed": "passed", "skipped": "not possible there", "not claimed": "not claimed"}


def place(url: str, folder: Path) -> str:
    """Return where the suite may make the ledgers of a store."""
    return url if url == "memory:" else str(folder / url)


def claims(traits: object) -> str:
    """Return the names of what a store claims."""
    return ", ".join(f"`{claim}`" for claim in CLAIMS if getattr(traits, claim)) or "none of the four"


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers in few words: `1-4, 6`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def amounts(counted: Mapping[str, int]) -> str:
    """Return how many checks have which status."""
    return ", ".join(
        f"{counted[status]} {words}" for status, words in STATUSES.items() if counted.get(status)
    )


def row(name: str, report: ConformanceReport) -> str:
    """Return one Markdown row: store, claims, promises kept, checks; a store without a server has none to kill."""
    kept = [topic for topic, _, _ in report.topics() if isinstance(topic, int) and report.keeps(topic)]
    found = [result.status for result in report.results if "server" not in result.detail.split(", ")]
    counted = {status: found.count(status) for status in STATUSES}
    return f"| {name} | {claims(report.traits)} | {ranges(kept)} | {amounts(counted)} |"


def table(rows: Sequence[str]) -> str:
    """Return the whole table."""
    return (
        "\n".join(["| store | claims | promises kept | checks |", "| --- | --- | --- | --- |", *rows]) + "\n"
    )


def page_with(page: str, rows: str) -> str:
    """Return the page with its table of stores replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + rows + END + after


def main() -> int:
    """Run the suite on each store; write the table unless a check fails."""
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for name, url in STORES.items():
            report = run(place(url, Path(folder)), seed=0)
            failed = failed or not report.ok
            for result in report.failures:
                sys.stderr.write(f"{name}: {result.name} failed: {result.detail}\n")
            rows.append(row(name, report))
    if failed:
        sys.stderr.write("README.md stays as it is: a store does not conform\n")
        return 1
    PAGE.write_text(page_with(PAGE.read_text(), table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
