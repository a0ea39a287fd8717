"""Write the list of modules in ARCHITECTURE.md from the first line of each module (run by `make modules`)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "chatsnapshot"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- modules: written by make modules -->\n", "<!-- end of modules -->\n"


def table(package: Path) -> str:
    """Return one Markdown row a module: its path in the package and what it says that it owns."""
    rows = ["| module | owns |", "| --- | --- |"]
    for path in sorted(package.rglob("*.py")):
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        rows.append(f"| `{path.relative_to(package).as_posix()}` | {first.replace('|', '&#124;')} |")
    return "\n".join(rows) + "\n"


def page_with(page: str, rows: str) -> str:
    """Return the page with its list of modules replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + rows + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), table(PACKAGE)))
