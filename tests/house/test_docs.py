"""The pages say what the code says: modules, floors, errors, limits, dependencies, links, examples."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from chatsnapshot import errors, limits


@pytest.fixture(scope="module")
def pages(root: Path, tracked: list[Path]) -> list[Path]:
    return [path for path in tracked if path.suffix == ".md"]


def load(path: Path) -> ModuleType:
    """Import a script that is not part of a package."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def rows(page: Path) -> list[list[str]]:
    """The cells of every table row of a page."""
    lines = [
        line
        for line in page.read_text().splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def first_cells(page: Path, column: int = 0) -> list[str]:
    """What stands in code marks in one column."""
    return [row[column].strip("`") for row in rows(page) if len(row) > column and row[column].startswith("`")]


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page give, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_pages_leads_somewhere(root: Path, pages: list[Path]) -> None:
    dead = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            goal = (page.parent / name).resolve() if name else page
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                dead.append(f"{page.relative_to(root)} -> {target}")
            elif page.parent.name == "docs" and name.startswith("../"):
                dead.append(f"{page.relative_to(root)} -> {target}, which the built pages do not hold")
    assert dead == []


def test_the_index_lists_every_page_of_the_folder(root: Path) -> None:
    index = (root / "docs" / "index.md").read_text()
    pages = {path.name for path in (root / "docs").glob("*.md")} - {"index.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


def test_the_architecture_lists_every_module_as_it_describes_itself(root: Path) -> None:
    script = load(root / "scripts" / "modules.py")
    page = (root / "ARCHITECTURE.md").read_text()
    assert page == script.page_with(page, script.table(root / "src" / "chatsnapshot")), "run make modules"


def test_the_page_of_events_is_made_from_the_schemas(root: Path) -> None:
    script = load(root / "scripts" / "events_page.py")
    page = (root / "docs" / "events.md").read_text()
    assert page == script.page_with(page, script.sections()), "run make events-page"


def test_the_architecture_draws_the_floors_that_the_layer_test_enforces(root: Path) -> None:
    floors = load(root / "tests" / "house" / "test_layers.py").FLOORS
    drawn = {
        unit: int(row[0])
        for row in rows(root / "ARCHITECTURE.md")
        if row[0].isdigit()
        for unit in re.findall(r"`(\w+)`", row[1])
    }
    assert drawn == {unit: floor for unit, floor in floors.items() if unit != "__main__"}


def test_every_error_is_explained(root: Path) -> None:
    raised = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert sorted(first_cells(root / "docs" / "errors.md")) == sorted(raised)


def test_every_limit_is_listed_with_its_default(root: Path) -> None:
    listed = {
        row[0].strip("`"): row[1] for row in rows(root / "docs" / "limits.md") if row[0].startswith("`")
    }
    assert {name: amount(text) for name, text in listed.items()} == {
        name: getattr(limits.DEFAULTS, name) for name in limits.Limits.__struct_fields__
    }


def amount(text: str) -> int:
    number, _, unit = text.replace(",", "").partition(" ")
    return int(number) * {"": 1, "KiB": 2**10, "MiB": 2**20}[unit]


def test_every_dependency_has_its_reason(root: Path, project: dict) -> None:
    page = root / "docs" / "dependencies.md"
    core = {Requirement(need).name for need in project["project"]["dependencies"]}
    extras = {
        (extra, Requirement(need).name)
        for extra, wanted in project["project"]["optional-dependencies"].items()
        for need in wanted
    }
    explained = [row for row in rows(page) if row[0].startswith("`")]
    assert {row[0].strip("`") for row in explained if not row[1].startswith("`")} == core
    assert {(row[0].strip("`"), row[1].strip("`")) for row in explained if row[1].startswith("`")} == extras
    assert [row for row in explained if len(max(row, key=len)) < 20] == []


def runnable(text: str) -> list[str]:
    """The Python blocks of a page that stand after the comment `<!-- runnable -->`."""
    return re.findall(r"<!-- runnable -->\n```python\n(.*?)```", text, re.DOTALL)


def test_the_runnable_code_of_every_page_runs(
    pages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in pages:
        for number, code in enumerate(runnable(page.read_text())):
            folder = tmp_path / page.stem / str(number)
            folder.mkdir(parents=True)
            monkeypatch.chdir(folder)
            exec(compile(code, f"{page.name}, block {number + 1}", "exec"), {"__name__": "__main__"})
