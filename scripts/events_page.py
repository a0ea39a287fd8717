"""Write the tables of docs/events.md from the schemas of the event types (run by `make events-page`)."""

from __future__ import annotations

import inspect
import json
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import msgspec

from chatsnapshot.events.catalogue import DOMAINS, domain
from chatsnapshot.events.schemas import SCHEMAS, Schema, parts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "events.md"
LINE_CHARS_MAX = 110
BEGIN, END = "<!-- events: written by make events-page -->\n", "<!-- end of events -->\n"
SHARED = (
    parts.Usage,
    parts.ErrorFacts,
    parts.ToolRef,
    parts.FunctionRef,
    parts.Part,
    parts.ForkedFrom,
    parts.Tag,
)
ALIASES = {
    parts.Id: "id",
    parts.Name: "name",
    parts.Text: "text",
    parts.Number: "number",
    parts.Time: "time",
    parts.Labels: "labels",
    parts.Items: "list",
    parts.Parts: "parts",
    parts.Error: "error",
}
UNIONS = sorted(
    ((frozenset(typing.get_args(alias)), name) for alias, name in ALIASES.items()),
    key=lambda one: -len(one[0]),
)
PLAIN = {
    parts.Count: "count",
    parts.Ordinal: "count from 1",
    Any: "any",
    bool: "bool",
    str: "text",
    int: "int",
}


def sections() -> str:
    """One section a domain with its types, then the objects that they share."""
    lines: list[str] = []
    for one in DOMAINS:
        lines += [f"## {one}", ""]
        for schema in SCHEMAS.values():
            if domain(schema.event_type) == one:
                lines += section(schema)
    lines += ["## Objects inside", ""]
    for struct in SHARED:
        lines += [f"### {struct.__name__}", "", first_line(struct), "", *table(struct), ""]
    return "\n".join(lines)


def section(schema: Schema) -> list[str]:
    """One event type: what it means, its keys, what it must have, an example."""
    lines = [f"### {schema.event_type}", "", f"{schema.summary[0].upper()}{schema.summary[1:]}.", ""]
    lines += table(schema.payload)
    groups = [", ".join(f"`{key}`" for key in group) for group in schema.one_of]
    if groups:
        lines += [
            "",
            *[f"At least one of {group}." if "," in group else f"Needs {group}." for group in groups],
        ]
    shown = json.dumps(schema.example, ensure_ascii=False)
    if len(shown) > LINE_CHARS_MAX:
        shown = json.dumps(schema.example, ensure_ascii=False, indent=2)
    return [*lines, "", "```json", shown, "```", ""]


def table(struct: type[msgspec.Struct]) -> list[str]:
    """The rows of a struct; keys that mean the same as another stand in that one's row."""
    hints = typing.get_type_hints(struct, include_extras=True)
    aliases: dict[str, list[str]] = {}
    rows: list[tuple[str, str, str, str]] = []
    for field in msgspec.structs.fields(struct):
        kind, unit, about = described(hints[field.name])
        if field.required:
            kind += ", required"
        meant, _, rest = about.removeprefix("as `").partition("`")
        if about.startswith("as `") and not rest:
            aliases.setdefault(meant, []).append(field.encode_name)
        else:
            rows.append((field.encode_name, kind, unit, about))
    lines = ["| key | type | unit | meaning |", "| --- | --- | --- | --- |"]
    for name, kind, unit, about in rows:
        others = "".join(f", `{one}`" for one in aliases.get(name, ()))
        lines.append(f"| `{name}`{others} | {kind} | {unit} | {about} |")
    return lines


def described(hint: Any) -> tuple[str, str, str]:
    """The type in words, the unit, and the meaning that the field's own notes give."""
    kind = words(hint)
    about = next((note.description for note in hint.__metadata__ if note.description), "")
    unit = next((note.extra["unit"] for note in hint.__metadata__ if note.extra), "")
    return kind, unit or ("ISO 8601" if kind == "time" else ""), about


def words(hint: Any) -> str:
    """A type as the page calls it; that null is allowed is said once on the page."""
    for known, name in PLAIN.items():
        if hint == known:
            return name
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return words(args[0])
    if origin in (Union, types.UnionType):
        return of_union([one for one in args if one is not types.NoneType])
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in args)
    if origin is list:
        return f"list of {words(args[0])}" if args[0] is not Any else "list"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    raise TypeError(f"docs/events.md has no word for {hint!r}; give it one in PLAIN")


def of_union(members: list[Any]) -> str:
    """The alias that the members make up, with what is beside it."""
    for union, name in UNIONS:
        if union <= set(members):
            return " or ".join([name, *(words(one) for one in members if one not in union)])
    return " or ".join(words(one) for one in members if one is not parts.Tag)


def first_line(struct: type[msgspec.Struct]) -> str:
    """The first line of what a struct says about itself."""
    return (inspect.getdoc(struct) or "").partition("\n")[0].replace("``", "`")


def page_with(page: str, made: str) -> str:
    """The page with its made part replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + made + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), sections()))
