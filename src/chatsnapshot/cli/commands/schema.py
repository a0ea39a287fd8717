"""``chatsnapshot schema``: the schemas of payloads, and what they say of each other and of a ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from chatsnapshot.cli.failures import OK, PARTIAL, settle_stdout
from chatsnapshot.cli.misfits import misfit_table
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold, dim, green, red, yellow
from chatsnapshot.cli.wording import count
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.events.compatibility import Comparison
    from chatsnapshot.events.registry import Schemas

__all__ = ["command"]

Command = TypeVar("Command", bound=Callable[..., Any])

LAST_DEFAULT = 20


def schemas_option(function: Command) -> Command:
    """``--schemas SOURCE``, repeatable: schemas beside those of the catalogue."""
    return click.option(
        "--schemas",
        "sources",
        multiple=True,
        metavar="SOURCE",
        help="Schemas beside the catalogue: a .json file, a folder of them or module:attribute. Repeatable.",
    )(function)


def _schemas(sources: tuple[str, ...]) -> Schemas:
    from chatsnapshot.events.registry import Schemas

    return Schemas(*sources)


@click.group("schema", subcommand_metavar="COMMAND …", no_args_is_help=False, invoke_without_command=True)
@ledger_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show, export and compare the schemas of payloads."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


@command.command("list", short_help="List the event types that have a schema.")
@schemas_option
@json_option("one schema a line, as a JSON object")
@ledger_option
def list_command(sources: tuple[str, ...], as_json: bool) -> int:
    """List the event types that have a schema, with versions and where they are from."""
    out = Terminal.stdout()
    found = list(_schemas(sources))
    if as_json:
        for one in found:
            facts = {"event_type": one.event_type, "version": one.version, "source": one.source}
            out.json_line(msgspec.json.encode({**facts, "summary": one.summary}))
        return OK
    headings = (
        Column("TYPE"),
        Column("VERSION", right=True),
        Column("FROM", gives=1),
        Column("SUMMARY", gives=1),
    )
    rows = [
        (one.event_type, str(one.version), dim(out.one_line(one.source)), out.one_line(one.summary))
        for one in found
    ]
    table(out, headings, rows)
    return OK


@command.command("show", short_help="Show the keys of a payload, and an example.")
@click.argument("event_type", metavar="TYPE")
@click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="This version; by default the newest."
)
@schemas_option
@json_option("the JSON Schema")
@ledger_option
def show_command(event_type: str, version: int | None, sources: tuple[str, ...], as_json: bool) -> int:
    """Show the keys of a payload: what they hold, which are needed, and an example."""
    out = Terminal.stdout()
    one = _schemas(sources).find(event_type, version)
    document = one.json_schema()
    if as_json:
        out.json_line(msgspec.json.encode(document))
        return OK
    out.line(bold(one.event_type), f"  version {one.version}  ", dim(out.one_line(one.source)))
    if one.summary:
        out.line("  ", out.one_line(one.summary))
    needed = set(document.get("required", ()))
    rows = [
        (out.one_line(key), out.one_line(_kind(part)), "needed" if key in needed else "", _meaning(out, part))
        for key, part in document.get("properties", {}).items()
    ]
    if rows:
        out.line()
        table(
            out,
            (Column("KEY"), Column("TYPE", gives=1), Column(""), Column("MEANING", gives=1)),
            rows,
            indent="  ",
        )
    for group in _groups(document):
        out.line("  ", f"at least one of {', '.join(map(out.one_line, group))} is needed")
    for example in document.get("examples", ())[:1]:
        out.line()
        out.line(bold("Example"))
        out.line("  ", out.one_line(msgspec.json.encode(example).decode()))
    return OK


def _kind(part: Any) -> str:
    """The type of a key in words: ``string``, ``string or null``, ``list of string``, ``"open" or "paid"``."""
    if not isinstance(part, dict):
        return "anything" if part else "nothing"
    if "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        return " or ".join(msgspec.json.encode(value).decode() for value in values)
    parts = part.get("anyOf") or part.get("oneOf")
    if parts:
        return " or ".join(dict.fromkeys(_kind(one) for one in parts))
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    types = part.get("type", "anything")
    words = [types] if isinstance(types, str) else list(types)
    items = part.get("items")
    if words == ["array"] and isinstance(items, dict) and items:
        return f"list of {_kind(items)}"
    return " or ".join("list" if word == "array" else word for word in words)


def _meaning(out: Terminal, part: Any) -> str:
    return out.one_line(str(part.get("description", ""))) if isinstance(part, dict) else ""


def _groups(document: dict[str, Any]) -> list[list[str]]:
    """The groups of keys of which one is needed, as the catalogue's schemas write them."""
    found = []
    for part in document.get("allOf", ()):
        parts = part.get("anyOf", ()) if isinstance(part, dict) else ()
        names = [one.get("required", []) for one in parts if isinstance(one, dict)]
        if names and all(len(name) == 1 for name in names):
            found.append([name[0] for name in names])
    return found


