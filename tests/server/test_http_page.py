"""The page on the HTTP service, and that part of README: their commands run, and they name what the code has."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.server.routes import ENDPOINTS
from chatsnapshot.server.settings import Settings

ELSEWHERE = ("/store/", "/traces", "/logs", "/cloudevents")
"""Described on the pages of those who speak these formats."""
_AMOUNTS = {"": 1, "s": 1, "KiB": 2**10, "MiB": 2**20}


@pytest.fixture
def root(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "http.md").read_text()


@pytest.mark.parametrize("name", ["docs/http.md", "README.md"])
def test_the_commands_of_the_page_run(
    serve: Any, root: Path, tmp_path: Path, require: Any, name: str
) -> None:
    require(shutil.which("curl"), "curl")
    blocks = re.findall(r"<!-- served -->\n```sh\n(.*?)```", (root / name).read_text(), re.DOTALL)
    assert len(blocks) >= (8 if name.startswith("docs") else 1)
    served = serve("--ledger", tmp_path / "runs.db")
    said = []
    for block in blocks:
        script = 'curl() { command curl --fail-with-body "$@"; }\n' + block.replace(
            "http://127.0.0.1:8420", served.url
        )
        found = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "no_proxy": "*"},
        )
        assert found.returncode == 0, f"{block}\n{found.stdout}\n{found.stderr}"
        said.append(found.stdout)
    assert '"position":1' in said[0]
    if name.startswith("docs"):
        assert '"stored":2,"known":0' in said[2] and '"stored":0,"known":2' in said[2]
        assert any("event: entry" in one for one in said)


def test_every_route_is_on_the_page(page: str) -> None:
    described = page.replace("`, `/", "`, `/v1/runs/{run}/").replace("/v1/runs/{run}/v1/", "/v1/")
    missing = [
        endpoint.path
        for endpoint in ENDPOINTS
        if not endpoint.path.startswith(ELSEWHERE)
        and "/v1" + endpoint.path not in described
        and "/v1" + re.sub(r"\{event_id\}", "", endpoint.path) not in described
    ]
    assert missing == []


def test_every_limit_of_the_service_is_on_the_page_with_its_default(page: str) -> None:
    listed = dict(re.findall(r"^\| `(\w+_(?:max|seconds))` \| ([\d,]+(?: \w+)?) \|", page, re.MULTILINE))
    found = {}
    for name, text in listed.items():
        number, _, unit = text.partition(" ")
        found[name] = int(number.replace(",", "")) * _AMOUNTS[unit]
    defaults = Settings()
    limits = [name for name in Settings.__struct_fields__ if name.endswith(("_max", "_seconds"))]
    assert found == {name: getattr(defaults, name) for name in limits}


def kinds_in(folder: Path) -> dict[str, set[int]]:
    """Every kind of problem that the code raises, with its statuses."""
    found: dict[str, set[int]] = {"no-path": {404}, "no-method": {405}}  # of app.py, by status
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem"):
                continue
            values = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
            if len(values) == 2:
                found.setdefault(str(values[1]), set()).add(int(str(values[0])))
    return found


def test_every_kind_of_problem_is_on_the_page_with_its_status(root: Path, page: str) -> None:
    listed: dict[str, set[int]] = {}
    for status, kinds in re.findall(r"^\| (\d{3}) \| (.*?) \|", page, re.MULTILINE):
        for kind in re.findall(r"`([a-z0-9-]+)`", kinds):
            listed.setdefault(kind, set()).add(int(status))
    assert listed == kinds_in(root / "src" / "chatsnapshot" / "server")
