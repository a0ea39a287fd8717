"""What the code of the service does not hold (checks 47, 57), and the table of checks against the tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import chatsnapshot

HERE = Path(__file__).parent
ROOT = Path(__file__).resolve().parents[3]
SOURCES = Path(chatsnapshot.__file__).parent
PARTS = ("server", "ingest", "stores/http")


def called(part: str) -> list[tuple[str, str]]:
    """Every module that is imported, and every function that is called, by name."""
    found = []
    for path in (SOURCES / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found += [(path.name, one.name) for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.append((path.name, node.module))
            elif isinstance(node, ast.Call):
                found.append((path.name, "." + ast.unparse(node.func).rpartition(".")[2]))
    return found


def test_check_57_nothing_that_comes_over_the_wire_is_run_or_unpickled() -> None:
    bad = {
        "pickle",
        "marshal",
        "shelve",
        "dill",
        "yaml",
        "jsonpickle",
        ".eval",
        ".exec",
        ".compile_command",
        ".loads",
    }
    for part in PARTS:
        found = [(name, what) for name, what in called(part) if what in bad]
        assert found == [], part
    assert len(called("server")) > 500


def test_check_47_the_service_calls_nobody() -> None:
    clients = {
        "http.client",
        "urllib.request",
        "httpx",
        "requests",
        "aiohttp",
        "smtplib",
        "ftplib",
        "subprocess",
    }
    calls = {".create_connection", ".open_connection", ".connect", ".connect_ex", ".system", ".Popen"}
    found = [(name, what) for name, what in called("server") if what in clients | calls]
    assert found == []


def test_each_check_of_the_page_has_its_tests_or_says_why_not() -> None:
    shown = {}
    for line in (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| (\d+) \| (.+) \| (.+) \|", line)
        if row:
            shown[int(row[1])] = row[3]
    tests: dict[int, set[str]] = {}
    for path in HERE.glob("test_*.py"):
        for first, second in re.findall(
            r"^def test_checks?_(\d+)(?:_and_(\d+))?_", path.read_text(), re.MULTILINE
        ):
            for number in filter(None, (first, second)):
                tests.setdefault(int(number), set()).add(path.name)
    assert sorted(shown) == list(range(1, 59))
    for number, where in shown.items():
        if where.startswith("not the service: "):
            assert number not in tests, number
        else:
            assert set(re.findall(r"`(test_\w+\.py)`", where)) == tests.get(number), number


def test_the_limits_of_the_page_are_those_of_the_settings() -> None:
    from chatsnapshot.server.settings import Settings

    settings = Settings()
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split("## Limits")[1].split("\n## ")[0]
    found = {row[0]: row[1] for row in re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", page, re.MULTILINE)}
    assert (
        found["a head that is not complete, or a connection without a request"]
        == f"{settings.head_seconds_max:g} s"
    )
    assert found["a body that stops"] == f"{settings.body_seconds_max:g} s"
    assert found["a client that takes nothing of its answer"] == f"{settings.stall_seconds_max:g} s"
    assert found["connections"] == f"{settings.connections_max:,}"
    assert found["what gzip grows to"] == f"{settings.gzip_ratio_max} times"
    assert found["nesting of JSON"] == f"{settings.depth_max}"
    assert found["a body, after decompression"].startswith(f"{settings.body_bytes_max >> 20} MiB")
    assert found["bodies held at once"] == f"{settings.bodies_bytes_max >> 20} MiB"
    assert settings.event_bytes_max == 8 * 2**20 + 64 * 2**10
