"""Help comes at once, says everything, and loads no command."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from chatsnapshot import __version__
from chatsnapshot.cli.main import SECTIONS, cli

HEAVY = [
    "apsw",
    "msgspec",
    "asyncio",
    "chatsnapshot.ledger",
    "chatsnapshot.envelope",
    "chatsnapshot.cli.terminal",
]

NAMES = [name for commands in SECTIONS.values() for name in commands]


def command_named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def loaded_after(arguments: list[str]) -> tuple[int, set[str]]:
    program = (
        "import sys\n"
        "from chatsnapshot.cli.main import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    code, *modules = done.stderr.split()
    return int(code), set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], []])
def test_help_and_version_load_no_command_and_no_driver(arguments: list[str]) -> None:
    code, modules = loaded_after(arguments)
    assert code == (0 if arguments else 1)
    assert modules.isdisjoint(HEAVY)
    assert [name for name in modules if name.startswith("chatsnapshot.cli.commands")] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_line_in_the_table_is_the_first_line_of_the_command(name: str) -> None:
    command = command_named(name)
    assert command.name == name
    assert command.help is not None
    line = next(
        line for commands in SECTIONS.values() for other, (_, line) in commands.items() if other == name
    )
    assert command.help.splitlines()[0] == line


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_has_a_help_text(run, name: str) -> None:
    done = run(name, "--help")
    assert done.exit_code == 0, done.output
    silent = [
        option.opts
        for option in command_named(name).params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "keys"])  # which are in no ledger
def test_every_command_takes_a_ledger(name: str) -> None:
    assert "--ledger" in [opt for option in command_named(name).params for opt in option.opts]


def test_help_names_every_command(run) -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert [name for name in NAMES if f"\n  {name} " not in done.output] == []


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_that_of_wrong_usage(run) -> None:
    done = run()
    assert done.exit_code == 1
    assert done.output.startswith("Usage: chatsnapshot")


def test_the_version_is_that_of_the_package(run) -> None:
    assert run("--version").output == f"chatsnapshot {__version__}\n"


def test_python_m_chatsnapshot_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chatsnapshot", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"chatsnapshot {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rnus"], "error: there is no command 'rnus'; did you mean 'runs'? (see chatsnapshot --help)\n"),
        (["xyzzy"], "error: there is no command 'xyzzy' (see chatsnapshot --help)\n"),
        (["runs", "--last", "x"], "error: invalid value for '--last': 'x' is not a valid integer range"),
        (["show"], "error: missing argument 'RUN|EVENT_ID' (see chatsnapshot show --help)\n"),
        (
            ["runs", "--until", "noon"],
            "error: invalid value for '--until': 'noon' is neither a position, such as 17",
        ),
        (["replay", "r", "--speed", "-1"], "error: invalid value for '--speed': a speed is 0"),
        (["replay", "r", "--speed", "nan"], "error: invalid value for '--speed': a speed is 0"),
        (["record", "a.b"], "error: missing option '--correlation'"),
        (["tail", "--after", "1", "--last", "2"], "error: give --after or --last, not both"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_1(run, arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the CPU time of a child")
def test_help_takes_at_most_three_times_a_bare_click_program() -> None:
    bare = "import click\n@click.group()\ndef cli(): pass\n@cli.command()\ndef one(): 'One.'\ncli()"
    ours = [sys.executable, "-m", "chatsnapshot", "--help"]
    peer = [sys.executable, "-c", bare, "--help"]

    def cpu(command: list[str]) -> float:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return usage.ru_utime + usage.ru_stime

    rounds = [(cpu(ours), cpu(peer)) for _ in range(5)]
    assert min(mine for mine, _ in rounds) <= 3 * min(other for _, other in rounds)
