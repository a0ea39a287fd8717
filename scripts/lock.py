"""Write the hashed locks in requirements/ from the ranges in pyproject.toml (run by `make lock`).

A lock holds names, versions and hashes, for every platform that is supported, and nothing about where the
files come from. Needs Python 3.11 or newer and uv; the Pythons that are locked for need not be there.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PLATFORMS = "sys_platform != 'win32'"
ELSEWHERE = {
    "attrs", "hypothesis", "jsonschema-rs", "numpy", "pandas", "protobuf", "pydantic", "pymerkle", "pytest",
    "pytest-timeout", "pytest-xdist", "regex", "rfc8785",
}  # fmt: skip
"""What of the test extra is needed by the tests that run on every Python: no server, no runtime, no tool."""
HEADER = "# Written by `make lock` from pyproject.toml; change that file instead.\n"


def main() -> None:
    """Write every lock; those of the runtimes from their own requirements/runtimes/NAME.in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    core = project["project"]["dependencies"]
    base = [*core, *project["build-system"]["requires"]]
    demo = [*base, *extras["ag2"]]
    test = [*demo, *extras["test"]]
    elsewhere = [*base, *(need for need in extras["test"] if name_of(need) in ELSEWHERE)]

    for python in PYTHONS:
        folder = FOLDER / f"py{python.replace('.', '')}"
        demo_lock = resolve(demo, python)
        write(folder / "demo.txt", demo_lock)
        test_lock = resolve(test, python, constraints=demo_lock)
        write(folder / "test.txt", test_lock)
        write(folder / "core.txt", resolve(elsewhere, python, constraints=test_lock))

    lowest = resolve(core, "3.10", "--resolution", "lowest-direct", "--no-deps")
    pins = re.findall(r"^[\w.-]+==[^\s;]+", lowest, re.MULTILINE)
    write(FOLDER / "lowest.txt", resolve([*elsewhere, *pins], "3.10"))

    write(FOLDER / "bench.txt", resolve([*base, *extras["bench"]]))
    write(FOLDER / "docs.txt", resolve(extras["docs"]))
    write(FOLDER / "lock.txt", resolve(extras["lock"]))

    tools = [*base, *(need for need in extras["test"] if re.match(r"hypothesis|pytest", need))]
    for inputs in sorted([*FOLDER.glob("runtimes/*.in"), *FOLDER.glob("peers/*.in")]):
        lines = inputs.read_text().splitlines()
        needs = [line for line in lines if line and not line.startswith("#")]
        python = next(line.removeprefix("# python: ") for line in lines if line.startswith("# python: "))
        beside = tools if inputs.parent.name == "runtimes" else []
        write(inputs.with_suffix(".txt"), resolve([*beside, *needs], python))


def name_of(need: str) -> str:
    """The package that a requirement names."""
    found = re.match(r"[\w.-]+", need)
    assert found is not None, need
    return found[0]


def resolve(
    needs: list[str], python: str | None = None, *options: str, constraints: str | None = None
) -> str:
    """Return pinned and hashed requirements for one Python version, or for every one where none is named."""
    versions = f"python_version == '{python}'" if python else f"python_version >= '{PYTHONS[0]}'"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scope = f'environments = ["{versions} and {PLATFORMS}"]'
        (folder / "pyproject.toml").write_text(f"[project]\nname = 'x'\nversion = '0'\n[tool.uv]\n{scope}\n")
        (folder / "needs.in").write_text("\n".join(needs) + "\n")
        command = [
            "uv",
            "pip",
            "compile",
            "needs.in",
            "--universal",
            "--python-version",
            python or PYTHONS[0],
        ]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", *options]
        if constraints is not None:
            (folder / "constraints.txt").write_text(constraints)
            command += ["--constraint", "constraints.txt"]
        uv = Path(sys.executable).with_name("uv")
        done = subprocess.run([uv, *command[1:]], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"uv could not resolve {', '.join(needs)} for Python {python or 'all'}:\n{done.stderr}")
    return without_the_common_marker(done.stdout)


def without_the_common_marker(lock: str) -> str:
    """Leave out the marker that says only what the whole lock is for; keep those that say more."""
    markers = collections.Counter(re.findall(r" ; (.*?)(?: \\)?$", lock, re.MULTILINE))
    if not markers:
        return lock
    common = markers.most_common(1)[0][0]
    lock = lock.replace(f" ; {common} \\\n", " \\\n")
    return lock.replace(f" and {common} \\\n", " \\\n").replace(f" ; {common} and ", " ; ")


def write(path: Path, lock: str) -> None:
    """Replace a lock, refusing one that tells an address."""
    if "://" in lock or re.search(r"^--?(index|extra|find|trusted)", lock, re.MULTILINE):
        sys.exit(f"{path.name} would name where packages come from; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + lock)
    print(f"{path.relative_to(ROOT)}: {lock.count('==')} packages")


if __name__ == "__main__":
    main()
