"""A module imports only from lower floors or its own folder (ARCHITECTURE.md draws the floors)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

# unit (a module or folder directly in chatsnapshot) -> floor
FLOORS = {
    **dict.fromkeys(["errors", "limits", "clock", "jsonvalue", "exiting"], 0),
    **dict.fromkeys(["envelope", "events"], 1),
    **dict.fromkeys(["integrity"], 2),
    **dict.fromkeys(["stores", "redaction"], 3),
    **dict.fromkeys(
        [
            "opening",
            "policies",
            "calls",
            "decorating",
            "judging",
            "playback",
            "recorder",
            "pending",
            "fields",
            "intake",
            "ingesting",
            "ndjson",
            "ordinals",
            "ledger",
            "scope",
            "run",
            "tail",
            "feed",
            "cursors",
            "erasing",
            "reading",
            "verify",
            "examining",
            "proving",
            "report",
            "misfits",
            "backup",
            "copying",
            "federation",
            "standby",
            "fsck",
            "doctor",
        ],
        4,
    ),
    **dict.fromkeys(["projections", "ingest"], 5),
    **dict.fromkeys(["adapters", "importers", "exporters"], 6),
    **dict.fromkeys(["server", "ui", "mcp", "demo"], 7),
    **dict.fromkeys(["cli", "__main__"], 8),
}
BESIDE = "testing"
BESIDE_REACHES = 6
NAMES_ONLY = "chatsnapshot"  # chatsnapshot/__init__.py gives names lazily; test_imports.py holds it to that
NAMES_FLOOR = 6  # the names of saving AG2 chats live among the adapters


def test_every_module_has_a_floor(sources: dict[str, Path]) -> None:
    units = {unit(name) for name in sources} - {NAMES_ONLY}
    assert units - FLOORS.keys() - {BESIDE} == set(), (
        "give the new module a floor here and in ARCHITECTURE.md"
    )


def test_a_module_imports_only_from_lower_floors_or_its_own_folder(sources: dict[str, Path]) -> None:
    wrong = [
        f"{path.name}:{line} {name} imports {target}"
        for name, path in sources.items()
        if name != NAMES_ONLY
        for target, line in imports(path.read_text(), name, path.name == "__init__.py")
        if not allowed(unit(name), unit(target), is_folder(sources))
    ]
    assert wrong == []


def test_modules_do_not_import_each_other_in_a_circle(sources: dict[str, Path]) -> None:
    graph = {
        name: {
            module_of(target, sources)
            for target, _ in imports(path.read_text(), name, path.name == "__init__.py", at_import=True)
        }
        - {name}
        for name, path in sources.items()
    }
    assert circle(graph) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import chatsnapshot.cli.main", "a higher floor"),
        ("from chatsnapshot import ledger", "a module named through the package"),
        ("from ..ledger import Ledger", "a relative import"),
        ("def f():\n    from chatsnapshot.projections import base", "an import inside a function"),
        ("import importlib\nimportlib.import_module('chatsnapshot.server.app')", "an import by name"),
        ("from chatsnapshot.testing import conformance", "the suite beside"),
        ("import chatsnapshot", "the public names, which reach floor 6"),
    ],
)
def test_an_upward_import_is_found(line: str, why: str, sources: dict[str, Path]) -> None:
    folders = is_folder(sources) | {"cli", "projections", "server", "testing"}
    found = [
        target
        for target, _ in imports(line, "chatsnapshot.stores.sqlite", False)
        if not allowed("stores", unit(target), folders)
    ]
    assert found, why


def allowed(importer: str, target: str, folders: set[str]) -> bool:
    """Whether one unit may import another. Folders on one floor keep apart; its single files may meet."""
    if importer == target:
        return True
    if importer == BESIDE:
        return target == NAMES_ONLY or FLOORS.get(target, 99) <= BESIDE_REACHES
    if target == BESIDE:
        return False
    here = FLOORS.get(importer, -1)
    there = NAMES_FLOOR if target == NAMES_ONLY else FLOORS.get(target, 99)
    if here == there and target != NAMES_ONLY:
        return not (importer in folders and target in folders)
    return there < here


def imports(source: str, name: str, is_package: bool, at_import: bool = False) -> Iterator[tuple[str, int]]:
    """Yield each module of ours that the source imports: anywhere in it, or only at its own import."""
    for node in walk(ast.parse(source), at_import):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "chatsnapshot":
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if is_package else name.split(".")[:-1]
                parts = parts[: len(parts) - (node.level - 1)]
                base = ".".join([*parts, base] if base else parts)
            if base.split(".")[0] == "chatsnapshot":
                for alias in node.names:
                    a_name = base == "chatsnapshot" and alias.name not in known_units()
                    yield (base if a_name else f"{base}.{alias.name}"), node.lineno
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            for value in node.args:
                if isinstance(value, ast.Constant) and str(value.value).startswith("chatsnapshot"):
                    yield str(value.value), node.lineno


def walk(node: ast.AST, at_import: bool) -> Iterator[ast.AST]:
    """Walk a tree; `at_import` leaves out what does not run at import: functions and TYPE_CHECKING blocks."""
    for child in ast.iter_child_nodes(node):
        if at_import and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if at_import and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from walk(child, at_import)


def known_units() -> set[str]:
    return {*FLOORS, BESIDE}


def unit(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def is_folder(sources: dict[str, Path]) -> set[str]:
    return {unit(name) for name, path in sources.items() if path.name == "__init__.py"} - {NAMES_ONLY}


def module_of(target: str, sources: dict[str, Path]) -> str:
    """The module that a dotted target lies in: `a.b.Name` -> `a.b`."""
    while target not in sources and "." in target:
        target = target.rpartition(".")[0]
    return target


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """Return one circle of a directed graph, or None."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for target in sorted(graph.get(name, ())):
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return None

    for start in sorted(graph):
        if found := visit(start, []):
            return found
    return None
