"""The page on projections names every key that readers get, and its code runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatsnapshot.projections import (
    auditshapes,
    diffshapes,
    graphshapes,
    metricshapes,
    pathshapes,
    shapes,
    stateshapes,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "projections.md").read_text()
COMMON = {"position", "sequence", "at", "speaker", "erased"}


def section(title: str) -> str:
    return re.split(r"\n##+ ", PAGE.split(f"# `{title}`\n", 1)[1], maxsplit=1)[0]


def first_cells(text: str) -> set[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([a-z0-9_]+)`", row)}


@pytest.mark.parametrize("title", ["Runs", "Run", "Evaluation", "Execution", "Timeline", "TimelineItem"])
def test_each_table_names_the_keys_of_its_shape(title: str) -> None:
    assert first_cells(section(title)) == set(getattr(shapes, title).__struct_fields__)


@pytest.mark.parametrize("title", graphshapes.__all__)
def test_each_table_of_the_graph_names_the_keys_of_its_shape(title: str) -> None:
    assert first_cells(section(title)) == set(getattr(graphshapes, title).__struct_fields__)


@pytest.mark.parametrize(
    ("module", "title"),
    [
        (module, title)
        for module in (metricshapes, auditshapes, stateshapes, pathshapes, diffshapes)
        for title in module.__all__
    ],
)
def test_each_table_of_the_other_views_names_the_keys_of_its_shape(module: Any, title: str) -> None:
    assert first_cells(section(title)) == set(getattr(module, title).__struct_fields__)


def test_the_table_of_items_names_the_keys_of_each_kind() -> None:
    text = section("Transcript")
    for shape in msgspec.inspect.type_info(shapes.Item).types:
        assert isinstance(shape, msgspec.inspect.StructType)
        row = next(line for line in text.splitlines() if line.startswith(f"| `{shape.tag}` "))
        named = set(re.findall(r"`([a-z_]+)`", row.split("|")[2]))
        assert {field.name for field in shape.fields} - COMMON <= named, shape.tag
    assert set(re.findall(r"`([a-z_]+)`", text.split("Every item has", 1)[1].split("and:")[0])) == COMMON


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(block, names)
    assert "user:\n          Hello\n" in capsys.readouterr().out
    assert names["snapshot"].view("spoken", "run-1") == names["Spoken"](characters=5)
    names["snapshot"].close()
