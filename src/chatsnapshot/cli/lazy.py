"""A click group that knows its commands by name and one line, and imports one only when it is used."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from chatsnapshot.cli.failures import OK, exit_code_of, tell

__all__ = ["LazyGroup"]

Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Section title -> command name -> (module, one line of help)."""


class LazyGroup(click.Group):
    """A group whose ``--help`` imports no command.

    ``sections`` holds what ``--help`` prints. :meth:`main` is the one place where an outcome becomes an
    exit code and an error becomes one sentence on standard error.
    """

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in self.sections.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for commands in self.sections.values():
            if cmd_name in commands:
                module = importlib.import_module(commands[cmd_name][0])
                command: click.Command = module.command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-"):
            known = self.list_commands(ctx)
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                raise click.UsageError(f"there is no command {name!r}{meant}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        column = max(len(name) for name in self.list_commands(ctx))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(column), line) for name, (_, line) in commands.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run one command line and end with its exit code, whatever happens in it."""
        prog_name = prog_name or "chatsnapshot"
        try:
            self._main_shell_completion(extra, prog_name, complete_var)
            code = self._run(prog_name, list(sys.argv[1:] if args is None else args), extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code_of(error)
            tell(error)
        sys.exit(code)

    def _run(self, prog_name: str, args: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context(prog_name, args, **extra) as ctx:
                return self.invoke(ctx) or OK
        except click.exceptions.Exit as leave:
            return leave.exit_code
