"""The tree under test: its root, its tracked files and the modules of the package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def project(root: Path) -> dict:
    """pyproject.toml, parsed."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10: pytest brings it there
        import tomli as tomllib
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """Files that git tracks or would track, which still exist."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git work tree")
    return [
        root / name for name in sorted(set(listed.stdout.split("\0"))) if name and (root / name).is_file()
    ]


@pytest.fixture(scope="session")
def sources(root: Path) -> dict[str, Path]:
    """Every module of the package: dotted name -> file."""
    found = {}
    for path in sorted((root / "src").rglob("*.py")):
        parts = path.relative_to(root / "src").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found