@command.command("export", short_help="Write schemas as JSON Schema.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this event type. Repeatable.")
@click.option("--envelope", is_flag=True, help="Only the schema of the envelope.")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FOLDER|-",
    help="A folder, one file a schema; - is standard output. [default: -]",
)
@schemas_option
@json_option("with a folder, the files as a JSON object; standard output is JSON in any case")
@ledger_option
def export_command(
    types: tuple[str, ...], envelope: bool, output: str, sources: tuple[str, ...], as_json: bool
) -> int:
    """Write schemas as JSON Schema 2020-12, in the form that --schemas reads."""
    from chatsnapshot.events.jsonschema import envelope_schema, file_name

    if envelope and types:
        raise click.UsageError("give --type or --envelope, not both")
    schemas = _schemas(sources)
    found: dict[str, dict[str, Any]] = {}
    if not envelope:
        for event_type in types:
            schemas.find(event_type)
        chosen = [one for one in schemas if not types or one.event_type in types]
        found = {f"{one.event_type}:{one.version}": one.json_schema() for one in chosen}
    out = Terminal.stdout()
    if output == "-":
        document: Any = envelope_schema() if envelope else found
        if len(found) == 1:
            (document,) = found.values()
        out.json_line(msgspec.json.format(msgspec.json.encode(document), indent=-1 if as_json else 2))
        return OK
    files = {file_name(*_split(name)): document for name, document in found.items()}
    if envelope or not types:
        files["envelope.json"] = envelope_schema()
    _write(Path(output), files)
    if as_json:
        out.json_line(msgspec.json.encode({"folder": output, "files": sorted(files)}))
    else:
        out.line(f"{count(len(files), 'schema')} in {out.one_line(output)}")
    return OK


def _split(name: str) -> tuple[str, int]:
    event_type, _, version = name.partition(":")
    return event_type, int(version)


