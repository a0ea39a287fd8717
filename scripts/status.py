"""Write the table of stores in README.md from the conformance report of each (run by `make status`)."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from chatsnapshot.testing.checking import CLAIMS
from chatsnapshot.testing.conformance import ConformanceReport, run

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "README.md"
BEGIN, END = "<!-- stores: written by make status -->\n", "<!-- end of stores -->\n"
STORES = {
    "memory, for tests": "memory:",
    "SQLite, one file": "status.db",
    "JSONL, lines to read by eye": "status.jsonl",
    "PostgreSQL 18": "postgresql",
    "MongoDB, by the server SecantusDB": "mongodb",
    "NATS JetStream 2.15, one node": "nats",
    "HTTP, `mode=direct`, over SQLite": "http",
}
"""The stores by what they are called in the table: a place for ledgers, or the kind of a server that is started."""

SERVERS = {
    "postgresql": "PostgresqlServer",
    "mongodb": "MongodbServer",
    "nats": "NatsServer",
    "http": "HttpServer",
}
IMPATIENT = {
    "postgresql": "connect_timeout=3",
    "mongodb": "socketTimeoutMS=5000&serverSelectionTimeoutMS=3000",
    "nats": "timeout=5",
    "http": "timeout=3",
}
"""Options of URLs, so that what waits for a server that is away does not do so for long."""
STATUSES = {"passed": "passed", "skipped": "not possible there", "not claimed": "not claimed"}


@contextmanager
def place(url: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """Give where the suite may make the ledgers of a store, and its server, where it has one."""
    if url not in SERVERS:
        yield url if url == "memory:" else str(folder / url), None
        return
    module = importlib.import_module(f"chatsnapshot.testing.servers.{url}")
    with getattr(module, SERVERS[url])() as server:
        given = parse_qsl(urlsplit(server.url).query)
        more = [(key, value) for key, value in parse_qsl(IMPATIENT[url]) if key not in dict(given)]
        yield f"{server.url.partition('?')[0]}?{urlencode([*given, *more], safe='/')}", server


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
    asked = [result for result in report.results if "server" not in result.detail.split(", ")]
    found = [result.status for result in asked]
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
            with place(url, Path(folder)) as (where, server):
                report = run(where, seed=0, server=server)
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
