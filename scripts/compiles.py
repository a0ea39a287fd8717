"""Compiles every file of the package with the Python that runs this: syntax is the first thing that a version lacks."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"


def main() -> int:
    """Gives the number of files that do not compile without a warning."""
    warnings.simplefilter("error")
    failed = 0
    for path in sorted(SOURCES.rglob("*.py")):
        try:
            compile(path.read_bytes(), str(path), "exec")
        except (SyntaxError, SyntaxWarning, DeprecationWarning, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