def _write(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in files.items():
            (folder / name).write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except OSError as error:
        raise click.UsageError(f"{folder} cannot be written: {error.strerror or error}") from None


@command.command("check", short_help="Hold every payload against its schema.")
@schemas_option
@click.option(
    "--last",
    "shown",
    type=click.IntRange(min=1),
    default=LAST_DEFAULT,
    metavar="N",
    help=f"List at most N payloads that do not fit, the first ones. [default: {LAST_DEFAULT}]",
)
@json_option("the findings as a JSON object")
@ledger_option
def check_command(sources: tuple[str, ...], shown: int, as_json: bool) -> int:
    """Hold every payload of the ledger against its schema.

    Nothing is changed, and hashes are not checked: verify --schemas does both. Exit codes: 0 all fit, 10 some do not.
    """
    from chatsnapshot.misfits import find_misfits

    schemas = _schemas(sources)
    out = Terminal.stdout()
    with open_to_read() as ledger, Progress() as progress:
        url = ledger.url
        found = find_misfits(ledger.read(), schemas, ledger.head, partial(progress.show, "checking"))
    code = PARTIAL if found.count or found.stopped else OK
    try:
        if as_json:
            out.json_line(msgspec.json.encode(found))
        else:
            verdict = green("all fit") if code == OK else red("not all fit")
            out.line(bold(out.one_line(url)), "  ", verdict)
            misfit_table(out, found, shown)
        out.flush()
    except BrokenPipeError:
        settle_stdout()  # whoever reads only the first lines must still learn the outcome
    return code


@command.command("diff", short_help="Say what breaks between two versions.")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--mode",
    type=click.Choice(("backward", "forward", "full")),
    default="full",
    help="backward: NEW reads old data; forward: OLD reads new data; full: both. [default: full]",
)
@click.option(
    "--undeclared",
    is_flag=True,
    help="Count keys that a schema does not declare as written too, where it does not forbid them.",
)
@schemas_option
@json_option("the comparisons as a JSON object")
@ledger_option
def diff_command(
    old: str, new: str, mode: str, undeclared: bool, sources: tuple[str, ...], as_json: bool
) -> int:
    """Say whether one version of a schema can read what the other wrote, and what breaks.

    OLD and NEW are .json files, folders of them, or known types such as execution.message or order.placed:2.
    Exit codes: 0 compatible, 10 not.
    """
    from chatsnapshot.events.compatibility import compare

    schemas = _schemas(sources)
    before, after = _named(old, schemas), _named(new, schemas)
    if len(before) == len(after) == 1:
        (name, first), (_, second) = *before.items(), *after.items()
        pairs = {name: (first, second)}
    else:
        pairs = {name: (before[name], after[name]) for name in before if name in after}
        if not pairs:
            raise InvalidEvent(f"{old} and {new} have no event type in common", path="schemas")
    found = {name: compare(*pair, mode, undeclared=undeclared) for name, pair in pairs.items()}
    compatible = all(comparison.compatible for comparison in found.values())
    alone = {
        "only_old": sorted(before.keys() - pairs.keys()),
        "only_new": sorted(after.keys() - before.keys()),
    }
    if len(pairs) == 1:
        alone = {"only_old": [], "only_new": []}
    out = Terminal.stdout()
    if as_json:
        facts = {"mode": mode, "compatible": compatible, "types": found, **alone}
        out.json_line(msgspec.json.encode(facts))
    else:
        _differences(out, mode, found, alone)
    return OK if compatible else PARTIAL


def _named(text: str, schemas: Schemas) -> dict[str, dict[str, Any]]:
    """Schemas by event type, the newest of each: a known type, or what a file or folder holds."""
    from chatsnapshot.events.registry import Schemas
    from chatsnapshot.events.sources import split_name

    name = split_name(text)
    if name is not None and not Path(text).exists():
        event_type, version = name
        one = schemas.find(event_type, version if ":" in text else None)
        return {event_type: one.json_schema()}
    own = Schemas(text, plugins=False).own()
    return {one.event_type: one.json_schema() for one in sorted(own, key=lambda one: one.version)}


def _differences(out: Terminal, mode: str, found: dict[str, Comparison], alone: dict[str, list[str]]) -> None:
    for name, comparison in found.items():
        verdict = green(f"compatible ({mode})") if comparison.compatible else red(f"not compatible ({mode})")
        out.line(bold(out.one_line(name)), "  ", verdict)
        table(
            out,
            (Column(""), Column("", gives=2), Column("", gives=1)),
            [
                (yellow(one.direction), out.one_line(one.path), out.one_line(one.reason))
                for one in comparison.breaks
            ],
            indent="  ",
        )
    for key, words in (("only_old", "only in OLD"), ("only_new", "only in NEW")):
        if alone[key]:
            out.line(dim(f"{words}: {', '.join(map(out.one_line, alone[key]))}"))
