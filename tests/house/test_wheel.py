"""What is built is what users get: the wheel holds the whole package, nothing else, and tells its needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built offline by the backend itself."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(
    wheel: zipfile.ZipFile, root: Path, tracked: list[Path]
) -> None:
    package = {str(path.relative_to(root / "src")) for path in tracked if path.is_relative_to(root / "src")}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == package
    assert {"chatsnapshot/py.typed", "chatsnapshot/__init__.py"} <= held


def test_the_wheel_carries_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    info = {name.split(".dist-info/")[1]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert b"MIT License" in wheel.read(info["licenses/LICENSE"])
    assert b"chatsnapshot = chatsnapshot.cli" in wheel.read(info["entry_points.txt"])


def test_the_wheel_is_for_any_machine(wheel: zipfile.ZipFile) -> None:
    assert str(wheel.filename).endswith("-py3-none-any.whl")


def test_the_metadata_has_the_core_and_every_extra(metadata: Message, project: dict) -> None:
    declared = project["project"]
    core = [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert sorted(core) == sorted(declared["dependencies"])
    assert sorted(metadata.get_all("Provides-Extra", [])) == sorted(declared["optional-dependencies"])
    assert metadata["Requires-Python"] == declared["requires-python"]
    assert metadata["License-Expression"] == "MIT"


def test_the_version_is_the_one_that_the_package_tells(metadata: Message) -> None:
    import chatsnapshot

    assert metadata["Version"] == chatsnapshot.__version__


def test_the_wheel_works_unpacked_elsewhere(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "import chatsnapshot; print(chatsnapshot.__file__, chatsnapshot.LedgerError.__name__)"
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.split() == [str(tmp_path / "chatsnapshot" / "__init__.py"), "LedgerError"], done.stderr
