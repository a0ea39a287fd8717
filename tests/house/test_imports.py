"""`import chatsnapshot` costs next to nothing, gives exactly the promised names, and needs no extra."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot

# The public API. A name added here is a promise; a name removed here is a breaking change for the changelog.
PUBLIC = [
    "AG2ChatPersistence",  # saving AG2 chats is a first use, so its three names are reached without knowing a module
    "CommitUncertain",
    "Corrupt",
    "EventConflict",
    "EventEnvelope",
    "FormatTooNew",
    "InvalidEvent",
    "Ledger",
    "LedgerClosed",
    "LedgerEntry",
    "LedgerError",
    "LimitExceeded",
    "Limits",
    "MissingExtra",
    "NotFound",
    "Pending",
    "PersistentChatMixin",
    "ReadOnly",
    "SequenceConflict",
    "Source",
    "StorageBackend",
    "StoreFull",
    "StorePoisoned",
    "StoreUnavailable",
    "autorecord",
    "federate",
    "open",
]
CORE = {"apsw", "chatsnapshot", "click", "msgspec"}
NOT_AT_IMPORT = [
    *[
        "ag2",
        "apsw",
        "asyncio",
        "autogen",
        "click",
        "concurrent.futures",
        "email",
        "http",
        "importlib.metadata",
    ],
    *[
        "jinja2",
        "logging",
        "msgspec",
        "nats",
        "openai",
        "psycopg",
        "pydantic",
        "pymongo",
        "socket",
        "sqlite3",
        "ssl",
    ],
    *["starlette", "threading", "unittest", "uuid", "uvicorn"],
]


def fresh(code: str) -> str:
    """Run code in an interpreter that has loaded nothing else, and return what it prints."""
    command = [sys.executable, "-S", "-c", code]
    path = str(Path(chatsnapshot.__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": path}, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(code: str) -> set[str]:
    return set(json.loads(fresh(f"import sys\n{code}\nimport json\nprint(json.dumps(sorted(sys.modules)))")))


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(chatsnapshot.__all__) == sorted(PUBLIC)
    assert sorted(name for name in dir(chatsnapshot) if not name.startswith("_")) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(chatsnapshot, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chatsnapshot.nothing  # noqa: B018


def test_importing_the_package_loads_no_driver_no_server_no_runtime_and_no_asyncio() -> None:
    """Runs without site-packages (-S), so it also shows that the import needs no dependency at all."""
    before = loaded_by("pass")
    after = loaded_by("import chatsnapshot")
    assert sorted((after - before) & set(NOT_AT_IMPORT)) == []
    assert sorted(name for name in after - before if name.startswith("chatsnapshot")) == ["chatsnapshot"]


def test_an_error_class_is_reached_without_a_driver() -> None:
    after = loaded_by("import chatsnapshot\nchatsnapshot.StoreFull")
    assert "chatsnapshot.errors" in after
    assert after.isdisjoint({"apsw", "asyncio", "msgspec", "sqlite3"})


def test_every_module_imports_with_the_core_alone_or_names_the_extra(sources: dict[str, Path]) -> None:
    """All that is neither ours, nor the core's, nor of the standard library is made unimportable first."""
    code = f"""
import importlib, sys

class OnlyTheCore:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in {sorted(CORE)!r} and first not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {{first!r}} (only the core is installed)", name=first)

sys.meta_path.insert(0, OnlyTheCore())
for name in {[name for name in sources if not name.endswith("__main__")]!r}:
    try:
        importlib.import_module(name)
    except Exception as error:
        if type(error).__name__ != "MissingExtra":
            print(name, type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
