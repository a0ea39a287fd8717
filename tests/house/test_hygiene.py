"""What no tracked file may hold. The words looked for are put together here: this file holds none."""

from __future__ import annotations

import re
from pathlib import Path

HOSTS = [
    ("py" + "pi", "org"),
    ("python" + "hosted", "org"),
    ("npm" + "js", "(?:org|com)"),
    ("un" + "pkg", "com"),
    ("js" + "delivr", "net"),
    ("cdn" + "js", "com"),
    ("cloud" + "flare", "com"),
    ("ghcr", "io"),
    ("quay", "io"),
    ("docker", "(?:io|com)"),
    ("crates", "io"),
    ("golang", "org"),
    ("maven", "org"),
    ("ruby" + "gems", "org"),
    ("ana" + "conda", "(?:org|com)"),
    ("(?:deb|security|ftp|archive)" + r"\." + "(?:debian|ubuntu)", "(?:org|com)"),
]
HOST = re.compile("|".join(rf"\b{name}\.{end}\b" for name, end in HOSTS), re.IGNORECASE)
OPTION = re.compile(r"--(?:extra-)?" + r"index" + "-url|--find" + "-links|--trusted" + "-host")
MACHINE_PATH = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"]) + r")/\w"
)
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b")
LINES_MAX = 400

# Files over LINES_MAX that are one idea all the same, each with its reason.
LONG_ON_PURPOSE = {
    "src/chatsnapshot/ledger.py": "the one class that users hold: signatures and what they promise; bodies lie elsewhere",
    "src/chatsnapshot/projections/runs.py": "the fold of runs and the shape that it is read in",
    "src/chatsnapshot/recorder.py": "the queue, its writer and what waits for them share one lock",
    "src/chatsnapshot/stores/jsonl_index.py": "the index beside the lines: each statement stands with what it keeps",
    "src/chatsnapshot/stores/sqlite.py": "every transaction of the backend; statements and reads lie apart",
}
LINES_NEVER_ABOVE = 750


def lines(files: list[Path]) -> list[tuple[Path, int, str]]:
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or another binary file
        found += [(path, number, line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def hits(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, number, line in lines(files)
        if pattern.search(line)
    ]


def test_no_file_names_a_registry_host(tracked: list[Path]) -> None:
    assert hits(HOST, tracked) == []


def test_no_requirement_names_a_place_to_download_from(root: Path, tracked: list[Path]) -> None:
    locks = [
        path for path in tracked if path.is_relative_to(root / "requirements") or "requirements" in path.name
    ]
    assert (
        hits(re.compile("://|" + OPTION.pattern), [path for path in locks if path.suffix in {".txt", ".in"}])
        == []
    )


def test_no_file_holds_a_path_of_somebodys_machine(tracked: list[Path]) -> None:
    assert hits(MACHINE_PATH, tracked) == []


def test_nothing_is_left_to_do_in_the_code(tracked: list[Path]) -> None:
    assert hits(UNFINISHED, [path for path in tracked if path.suffix in {".py", ".sh", ".sql", ".js"}]) == []


def test_no_built_or_bundled_file_is_tracked(tracked: list[Path]) -> None:
    bundled = re.compile(
        r"\.min\.(?:js|css)$|\.(?:whl|so|pyc|exe|dll|dylib|jar|tar|gz|zip)$|node_modules|/vendor(?:ed)?/"
    )
    assert [str(path) for path in tracked if bundled.search(str(path))] == []


def test_a_source_file_stays_within_400_lines(root: Path, sources: dict[str, Path]) -> None:
    long = {
        str(path.relative_to(root)): count
        for path in sources.values()
        if (count := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert {name: count for name, count in long.items() if name not in LONG_ON_PURPOSE} == {}
    assert max(long.values(), default=0) <= LINES_NEVER_ABOVE
    assert [name for name in LONG_ON_PURPOSE if not (root / name).is_file()] == []


def test_no_module_has_a_name_that_says_nothing(sources: dict[str, Path]) -> None:
    empty = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "tools_common"}
    assert [name for name in sources if name.rpartition(".")[2].strip("_") in empty] == []


def test_every_module_says_in_one_line_what_it_owns(sources: dict[str, Path]) -> None:
    silent = [
        name for name, path in sources.items() if not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_shell_scripts_need_no_more_than_a_posix_shell(root: Path, tracked: list[Path]) -> None:
    for path in tracked:
        if path.suffix == ".sh":
            text = path.read_text()
            assert text.startswith("#!/bin/sh\n"), path
            assert "[[" not in text and " local " not in text and "function " not in text, path


def test_the_patterns_find_what_they_look_for(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text(
        "\n".join(["see files." + "python" + "hosted.org", "/ho" + "me/ann/x.db", "# TO" + "DO later"])
    )
    assert len(hits(HOST, [bad])) == len(hits(MACHINE_PATH, [bad])) == len(hits(UNFINISHED, [bad])) == 1
