"""Where schemas come from: files, folders, mappings, ``module:attribute`` paths, entry points of other packages."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent

__all__ = ["ENTRY_POINTS", "URN", "Found", "of_mapping", "of_path", "plugged", "split_name"]

ENTRY_POINTS = "chatsnapshot.schemas"
"""The entry point group in which other packages offer schemas."""

URN = "urn:chatsnapshot:schema:"
"""What the ``$id`` of an exported schema begins with; event type and version follow."""

FILE_BYTES_MAX = 8 * 1024 * 1024

Found = tuple[str, int, Any, str]
"""Event type, version, schema, and in words where it is from."""

_NAME = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+)(?::([1-9][0-9]{0,8}))?", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def split_name(name: object) -> tuple[str, int] | None:
    """``execution.message:2`` as type and version; without a version it is 1; ``None`` for anything else."""
    if isinstance(name, tuple) and len(name) == 2 and isinstance(name[1], int):
        name = f"{name[0]}:{name[1]}"
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    return None if found is None else (found[1], int(found[2] or 1))


def of_mapping(mapping: Mapping[Any, Any], source: str) -> Iterator[Found]:
    """Schemas by event type (``order.placed``, ``order.placed:2``, ``("order.placed", 2)``), or one JSON Schema."""
    named = {key: split_name(key) for key in mapping}
    if mapping and all(named.values()):
        for key, schema in mapping.items():
            event_type, version = named[key] or ("", 1)
            yield event_type, version, schema, source
        return
    single = _named_by_itself(mapping, source)
    if single is None:
        raise InvalidEvent(
            f"{source} says of no event type that it is its schema; give it x-event-type and x-version, or map event "
            "types such as order.placed:2 to schemas",
            path="schemas",
        )
    yield (*single, dict(mapping), source)


def _named_by_itself(document: Mapping[Any, Any], source: str) -> tuple[str, int] | None:
    """The type and version that a JSON Schema states in ``x-event-type`` and ``x-version``, or in its ``$id``."""
    event_type = document.get("x-event-type")
    if event_type is not None:
        version = document.get("x-version", 1)
        known = split_name((event_type, version))
        if known is None or isinstance(version, bool):
            raise InvalidEvent(
                f"{source} has no usable x-event-type and x-version: {event_type!r:.80}, {version!r:.40}",
                path="schemas",
            )
        return known
    name = document.get("$id")
    if isinstance(name, str) and name.startswith(URN):
        return split_name(name[len(URN) :])
    return None


def of_path(path: str | os.PathLike[str]) -> Iterator[Found] | Any:
    """The schemas of a ``.json`` file or a folder of them; for ``module:attribute``, what is there.

    Raises :class:`InvalidEvent` with the path and what is wrong.
    """
    text = os.fspath(path)
    if _ATTRIBUTE.fullmatch(text) and not os.path.exists(text):
        return _attribute(text)
    return _of_files(Path(text))


def _of_files(path: Path) -> Iterator[Found]:
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InvalidEvent(f"there is no .json file in the folder {path}", path="schemas")
        for file in files:
            document = _document(file)
            if document.get("$id") != f"{URN}envelope:1":  # stands beside the payloads in an export
                yield from of_mapping(document, f"file {file}")
        return
    yield from of_mapping(_document(path), f"file {path}")


def _document(file: Path) -> dict[Any, Any]:
    try:
        size = file.stat().st_size
        if size > FILE_BYTES_MAX:
            raise InvalidEvent(
                f"the schema file {file} has {size:,} bytes and {FILE_BYTES_MAX:,} are allowed; split it",
                path="schemas",
            )
        document = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InvalidEvent(
            f"the schema file {file} cannot be read: {error.strerror or error}", path="schemas"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"the schema file {file} is no JSON: {error}", path="schemas") from None
    if not isinstance(document, dict):
        raise InvalidEvent(f"the schema file {file} must hold one JSON object", path="schemas")
    return document


def _attribute(text: str) -> Any:
    """What stands under ``module:attribute``; the caller names it, never data."""
    module, _, name = text.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever an import runs
        raise InvalidEvent(
            f"the schemas {text} cannot be loaded: {type(error).__name__}: {error}", path="schemas"
        ) from None
    return found


def plugged() -> Iterator[tuple[str, Any]]:
    """What other packages offer: in words where from, and what; an exception where one cannot be loaded."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        source = f"entry point {point.name}"
        try:
            yield source, point.load()
        except Exception as error:
            yield source, error
