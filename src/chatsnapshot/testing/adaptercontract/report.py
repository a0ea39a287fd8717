"""What the contract found about one runtime: cells, the row of the table of runtimes, as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.testing.adaptercontract.bench import SCENARIOS
from chatsnapshot.testing.adaptercontract.checking import COLUMNS, RESUMING, CellResult

__all__ = ["AdapterReport", "claims"]

_MARKS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip", "has none": "none"}


class AdapterReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of one bench, in the order of the stories.

    ``title`` is what readers call the runtime; ``module`` and ``name`` are those of the bench; ``version`` is that of
    its ``package``, and ``day`` when it was run (UTC, ``2026-11-30``).
    """

    module: str
    name: str
    title: str
    runtime: str
    package: str | None
    version: str | None
    day: str
    seconds: float
    lacks: Mapping[str, str]
    results: tuple[CellResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no cell failed."""
        return not self.failures

    @property
    def failures(self) -> list[CellResult]:
        """The cells that failed."""
        return [result for result in self.results if result.status == "failed"]

    def row(self) -> dict[str, str]:
        """The columns of the table of runtimes: ``yes``, ``has none: why``, ``FAILS`` or ``not run``."""
        return {column: self._column(column) for column in COLUMNS}

    def _column(self, column: str) -> str:
        claimed = claims(self.lacks)[column]
        if claimed.startswith("has none"):
            return claimed
        found = [
            one.status
            for one in self.results
            if one.scenario in COLUMNS[column] and (column != "human" or one.check != RESUMING)
        ]
        if "failed" in found:
            return "FAILS"
        return claimed if "passed" in found else "not run"

    def to_json(self) -> bytes:
        """The report as one JSON object."""
        whole: dict[str, Any] = {
            "ok": self.ok,
            "module": self.module,
            "name": self.name,
            "title": self.title,
            "runtime": self.runtime,
            "package": self.package,
            "version": self.version,
            "day": self.day,
            "seconds": round(self.seconds, 3),
            "row": self.row(),
            "lacks": dict(self.lacks),
            "results": self.results,
        }
        return msgspec.json.format(msgspec.json.encode(whole))

    def markdown(self) -> str:
        """The cells as a Markdown table: a row a rule, a column a story."""
        names = list(dict.fromkeys(one.check for one in self.results))
        known = {(one.scenario, one.check): one.status for one in self.results}
        scenarios = [one for one in SCENARIOS if any(key[0] == one for key in known)]
        lines = [f"| rule | {' | '.join(scenarios)} |", "| --- |" + " --- |" * len(scenarios)]
        for name in names:
            marks = [_short(known.get((scenario, name))) for scenario in scenarios]
            lines.append(f"| {name.replace('_', ' ')} | {' | '.join(marks)} |")
        return "\n".join(lines) + "\n"

    def text(self, verbose: bool = False) -> str:
        """The report for people; ``verbose`` lists every cell, otherwise only what did not pass."""
        version = f" {self.version}" if self.version else ""
        lines = [f"{self.name}: {self.package or self.runtime}{version}, {self.day}", ""]
        for scenario, story in SCENARIOS.items():
            found = [one for one in self.results if one.scenario == scenario]
            if not found:
                continue
            if scenario in self.lacks:
                lines.append(f"  none {scenario:15} {self.lacks[scenario]}")
                continue
            counts = {mark: sum(one.status == mark for one in found) for mark in _MARKS}
            mark = "failed" if counts["failed"] else "passed" if counts["passed"] else "skipped"
            told = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
            lines.append(f"  {_MARKS[mark]} {scenario:15} {story}: {told}")
            for one in found:
                if verbose or one.status != "passed":
                    lines += _lines(one)
        lines += ["", *[f"  {column:10} {value}" for column, value in self.row().items()], ""]
        counted = {status: sum(one.status == status for one in self.results) for status in _MARKS}
        told = ", ".join(f"{number} {status}" for status, number in counted.items() if number)
        lines.append(
            f"{'keeps the contract' if self.ok else 'BREAKS THE CONTRACT'}: {told} in {self.seconds:.1f} s"
        )
        return "\n".join(lines)


def claims(lacks: Mapping[str, str]) -> dict[str, str]:
    """The row that a runtime has when it keeps the contract: ``yes``, ``has none: why``, or ``yes; no STORY: why``."""
    return {column: _claim(lacks, column) for column in COLUMNS}


def _claim(lacks: Mapping[str, str], column: str) -> str:
    scenarios = COLUMNS[column]
    missing = [one for one in scenarios if one in lacks]
    if column in lacks:
        return f"has none: {lacks[column]}"
    if len(missing) == len(scenarios):
        return f"has none: {lacks[missing[0]]}"
    return "; ".join(["yes", *[f"no {one}: {lacks[one]}" for one in missing]])


def _short(status: str | None) -> str:
    return {"passed": "yes", "failed": "**FAILS**", "skipped": "skipped", "has none": "has none"}.get(
        status or "", ""
    )


def _lines(one: CellResult) -> list[str]:
    first = f"         {_MARKS[one.status]} {one.check.replace('_', ' ')} ({one.seconds:.2f} s)"
    return [first, *[f"              {line}" for line in one.detail.strip().splitlines()]]
