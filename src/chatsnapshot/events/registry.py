"""``Schemas``: which schema a payload of a type and version is held against, and how old versions become new ones."""

from __future__ import annotations

import difflib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chatsnapshot.errors import InvalidEvent, LedgerError, NotFound
from chatsnapshot.events.fitting import Check, Misfit, check_of
from chatsnapshot.events.jsonschema import payload_schema
from chatsnapshot.events.sources import of_mapping, of_path, plugged, split_name
from chatsnapshot.events.stored import is_elsewhere, misfit_of
from chatsnapshot.events.upcasting import Upcaster, Upcasters

__all__ = ["Registered", "Schemas", "schemas_of"]

_log = logging.getLogger("chatsnapshot.schemas")

Accept = Callable[[bytes], object]


class Registered:
    """One schema: of a type, in a version."""

    def __init__(
        self,
        event_type: str,
        version: int,
        given: Any,
        *,
        source: str,
        summary: str = "",
        example: Any = None,
        one_of: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.event_type = event_type
        self.version = version
        self.given = given
        self.source = source
        """In words, where it is from: ``catalogue``, ``class app.Order``, ``file order.json``."""
        self.summary = summary
        self.example = example
        self._one_of = one_of
        self._check: Check | None = None

    @property
    def check(self) -> Check:
        """What does the checking, made at first use. Raises :class:`InvalidEvent` for a contradiction."""
        if self._check is None:
            self._check = check_of(self.given, self._one_of)
        return self._check

    def misfit(self, payload_json: bytes) -> Misfit | None:
        """What of a stored payload does not fit, or ``None``."""
        return misfit_of(self.check, payload_json)

    def json_schema(self) -> dict[str, Any]:
        """The schema as JSON Schema 2020-12 with its name, type and version."""
        return payload_schema(
            self.check.json_schema(), self.event_type, self.version, self.summary, self.example
        )

    def __repr__(self) -> str:
        return f"<schema of {self.event_type}, version {self.version}: {self.source}>"


class Schemas:
    """Schemas and upcasters by event type and version; the catalogue of ChatSnapshot lies always beneath.

    ``sources`` are paths (a ``.json`` file, a folder of them, ``module:attribute``), mappings of event type
    (``order.placed``, ``order.placed:2``) to class or JSON Schema, or other ``Schemas``. What other packages offer under
    the entry point group ``chatsnapshot.schemas`` lies between the two, unless ``plugins=False``.
    Safe to read from any thread; register before recording.
    """

    def __init__(self, *sources: Any, plugins: bool = True) -> None:
        self._own: dict[tuple[str, int], Registered] = {}
        self._upcasters = Upcasters()
        self._plugins = plugins
        self._complete: dict[tuple[str, int], Registered] | None = None
        self._versions: dict[str, tuple[int, ...]] = {}
        self.accepts: dict[Any, Accept] = {}
        """Event type (version 1), or type and version, to what refuses a payload; filled by :meth:`complete`."""
        for source in sources:
            self._take(source, "")

    # --- registering ---

    def register(
        self, event_type: str, schema: Any, *, version: int = 1, summary: str = "", example: Any = None
    ) -> None:
        """Say what payloads of ``event_type`` in ``version`` must fit.

        ``schema`` is a class (msgspec struct, dataclass, TypedDict, attrs class, NamedTuple, pydantic model) or a JSON
        Schema (a mapping, or a path to one; needs the extra ``schemas``). A type of the catalogue may be given another
        schema. Raises :class:`InvalidEvent` naming where the schema contradicts itself or its ``example``, or that there
        is another one already.
        """
        known = split_name((event_type, version)) if type(version) is int else None
        if known is None:
            raise InvalidEvent(
                f"a schema is registered for a type such as order.placed and a version from 1 on, not for "
                f"{event_type!r:.80} and {version!r:.40}",
                path="schemas",
            )
        if isinstance(schema, (str, os.PathLike)):
            schema = self._from_path(schema)
        made = Registered(event_type, version, schema, source="", summary=summary, example=example)
        self._add(made)

    def upcaster(self, event_type: str, from_version: int) -> Callable[[Upcaster], Upcaster]:
        """Register, as a decorator, a pure function from a payload of ``from_version`` to one of the next version.

        It gets the stored JSON as a dict of its own, ``$`` tags included.
        """

        def register(step: Upcaster) -> Upcaster:
            self._upcasters.add(event_type, from_version, step)
            self._changed()
            return step

        return register

    def _from_path(self, path: str | os.PathLike[str]) -> Any:
        found = of_path(path)
        if not isinstance(found, Iterator):
            return found
        schemas = list(found)
        if len(schemas) != 1:
            raise InvalidEvent(
                f"{os.fspath(path)} holds {len(schemas)} schemas; one is needed", path="schemas"
            )
        return schemas[0][2]

    def _take(self, source: Any, where: str) -> None:
        """Take over what a source holds."""
        if isinstance(source, Schemas):
            for one in source._own.values():
                self._add(one)
            for (event_type, version), step in source._upcasters.steps.items():
                self._upcasters.add(event_type, version, step)
        elif isinstance(source, (str, os.PathLike)):
            found = of_path(source)
            if isinstance(found, Iterator):
                self._take_found(found)
            else:
                self._take(found, where or os.fspath(source))
        elif isinstance(source, Mapping):
            self._take_found(of_mapping(source, where or "the mapping of schemas"), where)
        elif isinstance(source, (list, tuple)):
            for one in source:
                self._take(one, where)
        elif callable(source) and not isinstance(source, type):
            self._take(source(), where)
        else:
            raise InvalidEvent(
                f"schemas are given as Schemas, a path or a mapping, not as {type(source).__name__}",
                path="schemas",
            )

    def _take_found(self, found: Iterator[Any], where: str = "") -> None:
        for event_type, version, schema, source in found:
            if isinstance(schema, (str, os.PathLike)):
                schema = self._from_path(schema)
            named = source if source.startswith("file ") else where
            summary = str(schema.get("description", "")) if isinstance(schema, Mapping) else ""
            try:
                self._add(Registered(event_type, version, schema, source=named, summary=summary))
            except InvalidEvent as error:
                raise InvalidEvent(
                    f"{source}, {event_type}, version {version}: {error}", path="schemas"
                ) from None

    def _add(self, made: Registered) -> None:
        check = made.check  # a contradiction shows here, not at the first payload
        made.source = made.source or check.name
        if made.example is not None:
            misfit = check.problem(made.example)
            if misfit is not None:
                raise InvalidEvent(
                    f"the example of {made.event_type}, version {made.version}, does not fit its schema at "
                    f"{misfit.path}: {misfit.reason}",
                    path="schemas",
                )
        there = self._own.setdefault((made.event_type, made.version), made)
        if there is not made and there.given is not made.given and there.given != made.given:
            raise InvalidEvent(
                f"{made.event_type}, version {made.version}, has a schema already: {there.source}; give the new one a "
                "version of its own",
                path="schemas",
            )
        self._changed()

    def _changed(self) -> None:
        self._complete = None
        self.accepts.clear()

    # --- looking up ---

    def complete(self) -> dict[tuple[str, int], Registered]:
        """Every schema that there is by type and version, in that order; made at first use."""
        if self._complete is None:
            found = dict(_catalogue())
            found.update(self._plugged())
            found.update(self._own)
            found = {key: found[key] for key in sorted(found)}
            for (event_type, version), one in found.items():
                accept = self._accept(one)
                self.accepts[event_type, version] = accept
                if version == 1:
                    self.accepts[event_type] = accept
            versions: dict[str, tuple[int, ...]] = {}
            for event_type, version in found:
                versions[event_type] = (*versions.get(event_type, ()), version)
            self._versions = versions
            self._complete = found
        return self._complete

    def _plugged(self) -> dict[tuple[str, int], Registered]:
        """What other packages offer; their upcasters stand beneath one's own."""
        if not self._plugins:
            return {}
        offered = _offered()
        for (event_type, version), step in offered._upcasters.steps.items():
            if (event_type, version) not in self._upcasters.steps:
                self._upcasters.add(event_type, version, step)
        return offered._own

    def _accept(self, one: Registered) -> Accept:
        """What makes the check of a schema at its first payload, and then stands aside."""

        def accept(payload_json: bytes) -> object:
            ready = one.check.accept
            self.accepts[one.event_type, one.version] = ready
            if one.version == 1:
                self.accepts[one.event_type] = ready
            return ready(payload_json)

        return accept

    def __iter__(self) -> Iterator[Registered]:
        return iter(self.complete().values())

    def own(self) -> tuple[Registered, ...]:
        """What was registered here, without the catalogue and what other packages offer."""
        return tuple(self._own.values())

    def get(self, event_type: str, version: int = 1) -> Registered | None:
        """The schema of a type in a version, or ``None``."""
        return self.complete().get((event_type, version))

    def find(self, event_type: str, version: int | None = None) -> Registered:
        """The schema of a type, the newest where no version is named; raises :class:`NotFound` with near names."""
        versions = self.versions(event_type)
        found = self.get(event_type, version or versions[-1]) if versions else None
        if found is not None:
            return found
        if versions:
            known = ", ".join(map(str, versions))
            raise NotFound(f"{event_type} has no version {version}; there is {known}")
        near = difflib.get_close_matches(event_type, {one.event_type for one in self}, n=3, cutoff=0.5)
        meant = f"; did you mean {' or '.join(near)}?" if near else "; 'chatsnapshot schema list' names them"
        raise NotFound(f"no schema is known for {event_type!r:.80}{meant}")

    def versions(self, event_type: str) -> tuple[int, ...]:
        """The versions of a type that have a schema, oldest first."""
        self.complete()
        return self._versions.get(event_type, ())

    def misfit(self, event_type: str, version: int, payload_json: bytes) -> Misfit | None:
        """What of a stored payload does not fit, or ``None``; a type without any schema fits."""
        found = self.get(event_type, version)
        if found is not None:
            return found.misfit(payload_json)
        versions = self.versions(event_type)
        if not versions or is_elsewhere(payload_json) or (event_type, version) in self._upcasters.steps:
            return None  # a version that an upcaster starts from is known, though nothing says what it holds
        known = ", ".join(map(str, versions))
        return Misfit("$", f"unknown version {version} of {event_type} (known: {known})")

    # --- upcasting ---

    @property
    def upcast_types(self) -> set[str]:
        """Event types whose payloads have any upcaster."""
        self._plugged()
        return self._upcasters.types

    def upcast(
        self, event_type: str, version: int, payload_json: bytes, position: int | None = None
    ) -> tuple[int, bytes]:
        """The newest version that upcasters lead to, and the payload in it; the same when there is nothing to do.

        Raises :class:`~chatsnapshot.events.upcasting.UpcastFailed`. A payload that is wholly elsewhere stays.
        """
        if event_type not in self.upcast_types or is_elsewhere(payload_json):
            return version, payload_json
        return self._upcasters.upcast(event_type, version, payload_json, self._wrong, position)

    def _wrong(self, event_type: str, version: int, payload_json: bytes) -> str | None:
        known = self.get(event_type, version)
        misfit = None if known is None else known.misfit(payload_json)
        return None if misfit is None else f"{misfit.reason}, at {misfit.path}"

    def __reduce__(self) -> tuple[Any, ...]:
        own = [
            (one.event_type, one.version, one.given, one.source, one.summary, one.example)
            for one in self._own.values()
        ]
        return _restored, (own, self._upcasters.steps, self._plugins)


def _restored(own: list[Any], steps: dict[tuple[str, int], Upcaster], plugins: bool) -> Schemas:
    made = Schemas(plugins=plugins)
    for event_type, version, given, source, summary, example in own:
        made._add(Registered(event_type, version, given, source=source, summary=summary, example=example))
    for (event_type, version), step in steps.items():
        made._upcasters.add(event_type, version, step)
    return made


@functools.cache
def _catalogue() -> dict[tuple[str, int], Registered]:
    """The schemas of the catalogue, shared by all: what checks them is made once."""
    from chatsnapshot.events.schemas import SCHEMAS

    return {
        (one.event_type, one.version): Registered(
            one.event_type, one.version, one.payload, source="catalogue",
            summary=one.summary, example=one.example, one_of=one.one_of,
        )
        for one in SCHEMAS.values()
    }  # fmt: skip


_offers: Schemas | None = None


def _offered() -> Schemas:
    """What other packages offer, loaded once; what is broken is named in the log and left out."""
    global _offers
    if _offers is None:
        made = Schemas(plugins=False)
        for source, offer in plugged():
            try:
                if isinstance(offer, Exception):
                    raise offer
                apart = Schemas(offer, plugins=False)  # taken whole or not at all
                for one in apart._own.values():
                    one.source = source
                made._take(apart, source)
            except LedgerError as error:
                _log.warning("the schemas of %s are left out: %s", source, error)
            except Exception as error:
                _log.warning("the schemas of %s are left out: %s: %s", source, type(error).__name__, error)
        _offers = made
    return _offers


def schemas_of(given: Any = None) -> Schemas:
    """What ``open(schemas=...)`` takes as ``Schemas``: itself, one source, or a list of them."""
    global _default
    if isinstance(given, Schemas):
        return given
    if given is None or given is True:
        if _default is None:
            _default = Schemas()
        return _default
    return Schemas(given)


_default: Schemas | None = None
