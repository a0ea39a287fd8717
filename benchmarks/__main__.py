"""``python -m benchmarks [NAME …]``: all measurements, or some."""

from __future__ import annotations

import argparse
import importlib
import platform
import tempfile

import apsw

MEASUREMENTS = (
    "append",
    "jsonl",
    "scan",
    "startup",
    "concurrent",
    "ag2",
    "runtimes",
    "growth",
    "redaction",
    "ingest",
    "projections",
    "transcripts",
    "postgresql",
    "scale",
    "nats",
    "otlp",
    "http",
    "remote",
)

LARGER = ("growth", "projections")
"""Those that can also measure many more events."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the median is reported")
    parser.add_argument("--folder", help="where the files are made (default: a temporary folder)")
    parser.add_argument(
        "--large",
        action="store_true",
        help="let growth go on to 10^7 events (6 GB, minutes), projections to 10^6 (2 GB, minutes)",
    )
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(MEASUREMENTS))
    if unknown:
        parser.error(f"there is no measurement {unknown[0]!r}")
    print(f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.machine()}")
    print(
        f"Medians of {chosen.rounds} interleaved rounds; ± is (largest − smallest) / median; ratios within rounds\n"
    )
    for name in chosen.names or MEASUREMENTS:
        with tempfile.TemporaryDirectory(prefix="chatsnapshot-bench-", dir=chosen.folder) as folder:
            options = {"large": True} if name in LARGER and chosen.large else {}
            importlib.import_module(f"benchmarks.{name}").run(folder, chosen.rounds, **options)
        print()


if __name__ == "__main__":
    main()
