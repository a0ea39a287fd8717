"""Whether what was written by one JSON Schema can be read by another: a structural check that names what breaks.

It decides on ``type``, ``enum``, ``const``, bounds, ``pattern`` and ``multipleOf`` (by equality), ``properties``,
``required``, ``additionalProperties``, ``items``, ``prefixItems``, ``anyOf``, ``oneOf``, ``allOf`` and local ``$ref``,
also recursive. What it cannot decide counts as a break and says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.schemaparts import Parts, Schema, bounds, kinds, listed, local, weaker

__all__ = ["MODES", "Break", "Comparison", "compare"]

MODES = ("backward", "forward", "full")

STEPS_MAX = 20_000
"""Comparisons of two parts; what needs more is left undecided."""

_CANNOT_TELL = "cannot tell"
_EQUAL_ONLY = (
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "uniqueItems", "format",
    "propertyNames", "patternProperties", "contentEncoding", "contentMediaType", "additionalItems",
)  # fmt: skip
"""Keywords of the reader that are kept where the writer has the same."""

_NEVER = ("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef")
"""Keywords of the reader that depend on what stands around them: kept only where the whole schema is the same."""

_NO_REF = "cannot tell: a reference that is no plain $ref into the same document"


class Break(msgspec.Struct, frozen=True):
    """One thing that breaks: in which direction, where (a JSON path, ``[]`` for any item), and why."""

    direction: str
    path: str
    reason: str


class Comparison(msgspec.Struct, frozen=True):
    """Whether two versions are compatible in ``mode``, and all that breaks it."""

    mode: str
    compatible: bool
    breaks: tuple[Break, ...] = ()


def compare(
    old: dict[str, Any], new: dict[str, Any], mode: str = "full", *, undeclared: bool = False
) -> Comparison:
    """Compare two JSON Schemas. ``backward``: the new one reads old data; ``forward``: the old one reads new data.

    A writer is taken to write only the keys that its schema declares, unless ``undeclared`` or its schema says
    ``additionalProperties``: else no key could ever be added. Raises :class:`InvalidEvent` for an unknown mode.
    """
    if mode not in MODES:
        raise InvalidEvent(f"a mode is one of {', '.join(MODES)}, not {mode!r:.40}", path="mode")
    breaks: list[Break] = []
    if mode != "forward":
        breaks += _breaks("backward", _Reader(old, new, "old", "new", undeclared))
    if mode != "backward":
        breaks += _breaks("forward", _Reader(new, old, "new", "old", undeclared))
    return Comparison(mode, not breaks, tuple(breaks))


def _breaks(direction: str, reader: _Reader) -> list[Break]:
    try:
        found = reader.whole()
    except (RecursionError, _TooMany):
        found = [("$", f"{_CANNOT_TELL}: the schemas are too large or too deep to compare")]
    return [Break(direction, path, reason) for path, reason in dict.fromkeys(found)]


class _TooMany(Exception):
    """More comparisons than ``STEPS_MAX``."""


Breaks = list[tuple[str, str]]


class _Reader:
    """Asks whether every value that fits the writer's schema fits the reader's."""

    def __init__(
        self, written: dict[str, Any], read: dict[str, Any], writer: str, reader: str, undeclared: bool
    ) -> None:
        self.written, self.read = written, read
        self.writer, self.reader = writer, reader
        self.undeclared = undeclared
        self.same = written == read and local(written) == local(read)
        """Whether references mean the same in both."""
        self.parts = Parts(written), Parts(read)
        self.under_way: dict[tuple[str, str], str] = {}
        self.names: frozenset[str] = frozenset()
        """Keys that any part of the writer's schema declares for the object that is looked at."""
        self.steps = 0

    def whole(self) -> Breaks:
        return self.schema([self.written], self.read, "$")

    def schema(
        self, sub: list[Schema], sup: Schema, path: str, names: frozenset[str] = frozenset()
    ) -> Breaks:
        """What of ``sup`` is not kept by values that fit all of ``sub``."""
        if sub == [sup] and local(sub) == local([sup]) and (self.same or '"$ref"' not in local(sup)):
            return []
        written, read = self.parts[0].flat(sub), self.parts[1].flat([sup])
        if written is None or read is None:
            return [(path, _NO_REF)]
        key = local(written), local(read)
        if key in self.under_way:
            # A recursive part holds if nothing else breaks it; one that leads to itself at once says nothing.
            same_place = self.under_way[key] == path
            return [(path, f"{_CANNOT_TELL}: a part that refers to itself")] if same_place else []
        self.under_way[key] = path
        outer, self.names = self.names, names | self.parts[0].names(sub)
        try:
            if any(part is False for part in written):
                return []
            if any(part is False for part in read):
                return [(path, f"the {self.reader} schema allows nothing here")]
            out: Breaks = []
            for wanted in read:
                if isinstance(wanted, dict):
                    out += self.conjunct([part for part in written if isinstance(part, dict)], wanted, path)
            return out
        finally:
            del self.under_way[key]
            self.names = outer

    def conjunct(self, written: list[dict[str, Any]], wanted: dict[str, Any], path: str) -> Breaks:
        """What of one plain part of the reader's schema is not kept: one part of the writer's that keeps it is enough."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise _TooMany
        best: Breaks | None = None
        for part in written or [{}]:
            found = self.alternatives(part, wanted, path)
            if not found:
                return []
            if best is None or len(found) < len(best):
                best = found
        unions = [part for part in written if "anyOf" in part or "oneOf" in part]
        if unions and len(written) > 1:
            rest = [part for part in written if part is not unions[0]]
            if not self.union(unions[0], rest, wanted, path):
                return []
        return best or []

    def alternatives(self, part: dict[str, Any], wanted: dict[str, Any], path: str) -> Breaks:
        found = self.plain(part, wanted, path)
        if not found:
            return found
        if "anyOf" in part or "oneOf" in part:
            return self.union(part, [], wanted, path)
        split = self.split(part) if "anyOf" in wanted or "oneOf" in wanted else []
        if len(split) > 1:
            return [one for piece in split for one in self.plain(piece, wanted, path)]
        return found

    def union(
        self, part: dict[str, Any], rest: list[dict[str, Any]], wanted: dict[str, Any], path: str
    ) -> Breaks:
        """Each alternative of the writer must be kept by itself, together with what stands beside it."""
        word = "anyOf" if "anyOf" in part else "oneOf"
        beside = {key: value for key, value in part.items() if key != word}
        out: Breaks = []
        for one in part[word]:
            flat = self.parts[0].flat([one])
            if flat is None:
                return [(path, _NO_REF)]
            if any(piece is False for piece in flat):
                continue
            pieces = [piece for piece in flat if isinstance(piece, dict)]
            out += self.conjunct([*(_with(piece, beside) for piece in pieces or [{}]), *rest], wanted, path)
        return out

    def split(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        """A part as several: by its values, or by its types."""
        values = listed(part)
        if values is not None:
            return [{**_less(part, "enum"), "const": value} for value in values][:100]
        types = kinds(part)
        return [{**part, "type": kind} for kind in sorted(types)] if "type" in part else []

    # --- one plain part against another ---

    def plain(self, sub: dict[str, Any], sup: dict[str, Any], path: str) -> Breaks:
        have = kinds(sub)
        out: Breaks = []
        extra = have - kinds({"type": sup["type"]}) if "type" in sup else set()
        if extra:
            out.append(
                (path, f"{_words(extra)} is allowed by the {self.writer} schema, not by the {self.reader}")
            )
            return out
        out += self.values(sub, sup, path)
        out += self.unions(sub, sup, path)
        for key in (*_EQUAL_ONLY, "contains", *_NEVER):
            if key not in sup or (key == "uniqueItems" and (sup[key] is False or "array" not in have)):
                continue
            # contains depends on minContains and maxContains, which may be left out
            ours, theirs = (sub, sup) if key == "contains" else (sub.get(key), sup[key])
            if key in _NEVER or local([ours]) != local([theirs]) or '"$ref"' in local(theirs):
                out.append((path, f"{_CANNOT_TELL}: {key} of the {self.reader} schema"))
        out += [(path, self.bound(text)) for text in weaker(sub, sup, have)]
        if "object" in have:
            out += self.objects(sub, sup, path)
        if "array" in have:
            out += self.arrays(sub, sup, path)
        return out

    def bound(self, text: str) -> str:
        return text.format(writer=self.writer, reader=self.reader)

    def values(self, sub: dict[str, Any], sup: dict[str, Any], path: str) -> Breaks:
        allowed = listed(sup)
        if allowed is None:
            return []
        given = listed(sub)
        if given is None and kinds(sub) <= {"boolean", "null"}:
            given = [True, False, None]
        if given is None:
            return [
                (
                    path,
                    f"only listed values are allowed by the {self.reader} schema, any by the {self.writer}",
                )
            ]
        known = {_text(value) for value in allowed}
        gone = [value for value in given if _text(value) not in known and self.fits(sub, value)]
        return [
            (
                path,
                f"the value {_shown(value)} is allowed by the {self.writer} schema, not by the {self.reader}",
            )
            for value in gone
        ]

    def fits(self, part: dict[str, Any], value: Any) -> bool:
        """Whether a listed value can occur at all: its type may be excluded beside the list."""
        return bool(kinds({"const": value}) & kinds(part))

    def unions(self, sub: dict[str, Any], sup: dict[str, Any], path: str) -> Breaks:
        out: Breaks = []
        for word in ("anyOf", "oneOf"):
            if word not in sup:
                continue
            tries = [self.schema([sub], one, path, self.names) for one in sup[word]]
            if not any(not found for found in tries):
                out += sorted(tries, key=len)[0] if tries else [(path, "no alternative is left")]
            elif word == "oneOf" and not self.apart(sup[word], sub):
                out.append((path, f"{_CANNOT_TELL}: more than one part of oneOf may fit"))
        return out

    def apart(self, parts: list[Any], sub: dict[str, Any]) -> bool:
        """Whether a value that fits ``sub`` can fit only one of these parts: seen by their types and listed values."""
        shapes = []
        for part in parts:
            flat = self.parts[1].flat([part])
            if flat is None:
                return False
            types = kinds(sub)
            values: list[Any] | None = None
            for piece in flat:
                if isinstance(piece, dict):
                    types &= kinds(piece)
                    values = listed(piece) if values is None else values
                elif piece is False:
                    types = set()
            if "number" in types:
                types = types | {"integer"}
            shapes.append((types, None if values is None else {_text(value) for value in values}))
        return all(
            not mine & others or bool(listed_here and listed_there and not listed_here & listed_there)
            for n, (mine, listed_here) in enumerate(shapes)
            for others, listed_there in shapes[:n]
        )

    def objects(self, sub: dict[str, Any], sup: dict[str, Any], path: str) -> Breaks:
        out: Breaks = []
        declared: dict[str, Schema] = sub.get("properties", {})
        wanted: dict[str, Schema] = sup.get("properties", {})
        always = set(sub.get("required", ()))
        for key in sup.get("required", ()):
            if key not in always and not _has(listed(sub), key):
                why = "optional in" if key in declared else "unknown to"
                out.append(
                    (f"{path}.{key}", f"required by the {self.reader} schema, {why} the {self.writer}")
                )
        if listed(sub) is not None and (wanted or "additionalProperties" in sup):
            return [*out, (path, f"{_CANNOT_TELL}: listed objects against properties")]
        other = self.undeclared_by(sub)
        # What another part of the writer's schema declares is written, though this part says nothing of it.
        elsewhere = other if "additionalProperties" in sub else True
        declared = {**dict.fromkeys(sorted(self.names), elsewhere), **declared}
        for key, schema in wanted.items():
            out += self.schema([declared.get(key, other)], schema, f"{path}.{key}")
        rest = sup.get("additionalProperties", True)
        if rest is not True and rest != {}:
            for key, schema in declared.items():
                if key in wanted or schema is False:
                    continue
                if rest is False:
                    out.append((f"{path}.{key}", f"not allowed by the {self.reader} schema, which is closed"))
                else:
                    out += self.schema([schema], rest, f"{path}.{key}")
            if other is not False:
                out += (
                    [
                        (
                            f"{path}.*",
                            f"further keys are allowed by the {self.writer} schema, not by the {self.reader}",
                        )
                    ]
                    if rest is False
                    else self.schema([other], rest, f"{path}.*")
                )
        return out

    def undeclared_by(self, sub: dict[str, Any]) -> Schema:
        """What the writer may write under a key that its schema does not name."""
        if "patternProperties" in sub:
            return True
        if "additionalProperties" in sub:
            found: Schema = sub["additionalProperties"]
            return found
        return self.undeclared or not sub.get("properties")

    def arrays(self, sub: dict[str, Any], sup: dict[str, Any], path: str) -> Breaks:
        ours, theirs = sub.get("prefixItems", []), sup.get("prefixItems", [])
        our_rest, their_rest = sub.get("items", True), sup.get("items", True)
        if isinstance(our_rest, list) or isinstance(their_rest, list):
            return [(path, f"{_CANNOT_TELL}: items as a list, of an older draft")]
        if listed(sub) is not None and (theirs or their_rest is not True):
            return [(path, f"{_CANNOT_TELL}: listed arrays against items")]
        out: Breaks = []
        longest = bounds(sub).get("maxItems")
        for n in range(max(len(ours), len(theirs))):
            if longest is not None and n >= longest:
                return out
            ours_here = ours[n] if n < len(ours) else our_rest
            out += self.schema([ours_here], theirs[n] if n < len(theirs) else their_rest, f"{path}[{n}]")
        if longest is None or longest > max(len(ours), len(theirs)):
            out += self.item(our_rest, their_rest, path)
        return out

    def item(self, ours: Schema, theirs: Schema, path: str) -> Breaks:
        return [] if theirs is True or theirs == {} else self.schema([ours], theirs, f"{path}[]")


def _with(piece: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """An alternative with what stands beside it, where the two speak of different things."""
    merged = {**beside, **piece}
    for key in beside.keys() & piece.keys():
        if key == "type":
            merged["type"] = sorted(kinds({"type": beside["type"]}) & kinds({"type": piece["type"]})) or [
                "null"
            ]
        elif key == "required":
            merged["required"] = [*beside["required"], *piece["required"]]
        elif key == "properties":
            merged["properties"] = {
                name: {"allOf": [beside["properties"][name], piece["properties"][name]]}
                if name in beside["properties"] and name in piece["properties"]
                else {**beside["properties"], **piece["properties"]}[name]
                for name in {**beside["properties"], **piece["properties"]}
            }
    return merged


def _less(part: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != key}


def _has(values: list[Any] | None, key: str) -> bool:
    return values is not None and all(not isinstance(value, dict) or key in value for value in values)


def _words(types: set[str]) -> str:
    return " or ".join(sorted(types))


def _text(value: Any) -> bytes:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value, order="sorted")


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:80]
