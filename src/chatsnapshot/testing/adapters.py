"""The contract of adapters: ``AdapterBench``, ``Outcome``, ``contract_tests`` for pytest, and the command that runs it.

``python -m chatsnapshot.testing.adapters NAME`` runs it for a runtime of :mod:`chatsnapshot.testing.runtimes`, or
for a bench of your own as ``module:Class``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import pkgutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from chatsnapshot.testing.adaptercontract.bench import SCENARIOS, AdapterBench, Outcome, in_tool
from chatsnapshot.testing.adaptercontract.checking import Cell, CellResult, cells, wrong_lacks
from chatsnapshot.testing.adaptercontract.playing import Stage
from chatsnapshot.testing.adaptercontract.report import AdapterReport

__all__ = [
    "SCENARIOS",
    "AdapterBench",
    "AdapterReport",
    "Cell",
    "CellResult",
    "Outcome",
    "Stage",
    "benches",
    "cells",
    "contract_tests",
    "in_tool",
    "main",
    "named",
    "run",
]

_RUNTIMES = "chatsnapshot.testing.runtimes"
_QUIET = logging.NullHandler()
"""Runtimes log what the stories raise; without any handler Python would print it beside the report."""


def run(
    bench: AdapterBench,
    *,
    only: str = "",
    url: str | Callable[[], str] = "memory:",
    progress: Callable[[CellResult], None] | None = None,
) -> AdapterReport:
    """Run the contract; never raises for what it finds.

    ``only`` keeps the cells whose story or rule holds the text; ``url`` (or what it gives when called) is where each
    fresh ledger is made. Raises :class:`ValueError` for a bench whose ``lacks`` is wrong.
    """
    if wrong := wrong_lacks(bench):
        raise ValueError(f"{type(bench).__name__}: {wrong}")
    started = time.monotonic()
    results = []
    logging.getLogger().addHandler(_QUIET)
    try:
        with Stage(bench, url) as stage:
            for cell in cells(only):
                result = cell.run(stage)
                results.append(result)
                if progress is not None:
                    progress(result)
    finally:
        logging.getLogger().removeHandler(_QUIET)
    return AdapterReport(
        module=type(bench).__module__,
        name=type(bench).__name__,
        title=bench.title or bench.package or bench.runtime,
        runtime=bench.runtime,
        package=bench.package,
        version=bench.version(),
        day=datetime.now(timezone.utc).date().isoformat(),
        seconds=time.monotonic() - started,
        lacks=dict(bench.lacks),
        results=tuple(results),
    )


def contract_tests(bench: type[AdapterBench], *, only: str = "") -> Callable[..., None]:
    """A pytest test for each cell of the contract: ``test_the_contract = contract_tests(MyBench)``.

    They are skipped where ``bench.package`` is not installed. With pytest-xdist they stay on one worker.
    """
    import pytest

    made = bench()
    if missing := made.missing():

        def test_not_installed() -> None:
            pytest.skip(f"{missing} is not installed")

        return test_not_installed

    stages: list[Stage] = []
    asked = [cell for cell in cells(only) if cell.lacking(made) is None]

    @pytest.mark.parametrize("cell", asked, ids=str)
    def test_the_contract(cell: Cell, request: Any) -> None:
        if not stages:
            if wrong := wrong_lacks(made):
                pytest.fail(wrong)
            stages.append(Stage(made))
            request.node.getparent(pytest.Module).addfinalizer(lambda: stages.pop().close())
        result = cell.run(stages[0])
        if result.status == "skipped":
            pytest.skip(result.detail)
        if result.status == "failed":
            pytest.fail(f"{cell}: {result.detail}", pytrace=False)

    tests: Callable[..., None] = test_the_contract
    if importlib.util.find_spec("xdist") is not None:  # else the mark is unknown
        tests = pytest.mark.xdist_group(f"contract-{bench.__module__}-{bench.__qualname__}")(tests)
    return tests


def benches() -> list[str]:
    """The names of the runtimes that come with a bench."""
    package = importlib.import_module(_RUNTIMES)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def named(name: str) -> list[type[AdapterBench]]:
    """The benches of a runtime (``"ag2"``), or one as ``"module:Class"``.

    Raises :class:`ValueError` for what is not there, in one sentence.
    """
    if ":" in name:
        module_name, _, class_name = name.partition(":")
        sys.path.insert(0, "") if "" not in sys.path else None
        try:
            found = getattr(importlib.import_module(module_name), class_name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"there is no bench {name}: {error}") from error
        if not (inspect.isclass(found) and issubclass(found, AdapterBench)):
            raise ValueError(
                f"{name} is no AdapterBench; subclass chatsnapshot.testing.adapters.AdapterBench"
            )
        return [found]
    if name not in benches():
        raise ValueError(f"there is no bench for {name!r}; there are {', '.join(benches())}, or module:Class")
    module = importlib.import_module(f"{_RUNTIMES}.{name}")
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, AdapterBench) and value.__module__ == module.__name__
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when the contract is kept, 1 when it is not, 2 when there is nothing to run it on."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m chatsnapshot.testing.adapters",
        description="Run the contract of adapters on a runtime, with that runtime's own test model.",
    )
    parser.add_argument("bench", help=f"{', '.join(benches())}, or a bench of your own as module:Class")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the cells as a Markdown table")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose story or rule holds TEXT")
    parser.add_argument("--verbose", action="store_true", help="list every cell with its time")
    options = parser.parse_args(arguments)
    if not cells(options.only):
        parser.error(f"no story and no rule is named {options.only!r}")
    try:
        chosen = [bench() for bench in named(options.bench)]
        for bench in chosen:
            if missing := bench.missing():
                raise ValueError(f"{missing} is not installed, and the bench {options.bench} runs it")
        reports = [run(bench, only=options.only) for bench in chosen]
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for report in reports:
        if options.json:
            sys.stdout.write(report.to_json().decode() + "\n")
        else:
            sys.stdout.write((report.markdown() if options.markdown else report.text(options.verbose)) + "\n")
    return 0 if all(report.ok for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
