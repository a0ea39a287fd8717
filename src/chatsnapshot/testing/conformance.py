"""The conformance suite: ``python -m chatsnapshot.testing.conformance URL``, ``run(url)``, ``checks()`` for pytest."""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Callable, Sequence

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.open import open_store
from chatsnapshot.stores.serverurls import without_secrets
from chatsnapshot.testing.bench import Bench, OpenStore, ServerControls, Wrap
from chatsnapshot.testing.checking import Check, Result, registered
from chatsnapshot.testing.report import ConformanceReport

__all__ = ["Bench", "Check", "ConformanceReport", "Result", "ServerControls", "checks", "main", "run"]


_QUIET = logging.NullHandler()
"""What the suite provokes is logged too; without any handler Python would print it beside the report."""


def checks() -> list[Check]:
    """Every check, in the order of the promises; ``check.run(Bench(url))`` gives its :class:`Result`."""
    import chatsnapshot.testing.checks  # noqa: F401 (the modules register their checks)

    return registered()


def run(
    url: str,
    *,
    opener: OpenStore = open_store,
    wrap: Wrap | None = None,
    only: str = "",
    thorough: float = 1,
    seed: int | None = None,
    server: ServerControls | None = None,
    progress: Callable[[Result], None] | None = None,
) -> ConformanceReport:
    """Run the suite on fresh ledgers beside or under ``url``; see :class:`Bench` for the arguments.

    ``only`` keeps the checks whose name holds this text, and those of this topic or with this need. ``progress`` is
    called with each result.
    """
    if seed is None:
        seed = random.SystemRandom().randrange(2**32)
    started = time.monotonic()
    results: list[Result] = []
    logging.getLogger("chatsnapshot").addHandler(_QUIET)
    with Bench(url, opener=opener, wrap=wrap, thorough=thorough, seed=seed, server=server) as bench:
        for check in _chosen(only):
            result = check.run(bench)
            results.append(result)
            if progress is not None:
                progress(result)
        return ConformanceReport(
            url=without_secrets(url) if "://" in url else url,
            traits=bench.traits,
            seed=seed,
            thorough=thorough,
            seconds=time.monotonic() - started,
            results=tuple(results),
        )


def _chosen(only: str) -> Sequence[Check]:
    wanted = only.replace(" ", "_")
    if wanted.isdigit():  # a promise, and not the checks of kill -9
        return [check for check in checks() if wanted == str(check.topic)]
    return [
        check
        for check in checks()
        if not wanted or wanted in check.name or wanted in (str(check.topic), *check.needs)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when the store conforms, 1 when it does not, 2 when there is nothing to run it on."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m chatsnapshot.testing.conformance",
        description="Run the conformance suite against a store, on fresh ledgers of its own.",
    )
    parser.add_argument("url", help="memory:, a path such as /tmp/x.db, or the URL of a server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--thorough", type=int, default=1, metavar="N", help="multiply the rounds of races by N"
    )
    parser.add_argument("--seed", type=int, help="repeat the random choices of an earlier run")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="checks whose name holds TEXT, or of one topic"
    )
    parser.add_argument("--verbose", action="store_true", help="list every check with its time")
    parser.add_argument("--list", action="store_true", help="list the checks and run none")
    options = parser.parse_args(arguments)
    if options.thorough < 1:
        parser.error("--thorough is 1 or more")
    if not _chosen(options.only):
        parser.error(f"no check is named or filed under {options.only!r}; --list shows them")
    if options.list:
        for check in _chosen(options.only):
            needs = f" (needs {', '.join(check.needs)})" if check.needs else ""
            sys.stdout.write(f"{check.topic}: {check.title}{needs}\n")
        return 0

    def progress(result: Result) -> None:
        if sys.stderr.isatty() and not options.json:
            sys.stderr.write(f"\r\x1b[K{result.name.replace('_', ' ')[:78]}\r")
            sys.stderr.flush()

    try:
        report = run(
            options.url, only=options.only, thorough=options.thorough, seed=options.seed, progress=progress
        )
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if sys.stderr.isatty() and not options.json:
        sys.stderr.write("\r\x1b[K")
    sys.stdout.write((report.to_json().decode() if options.json else report.text(options.verbose)) + "\n")
    sys.stdout.flush()
    if any("it hangs" in result.detail for result in report.failures):
        os._exit(1)  # threads of a hanging check would keep the interpreter from ending
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
