"""The ranges, the locks, the Makefile and the set-up scripts agree, and the scripts do what they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CORE = {"apsw", "click", "msgspec"}
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
TARGETS = {"demo", "test", "check", "bench", "test-faults", "test-runtimes", "docs", "serve"}


def needs(lines: list[str], python: str = PYTHONS[-1]) -> dict[str, Requirement]:
    return {
        need.name: need
        for need in map(Requirement, lines)
        if need.marker is None or need.marker.evaluate({"python_version": python})
    }


def locked(path: Path) -> dict[str, str]:
    """Package -> version of a lock; every package must carry a hash."""
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", path.read_text()):
        if match := re.match(r"([a-z0-9._-]+)==([^ ;\\]+)", block):
            assert "--hash=sha256:" in block, f"{path}: {match[1]} has no hash"
            found[match[1]] = match[2]
    return found


def check(wanted: dict[str, Requirement], path: Path) -> None:
    got = locked(path)
    for name, need in wanted.items():
        assert name in got, f"{path.name} lacks {name}: run make lock"
        assert need.specifier.contains(got[name], prereleases=True), f"{path.name}: {name} is out of range"


def test_the_core_needs_three_packages(project: dict) -> None:
    assert needs(project["project"]["dependencies"]).keys() == CORE


def test_requirements_txt_has_the_ranges_of_the_core_and_of_ag2(root: Path, project: dict) -> None:
    lines = (root / "requirements.txt").read_text().splitlines()
    given = needs([line for line in lines if line and not line.startswith("#")])
    core = needs(project["project"]["dependencies"])
    ag2 = needs(project["project"]["optional-dependencies"]["ag2"])["ag2"]
    assert {name: need.specifier for name, need in given.items()} == {
        **{name: need.specifier for name, need in core.items()},
        "ag2": ag2.specifier,
    }
    assert given["ag2"].extras == {"openai"}


@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_has_locks_that_fit_the_ranges(python: str, root: Path, project: dict) -> None:
    folder = root / "requirements" / f"py{python.replace('.', '')}"
    extras = project["project"]["optional-dependencies"]
    demo = needs(project["project"]["dependencies"] + project["build-system"]["requires"] + extras["ag2"])
    check(demo, folder / "demo.txt")
    check(demo | needs(extras["test"], python), folder / "test.txt")


@pytest.mark.parametrize("python", PYTHONS)
def test_what_each_python_is_tested_with_is_a_part_of_its_lock(
    python: str, root: Path, project: dict
) -> None:
    folder = root / "requirements" / f"py{python.replace('.', '')}"
    core, test = locked(folder / "core.txt"), locked(folder / "test.txt")
    assert core.items() <= test.items()
    check(
        needs(project["project"]["dependencies"] + project["build-system"]["requires"]), folder / "core.txt"
    )
    assert {"pytest", "pytest-xdist", "pytest-timeout", "hypothesis"} <= core.keys()


@pytest.mark.parametrize("python", PYTHONS)
def test_the_tests_run_on_the_packages_that_the_demo_runs_on(python: str, root: Path) -> None:
    folder = root / "requirements" / f"py{python.replace('.', '')}"
    demo, test = locked(folder / "demo.txt"), locked(folder / "test.txt")
    assert demo.items() <= test.items()


def test_the_lowest_lock_pins_the_lower_ends_of_the_core(root: Path, project: dict) -> None:
    got = locked(root / "requirements" / "lowest.txt")
    for name, need in needs(project["project"]["dependencies"]).items():
        (lower,) = [part.version for part in need.specifier if part.operator == ">="]
        assert got[name].startswith(lower), name


@pytest.mark.parametrize("name", ["bench", "docs", "lock"])
def test_an_environment_apart_has_a_lock_that_fits(name: str, root: Path, project: dict) -> None:
    check(needs(project["project"]["optional-dependencies"][name]), root / "requirements" / f"{name}.txt")


def test_each_runtime_has_its_lock_a_python_and_tests_that_exist(root: Path) -> None:
    for inputs in (root / "requirements" / "runtimes").glob("*.in"):
        text = inputs.read_text()
        wanted = needs([line for line in text.splitlines() if line and not line.startswith("#")])
        check(wanted, inputs.with_suffix(".txt"))
        (python,) = re.findall(r"^# python: (\S+)$", text, re.MULTILINE)
        (tests,) = re.findall(r"^# tests: (.+)$", text, re.MULTILINE)
        assert python in PYTHONS
        assert [path for path in tests.split() if not (root / path).exists()] == []


def test_the_supported_pythons_are_the_same_everywhere(root: Path, project: dict) -> None:
    classifiers = project["project"]["classifiers"]
    assert [text.rpartition(" ")[2] for text in classifiers if "Python :: 3." in text] == PYTHONS
    assert sorted(path.name for path in (root / "requirements").glob("py3*")) == sorted(
        f"py{python.replace('.', '')}" for python in PYTHONS
    )
    for script in ("lock.py", "find-python.sh", "test-runtimes.sh"):
        text = (root / "scripts" / script).read_text()
        assert all(python in text for python in PYTHONS), script


def test_make_has_the_promised_targets_and_ci_calls_them(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    assert set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) >= TARGETS
    ci = (root / ".ci" / "run").read_text()
    called = re.findall(r"^step \d+ (\S+)$", ci, re.MULTILINE)
    assert set(called) == {"check", "test", "test-faults", "test-runtimes"}
    assert sum(map(int, re.findall(r"^step (\d+) ", ci, re.MULTILINE))) <= 60


def find_python(root: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(root / "scripts" / "find-python.sh"), *arguments]
    environment = {"PATH": str(path), "HOME": str(path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def stand_in(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_a_shim_for_a_python_that_is_not_there_is_passed_over(root: Path, tmp_path: Path) -> None:
    stand_in(tmp_path, "python3.13", "echo 'command not found' >&2; exit 127")
    stand_in(tmp_path, "python3.12", 'case "$2" in *ensurepip*) exit 1;; esac')
    stand_in(tmp_path, "python3.11", 'case "$2" in *ensurepip*) exit 0;; *executable*) echo found;; esac')
    stand_in(tmp_path, "python3", "echo 'too early' >&2; exit 1")
    done = find_python(root, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "found\n", "")


def test_without_a_python_one_sentence_says_what_to_install(root: Path, tmp_path: Path) -> None:
    stand_in(tmp_path, "python3", "exit 1")
    done = find_python(root, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "python3-venv" in done.stderr
    assert done.stderr.count("\n") == done.stderr.count(".\n") == 1


def test_make_serve_runs_the_service(root: Path) -> None:
    done = subprocess.run(["make", "-n", "serve"], cwd=root, capture_output=True, text=True)
    assert ".venv/bin/chatsnapshot serve" in done.stdout.splitlines(), done.stdout + done.stderr
