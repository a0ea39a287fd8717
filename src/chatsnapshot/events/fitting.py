"""One check for whatever a schema was given as: a class, a pydantic model or a JSON Schema."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.events.contradictions import class_contradiction, document_contradiction, pointer_text

__all__ = ["Check", "Misfit", "check_of", "json_path"]

REASON_CHARS_MAX = 200
BACKTRACKS_MAX = 100_000
"""Steps that one ``pattern`` may go back on one text: about 10 ms; more counts as not matching."""


class Misfit(msgspec.Struct, frozen=True):
    """Where a payload does not fit, as a JSON path, and why; never the value itself."""

    path: str
    reason: str


class Check(Protocol):
    """What a schema of any kind can do."""

    name: str
    """What the schema was given as, for people: ``class app.Order``, ``JSON Schema``."""

    @property
    def accept(self) -> Callable[[bytes], object]:
        """Raises some exception where a stored payload does not fit; the fast way, which says nothing more."""
        ...

    def problem(self, value: Any) -> Misfit | None:
        """The first thing in a decoded payload that does not fit."""
        ...

    def json_schema(self) -> dict[str, Any]:
        """The schema as JSON Schema 2020-12 (a JSON Schema: as it was given)."""
        ...


def check_of(schema: object, one_of: tuple[tuple[str, ...], ...] = ()) -> Check:
    """The check of a class or a JSON Schema; raises :class:`InvalidEvent` naming where it contradicts itself.

    A JSON Schema needs the extra ``schemas`` (:class:`MissingExtra`).
    """
    if isinstance(schema, Mapping):
        return _DocumentCheck(dict(schema))
    if not isinstance(schema, type):
        raise InvalidEvent(
            f"a schema is a class or a JSON Schema (a mapping), not {type(schema).__name__}", path="schemas"
        )
    models = sys.modules.get("pydantic")  # a model class can only come from a loaded pydantic
    if models is not None and issubclass(schema, models.BaseModel):
        return _ModelCheck(schema)
    return _ClassCheck(schema, one_of)


# --- classes that msgspec reads ---


class _Missing(Exception):
    """None of a group of keys is there."""


class _ClassCheck:
    """A msgspec struct, dataclass, attrs class, TypedDict or NamedTuple (whose fields are then keys)."""

    def __init__(self, given: type, one_of: tuple[tuple[str, ...], ...]) -> None:
        self.name = f"class {given.__module__}.{given.__qualname__}"
        self.one_of = one_of
        try:
            self.type = _fields_of_tuple(given) if hasattr(given, "_fields") else given
            decode: Callable[[bytes], Any] = msgspec.json.Decoder(self.type).decode
            info = msgspec.inspect.type_info(self.type)
            document = self.json_schema()
        except Exception as error:  # whatever annotations raise when they are looked at
            reason = str(error).splitlines()[-1] if str(error) else type(error).__name__
            raise InvalidEvent(
                f"{self.name} cannot be a schema: {reason[:REASON_CHARS_MAX]}", path="schemas"
            ) from None
        if not _is_object(info):
            raise InvalidEvent(
                f"{self.name} cannot be a schema: a payload is an object, and this class is read from something else",
                path="schemas",
            )
        wrong = class_contradiction(document)
        if wrong is not None:
            raise InvalidEvent(f"{self.name} contradicts itself at {wrong[0]}: {wrong[1]}", path="schemas")
        self.accept: Callable[[bytes], object] = decode
        if one_of:
            self.accept = _with_groups(decode, [_getters(info, group) for group in one_of])

    def problem(self, value: Any) -> Misfit | None:
        try:
            try:
                msgspec.convert(value, self.type)
            except msgspec.ValidationError:
                # JSON knows one kind of number: 5.0 is the whole number 5.
                msgspec.convert(_whole_numbers(value), self.type)
        except msgspec.ValidationError as error:
            return _msgspec_misfit(error)
        except RecursionError:
            return Misfit("$", "nested too deeply")
        for group in self.one_of:
            if not any(value.get(key) is not None for key in group):
                return Misfit("$", f"at least one of {', '.join(group)} is needed")
        return None

    def json_schema(self) -> dict[str, Any]:
        (root,), parts = msgspec.json.schema_components([self.type], ref_template="#/$defs/{name}")
        document: dict[str, Any] = dict(root)
        name = str(root.get("$ref", "")).rpartition("/")[2]
        if name in parts and not _names(parts, f"#/$defs/{name}"):
            document = dict(parts.pop(name))
        if self.one_of:
            document["allOf"] = [{"anyOf": [_present(key) for key in group]} for group in self.one_of]
        if parts:
            document["$defs"] = parts
        return document


def _with_groups(
    decode: Callable[[bytes], Any], groups: list[list[Callable[[Any], Any]]]
) -> Callable[[bytes], Any]:
    unset = msgspec.UNSET

    def accept(payload: bytes) -> None:
        made = decode(payload)
        for group in groups:
            for get in group:
                value = get(made)
                if value is not None and value is not unset:
                    break
            else:
                raise _Missing

    return accept


def _getters(info: Any, group: tuple[str, ...]) -> list[Callable[[Any], Any]]:
    """Each gives one value of a decoded struct, by the key that it has in JSON."""
    fields = {field.encode_name: field for field in info.fields}
    for key in group:
        if fields[key].default not in (None, msgspec.NODEFAULT, msgspec.UNSET):
            raise InvalidEvent(f"key {key!r} of a group must have no default but None", path="schemas")
    return [attrgetter(fields[key].name) for key in group]


def _present(key: str) -> dict[str, Any]:
    kinds = ["array", "boolean", "number", "object", "string"]
    return {"required": [key], "properties": {key: {"type": kinds}}}


def _names(parts: Any, ref: str) -> bool:
    if isinstance(parts, dict):
        return parts.get("$ref") == ref or any(_names(part, ref) for part in parts.values())
    return isinstance(parts, (list, tuple)) and any(_names(part, ref) for part in parts)


def _is_object(info: object) -> bool:
    if isinstance(info, msgspec.inspect.StructType):
        return not info.array_like
    kinds = (msgspec.inspect.TypedDictType, msgspec.inspect.DataclassType, msgspec.inspect.DictType)
    return isinstance(info, kinds)


def _fields_of_tuple(given: type) -> type:
    """A named tuple is recorded as an object of its fields, so it is read as one."""
    from typing import get_type_hints

    hints = get_type_hints(given, include_extras=True)
    defaults: dict[str, Any] = getattr(given, "_field_defaults", {})
    names: tuple[str, ...] = given._fields  # type: ignore[attr-defined]
    fields = [
        (name, hints.get(name, Any), defaults[name]) if name in defaults else (name, hints.get(name, Any))
        for name in names
    ]
    return msgspec.defstruct(given.__name__, fields, kw_only=True)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(inner) for inner in value]
    return value


def _msgspec_misfit(error: msgspec.ValidationError) -> Misfit:
    text, found, path = str(error).rpartition(" - at `")
    text, path = (text, path[:-1]) if found else (path, "$")
    if error.__cause__ is not None:
        return Misfit(path, f"the class raised {type(error.__cause__).__name__}")
    for start in ("Invalid enum value", "Invalid value"):  # what follows is the value
        if text.startswith(start):
            text = "not one of the values that are allowed"
    return Misfit(path, _short(text))


# --- pydantic ---


class _ModelCheck:
    """A pydantic model; pydantic is loaded only where such a class is given."""

    def __init__(self, given: Any) -> None:
        self.name = f"class {given.__module__}.{given.__qualname__}"
        self.model = given
        try:
            document = self.json_schema()
        except Exception as error:
            raise InvalidEvent(
                f"{self.name} cannot be a schema: {_short(str(error).splitlines()[0])}", path="schemas"
            ) from None
        if document.get("type", "object") != "object":
            raise InvalidEvent(f"{self.name} cannot be a schema: a payload is an object", path="schemas")
        wrong = class_contradiction(document)
        if wrong is not None:
            raise InvalidEvent(f"{self.name} contradicts itself at {wrong[0]}: {wrong[1]}", path="schemas")
        self.accept = given.model_validate_json

    def problem(self, value: Any) -> Misfit | None:
        try:
            try:
                self.model.model_validate_json(msgspec.json.encode(value))
            except (TypeError, msgspec.MsgspecError):
                self.model.model_validate(value)
        except Exception as error:
            return _model_misfit(error)
        return None

    def json_schema(self) -> dict[str, Any]:
        document: dict[str, Any] = self.model.model_json_schema()
        return document


def _model_misfit(error: Exception) -> Misfit:
    errors = getattr(error, "errors", None)
    if errors is None:
        return Misfit("$", f"the class raised {type(error).__name__}")
    first = errors(include_url=False, include_context=False, include_input=False)[0]
    path = json_path(first["loc"])
    if first["type"] in ("value_error", "assertion_error"):
        return Misfit(path, "a validator of the class refused it")
    return Misfit(path, _short(first["msg"]))


# --- JSON Schema ---


class _DocumentCheck:
    """A JSON Schema, by jsonschema-rs; references lead nowhere outside of the document."""

    name = "JSON Schema"

    def __init__(self, document: dict[str, Any]) -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise MissingExtra("a JSON Schema as schema of a payload", "schemas") from None
        self._document = document
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX)
        try:
            self._validator = jsonschema_rs.validator_for(
                document, pattern_options=options, offline=True, mask="the value"
            )
        except (ValueError, TypeError, RecursionError) as error:
            place = pointer_text(getattr(error, "instance_path", None) or ())
            reason = _short(getattr(error, "message", None) or str(error).splitlines()[0])
            raise InvalidEvent(f"this is no JSON Schema: {reason}, at {place}", path="schemas") from None
        wrong = document_contradiction(document)
        if wrong is not None:
            raise InvalidEvent(f"the schema contradicts itself at {wrong[0]}: {wrong[1]}", path="schemas")
        for number, example in enumerate(document.get("examples") or ()):
            misfit = self.problem(example)
            if misfit is not None:
                raise InvalidEvent(
                    f"the schema contradicts itself at /examples/{number}: it does not fit at {misfit.path}, "
                    f"{misfit.reason}",
                    path="schemas",
                )

    def accept(self, payload: bytes) -> None:
        """Raise where it does not fit."""
        if not self._validator.is_valid(msgspec.json.decode(payload)):
            raise _Missing

    def problem(self, value: Any) -> Misfit | None:
        for error in self._validator.iter_errors(value):
            return Misfit(json_path(error.instance_path), _short(error.message))
        return None

    def json_schema(self) -> dict[str, Any]:
        return dict(self._document)


def json_path(keys: Any) -> str:
    """Keys and indices as a JSON path: ``$.parts[2].text``."""
    out = "$"
    for key in keys:
        out += f"[{key}]" if isinstance(key, int) else f".{key}" if str(key).isidentifier() else f"[{key!r}]"
    return out


def _short(text: str) -> str:
    text = " ".join(text.split())
    text = text[:1].lower() + text[1:]
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 1] + "…"
