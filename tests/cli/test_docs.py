"""docs/cli.md says what the commands say of themselves: every command, option and exit code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest

from chatsnapshot.cli import failures
from chatsnapshot.cli.main import SECTIONS, cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
NAMES = [name for commands in SECTIONS.values() for name in commands]
# Before click 8.2 no context is asked for.
MAKE_METAVAR = (
    [click.Context(cli)] if "ctx" in inspect.signature(click.Option.make_metavar).parameters else []
)
ROW = re.compile(r"^\| (`.+?`(?:, `.+?`)*) \| .+ \|$", re.MULTILINE)


def chapter(title: str) -> str:
    found = re.search(rf"^### {title}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/cli.md has no chapter for {title}"
    return found.group(1)


def spelled(option: click.Option) -> str:
    """An option as the page spells it: ``--last N``."""
    names = ", ".join(f"`{name}`" for name in option.opts) if len(option.opts) > 1 else option.opts[0]
    if option.secondary_opts:
        return f"`{names} / {option.secondary_opts[0]}`"
    if option.is_flag:
        return names if names.startswith("`") else f"`{names}`"
    metavar = option.make_metavar(*MAKE_METAVAR).replace("|", "\\|")
    *short, last = option.opts
    return ", ".join([*(f"`{name}`" for name in short), f"`{last} {metavar}`"])


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_on_the_page_and_no_other(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    documented = ROW.findall(chapter(name))
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert sorted(documented) == sorted(spelled(option) for option in options)


@pytest.mark.parametrize("name", NAMES)
def test_the_usage_line_is_on_the_page(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    ctx = click.Context(command, info_name=name, parent=click.Context(cli, info_name="chatsnapshot"))
    usage = " ".join(["chatsnapshot", name, *command.collect_usage_pieces(ctx)])
    assert f"```console\n{usage}\n```" in chapter(name)


def test_the_page_has_no_command_that_does_not_exist() -> None:
    assert sorted(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == sorted(NAMES)


def test_the_options_of_the_group_are_on_the_page() -> None:
    part = PAGE.split("## Options of `chatsnapshot` itself")[1].split("\n## ")[0]
    assert ROW.findall(part) == ["`--ledger URL`", "`--version`", "`-h`, `--help`"]
    assert sorted(opt for option in cli.params for opt in option.opts) == ["--ledger", "--version"]


def test_every_exit_code_is_on_the_page() -> None:
    codes = {value for name, value in vars(failures).items() if name.isupper() and isinstance(value, int)}
    part = PAGE.split("## Exit codes")[1].split("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", part, re.MULTILINE)} == codes


def test_commands_that_make_a_ledger_are_named_on_the_page() -> None:
    commands = Path(failures.__file__).parent / "commands"
    makers = sorted(
        "import" if path.stem == "import_" else path.stem
        for path in commands.glob("*.py")
        if not re.search("open_to_(read|add|view)", path.read_text())
    )
    for name in (
        "__init__",
        "backup",
        "doctor",
        "fsck",
        "keys",
        "promote",
        "spool",
    ):  # these open what is there, by themselves
        makers.remove(name)
    assert makers == ["copy", "demo", "import", "ingest", "record", "restore", "run", "serve"]
    assert all(f"`{name}`" in PAGE.split("make a ledger that is not there")[0] for name in makers)
