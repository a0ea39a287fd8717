"""Schemas that contradict themselves: parts that no value can fit, found before any payload is checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["class_contradiction", "document_contradiction", "pointer_text"]

_BOUNDS = (
    ("minimum", "maximum", True),
    ("minimum", "exclusiveMaximum", False),
    ("exclusiveMinimum", "maximum", False),
    ("exclusiveMinimum", "exclusiveMaximum", False),
    ("minLength", "maxLength", True),
    ("minItems", "maxItems", True),
    ("minProperties", "maxProperties", True),
)


def class_contradiction(schema: Any, pointer: str = "") -> tuple[str, str] | None:
    """Where bounds of a class's own JSON Schema leave nothing between them, and which."""
    if isinstance(schema, dict):
        for low, high, may_meet in _BOUNDS:
            below, above = schema.get(low), schema.get(high)
            if not isinstance(below, (int, float)) or not isinstance(above, (int, float)):
                continue
            if below > above or (below == above and not may_meet):
                return pointer or "/", f"{low} {below} and {high} {above} leave nothing"
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(schema, dict):
        pairs = schema.items()
    elif isinstance(schema, (list, tuple)):
        pairs = enumerate(schema)
    for key, part in pairs:
        if key not in ("default", "examples", "enum", "const"):
            found = class_contradiction(part, f"{pointer}/{_escaped(key)}")
            if found is not None:
                return found
    return None


def document_contradiction(schema: dict[str, Any]) -> tuple[str, str] | None:
    """Where a valid JSON Schema admits nothing though it does not say ``false`` there, and why.

    Also that no payload, which is an object, can fit it as a whole. What cannot be proven is let pass.
    """
    from jsonschema_rs import canonical, canonicalize

    reasons = canonical.find_unsatisfiable(schema, offline=True)
    # The innermost part is the cause; a part that stands around it is only the consequence.
    for pointer in sorted(reasons, key=lambda pointer: (-pointer.count("/"), pointer)):
        if not _says_false(_at(schema, pointer)):
            return pointer or "/", _why(reasons[pointer])
    try:
        whole = canonicalize(schema, offline=True).intersect(canonicalize({"type": "object"}))
        if whole.satisfiability() == canonical.Satisfiability.NO:
            return "/", "no object fits it, and a payload is an object"
    except canonical.CanonicalizationError:
        pass
    return None


def _why(reason: Any) -> str:
    causes = getattr(reason, "causes", None) or [getattr(reason, "cause", None)]
    words = [
        " and ".join(cause.keywords) if cause.keywords else f"what stands at {cause.pointer or '/'}"
        for cause in causes
        if cause is not None
    ]
    return f"no value can fit {' together with '.join(words)}" if words else "no value can fit it"


def _says_false(part: Any) -> bool:
    return part is False or (isinstance(part, dict) and part.get("not") in ({}, True) and len(part) == 1)


def _at(schema: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list):
            schema = schema[int(key)] if key.isdigit() and int(key) < len(schema) else None
        elif isinstance(schema, dict):
            schema = schema.get(key)
    return schema


def pointer_text(keys: Iterable[Any]) -> str:
    """Keys and indices as a JSON Pointer; the whole is ``/``."""
    return "".join(f"/{_escaped(key)}" for key in keys) or "/"


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
