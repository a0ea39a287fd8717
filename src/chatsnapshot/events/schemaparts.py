"""What single parts of a JSON Schema say: types, listed values, bounds; local references and ``allOf`` opened."""

from __future__ import annotations

import re
from typing import Any

import msgspec

__all__ = ["Parts", "Schema", "bounds", "kinds", "listed", "local", "weaker"]

Schema = dict[str, Any] | bool

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_NOTES = re.compile(
    r"\$schema|\$id|\$anchor|\$comment|\$defs|definitions|title|description|default|examples|deprecated|readOnly|writeOnly|x-.*"
)
"""Keywords that say nothing about which values fit."""

_LOWER = ("minLength", "minItems", "minProperties", "minimum")
_UPPER = ("maxLength", "maxItems", "maxProperties", "maximum")
_OF_TYPE = {"Length": "string", "Items": "array", "Properties": "object", "imum": "number"}
_DEPTH_MAX = 60
_UNIONS_DEEP_MAX = 5


class Parts:
    """Opens the references of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._ref_alone = "json-schema.org/draft-0" in str(document.get("$schema"))
        """Up to draft 7 nothing beside a ``$ref`` counts."""

    def flat(self, schemas: list[Schema]) -> list[Schema] | None:
        """Plain parts that must all hold, without ``$ref`` and ``allOf``; ``None`` where a reference leads nowhere."""
        out: list[Schema] = []
        pending = [(schema, 0) for schema in reversed(schemas)]
        while pending:
            schema, depth = pending.pop()
            if depth > _DEPTH_MAX or (not isinstance(schema, dict) and not isinstance(schema, bool)):
                return None
            if isinstance(schema, bool):
                out.append(schema)
                continue
            if "$id" in schema and schema is not self._document:
                return None  # references inside of it mean another document
            if "$ref" in schema:
                target = self._target(schema["$ref"])
                if target is None:
                    return None
                pending.append((target, depth + 1))
                if self._ref_alone:
                    continue
            for part in schema.get("allOf", ()):
                pending.append((part, depth + 1))
            plain = {
                key: value
                for key, value in schema.items()
                if key not in ("$ref", "allOf") and not _NOTES.fullmatch(key)
            }
            if plain or not ("$ref" in schema or "allOf" in schema):
                out.append(plain)
        return out

    def names(self, schemas: list[Schema]) -> frozenset[str]:
        """The keys that these parts or any alternatives in them declare for one object.

        Raises ``RecursionError`` where alternatives are nested too deeply, or without end.
        """
        found: set[str] = set()
        pending: list[tuple[Schema, int]] = [(schema, 0) for schema in schemas]
        while pending:
            schema, depth = pending.pop()
            for part in self.flat([schema]) or ():
                if not isinstance(part, dict):
                    continue
                found.update(part.get("properties", ()))
                inner = [one for word in ("anyOf", "oneOf") for one in part.get(word, ())]
                inner += [part[word] for word in ("if", "then", "else") if word in part]
                inner += part.get("dependentSchemas", {}).values()
                if inner and depth >= _UNIONS_DEEP_MAX:
                    raise RecursionError
                pending.extend((one, depth + 1) for one in inner)
        return frozenset(found)

    def _target(self, ref: object) -> Schema | None:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            return None
        found: Any = self._document
        for key in ref[1:].split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, (dict, bool)) else None


def local(schema: Any) -> str:
    """A schema as a text that is the same for the same schema."""
    return msgspec.json.encode(schema, order="sorted").decode()


def listed(part: dict[str, Any]) -> list[Any] | None:
    """The only values that fit, where they are listed."""
    if "const" in part:
        return [part["const"]]
    values = part.get("enum")
    return values if isinstance(values, list) else None


def kinds(part: dict[str, Any]) -> set[str]:
    """The types of the values that may fit; ``number`` without ``integer`` is never alone."""
    given = part.get("type", _TYPES)
    types = {given} if isinstance(given, str) else set(given)
    if "number" in types:
        types.add("integer")
    values = listed(part)
    if values is not None:
        types &= {_kind(value) for value in values}
    return types


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds_of = {dict: "object", list: "array", str: "string", int: "integer", type(None): "null"}
    return kinds_of.get(type(value), "string")


def bounds(part: dict[str, Any]) -> dict[str, Any]:
    """The bounds in force; listed values have theirs, and exclusive ones stand under their own names."""
    out = {
        key: value
        for key, value in part.items()
        if key.startswith(("min", "max", "exclusive")) and _real(value)
    }
    values = listed(part)
    if values:
        sizes = {
            "Length": [len(value) for value in values if isinstance(value, str)],
            "Items": [len(value) for value in values if isinstance(value, list)],
            "Properties": [len(value) for value in values if isinstance(value, dict)],
            "imum": [value for value in values if _real(value)],
        }
        for word, found in sizes.items():
            if found:
                out[f"min{word}"] = max(min(found), out.get(f"min{word}", min(found)))
                out[f"max{word}"] = min(max(found), out.get(f"max{word}", max(found)))
    if "required" in part:
        out["minProperties"] = max(len(set(part["required"])), out.get("minProperties", 0))
    return out


def weaker(sub: dict[str, Any], sup: dict[str, Any], have: set[str]) -> list[str]:
    """Bounds and patterns of ``sup`` that ``sub`` does not keep, as texts with ``{writer}`` and ``{reader}``."""
    ours = bounds(sub)
    theirs = bounds({key: value for key, value in sup.items() if key not in ("required", "enum", "const")})
    out: list[str] = []
    for key in (*_LOWER, *_UPPER):
        if key not in theirs or not _concerns(key, have):
            continue
        if key in _LOWER:
            floors = [
                ours[name]
                for name in (key, "exclusiveMinimum")
                if name in ours and (name == key or key == "minimum")
            ]
            kept = any(value >= theirs[key] for value in floors) or (theirs[key] <= 0 and key != "minimum")
        else:
            tops = [
                ours[name]
                for name in (key, "exclusiveMaximum")
                if name in ours and (name == key or key == "maximum")
            ]
            kept = any(value <= theirs[key] for value in tops)
        if not kept:
            found = ours.get(key, "none")
            out.append(f"{key} is {theirs[key]} in the {{reader}} schema, {found} in the {{writer}}")
    if have & {"number", "integer"}:
        for key, plain, sign in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if sup.get(key) is True:
                out.append(f"cannot tell: {key} of an older draft")
            if key in theirs:
                limit = sign * theirs[key]
                kept = (key in ours and sign * ours[key] >= limit) or (
                    plain in ours and sign * ours[plain] > limit
                )
                if not kept:
                    out.append(
                        f"{key} is {theirs[key]} in the {{reader}} schema, {ours.get(key, 'none')} in the {{writer}}"
                    )
        step = sup.get("multipleOf")
        if step is not None and not _multiple(sub, step, have):
            out.append(
                f"multipleOf is {step} in the {{reader}} schema, {sub.get('multipleOf', 'none')} in the {{writer}}"
            )
    pattern = sup.get("pattern")
    if pattern is not None and "string" in have and sub.get("pattern") != pattern:
        other = "another one" if "pattern" in sub else "none"
        out.append(f"cannot tell: pattern of the {{reader}} schema, {other} in the {{writer}}")
    return out


def _multiple(sub: dict[str, Any], step: Any, have: set[str]) -> bool:
    ours = sub.get("multipleOf")
    if ours is not None and (ours == step or (type(ours) is int and type(step) is int and ours % step == 0)):
        return True
    return step == 1 and "number" not in have


def _concerns(key: str, have: set[str]) -> bool:
    kind = next(kind for word, kind in _OF_TYPE.items() if key.endswith(word))
    return kind in have or (kind == "number" and "integer" in have)


def _real(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
