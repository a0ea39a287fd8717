"""What a redactor is: a policy that an event passes on its way into the ledger, and that fails closed."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import Blob, blob_digests
from chatsnapshot.jsonvalue.blobs import JSON, blob_ref, digest_text, make_blob
from chatsnapshot.limits import Limits
from chatsnapshot.redaction.fields import harmless, redacted_attributes, redacted_source
from chatsnapshot.redaction.hints import Hints, Look, check_hints
from chatsnapshot.redaction.hooks import Hook, run_hooks
from chatsnapshot.redaction.marks import KIND, masked
from chatsnapshot.redaction.patterns import SECRETS, Pattern
from chatsnapshot.redaction.rules import Rules
from chatsnapshot.redaction.text import Finder, compiled
from chatsnapshot.redaction.walk import Place, Walk

__all__ = ["ERRORS", "WITHHELD", "Hook", "Redacted", "Redactor"]

ERRORS = ("withhold", "raise")

WITHHELD = b'{"$withheld":"redaction failed"}'
"""The payload of an event whose redaction failed."""

_log = logging.getLogger("chatsnapshot.redaction")


class Redacted(NamedTuple):
    """The parts of an event that redaction may change, in their stored form."""

    payload_json: bytes
    blobs: tuple[Blob, ...]
    attributes_json: str | None
    source_json: str


class Redactor:
    """Takes out of every event what must not be stored, before commitment and storage. Safe to use from any thread.

    First ``hooks`` see the event, in order; then ``rules`` are applied to fields (path to ``"mask"``, ``"hash"`` or
    ``"keep"``); then ``patterns`` are looked for in all texts, and with ``names`` the values of fields, arguments and
    assignments that are named like a secret are masked. ``hash_key`` makes hashes HMAC-SHA256.

    What fails withholds the event's payload and texts (``errors="withhold"``), or raises :class:`InvalidEvent`
    (``errors="raise"``), never with a value in the message. It pickles when its hooks and patterns do.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern] = SECRETS,
        rules: Mapping[str, str] | None = None,
        hooks: Sequence[Hook] = (),
        *,
        names: bool = True,
        errors: str = "withhold",
        hash_key: bytes | None = None,
    ) -> None:
        check_errors(errors)
        if isinstance(hooks, Mapping) or not all(callable(hook) for hook in hooks):
            raise InvalidEvent("hooks are functions that take an event", path="redact")
        if hash_key is not None and (not isinstance(hash_key, bytes) or len(hash_key) < 16):
            raise InvalidEvent("hash_key is at least 16 random bytes", path="redact")
        self.patterns = tuple(patterns)
        self.rules = Rules(rules)
        self.hooks = tuple(hooks)
        self.names = bool(names)
        self.errors = errors
        self.withheld = 0
        """Events whose payload was withheld because redaction failed."""
        self._hash_key = hash_key
        self._hints = Hints([_ready(pattern) for pattern in self.patterns], self.names)

    def apply(
        self,
        event_type: str,
        correlation_id: str,
        payload_json: bytes,
        blobs: tuple[Blob, ...],
        attributes_json: str | None,
        source_json: str,
        limits: Limits,
    ) -> Redacted:
        """The event's parts after redaction, in their stored form."""
        try:
            if not self.hooks and not self.rules and not blobs:
                # The common case first: nothing in the event looks like a secret.
                data = payload_json if attributes_json is None else payload_json + attributes_json.encode()
                if '"name"' in source_json:
                    data += source_json.encode()
                look = self._hints.look(data)
                if not look:
                    return Redacted(payload_json, blobs, attributes_json, source_json)
            return self._redact(
                event_type, correlation_id, payload_json, blobs, attributes_json, source_json, limits
            )
        except Exception as error:
            failure = _class_name(error)
        # Outside of the handler, so that nothing that holds a value is chained to what is raised.
        if self.errors == "raise":
            raise InvalidEvent(f"redaction failed with {failure}; nothing was stored", path="redact")
        self.withheld += 1
        if self.withheld == 1:
            _log.warning(
                "redaction failed with %s; payload, attributes and source name of the event are withheld",
                failure,
            )
        return Redacted(WITHHELD, (), harmless(attributes_json), redacted_source(source_json, lambda _: None))

    def clean(self, data: bytes) -> bool:
        """Whether events that hold only texts out of ``data``, none of them decoded, pass unchanged."""
        return not (self.hooks or self.rules or self._hints.look(data))

    def places(
        self,
        payload_json: bytes,
        blobs: tuple[Blob, ...],
        attributes_json: str | None,
        source_json: str,
        limits: Limits,
    ) -> list[Place]:
        """Where this redactor would take something out (its hooks are not asked); raises what a pattern raises."""
        found: list[Place] = []
        self._fields(payload_json, blobs, attributes_json, source_json, limits, found)
        return found

    def _redact(
        self,
        event_type: str,
        correlation_id: str,
        payload_json: bytes,
        blobs: tuple[Blob, ...],
        attributes_json: str | None,
        source_json: str,
        limits: Limits,
    ) -> Redacted:
        if self.hooks:
            payload_json, attributes_json, source_json = run_hooks(
                self.hooks, event_type, correlation_id, payload_json, attributes_json, source_json, limits
            )
            blobs = _named(payload_json, {blob.digest: blob for blob in blobs})
        return self._fields(payload_json, blobs, attributes_json, source_json, limits, None)

    def _fields(
        self,
        payload_json: bytes,
        blobs: tuple[Blob, ...],
        attributes_json: str | None,
        source_json: str,
        limits: Limits,
        places: list[Place] | None,
    ) -> Redacted:
        deadline = time.monotonic() + limits.redaction_ms_max / 1_000
        hints, rules = self._hints, self.rules
        look = hints.look(payload_json)
        if look or rules.payload or blobs:
            walk = self._walk(look, deadline, blobs, places)
            tree = walk.run(msgspec.json.decode(payload_json))
            if walk.changed or (look and _says_twice(payload_json, tree)):
                payload_json = msgspec.json.encode(tree)
                blobs = _named(payload_json, walk.blobs)
                if (
                    len(payload_json) > limits.payload_bytes_max
                ):  # marks can be longer than what they stand for
                    payload_json, blobs = _as_blob(payload_json, blobs)
        header = (attributes_json or "") + source_json
        look = hints.look(header.encode())
        if look or rules:
            walk = self._walk(look, deadline, (), places)
            if attributes_json is not None:
                attributes_json = redacted_attributes(attributes_json, walk, rules)
                if (
                    attributes_json is not None
                    and len(attributes_json.encode()) > limits.attributes_bytes_max
                ):
                    raise ValueError("the marks make the attributes larger than attributes_bytes_max")
            action = rules.source_name

            def name(text: str) -> str:
                out = str(walk.field(text, "name", action, ("source", "name")))
                return out if len(out) <= limits.id_chars_max else masked("name")

            source_json = redacted_source(source_json, name)
        return Redacted(payload_json, blobs, attributes_json, source_json)

    def _walk(self, look: Look, deadline: float, blobs: tuple[Blob, ...], places: list[Place] | None) -> Walk:
        named_blobs = {blob.digest: blob for blob in blobs}
        return Walk(look, self._hints, self.rules, self._hash_key, deadline, named_blobs, places)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (
            self.patterns,
            self.rules.given,
            self.hooks,
            {"names": self.names, "errors": self.errors, "hash_key": self._hash_key},
        )

    def __repr__(self) -> str:
        return f"<Redactor {len(self.patterns)} patterns, {len(self.rules.given)} rules, {len(self.hooks)} hooks>"


def check_errors(errors: object) -> None:
    """Raise :class:`InvalidEvent` for what is not ``"withhold"`` or ``"raise"``."""
    if errors not in ERRORS:
        raise InvalidEvent(
            f"redact_errors is one of {', '.join(ERRORS)}, not {errors!r:.80}", path="redact_errors"
        )


def _made(patterns: Any, rules: Any, hooks: Any, options: dict[str, Any]) -> Redactor:
    return Redactor(patterns, rules, hooks, **options)


def _ready(pattern: object) -> Finder:
    """A pattern made ready to search; raises :class:`InvalidEvent` and :class:`MissingExtra`."""
    if not isinstance(pattern, Pattern):
        raise InvalidEvent(f"patterns are of class Pattern, not {type(pattern).__name__}", path="redact")
    if not isinstance(pattern.kind, str) or not KIND.fullmatch(pattern.kind):
        raise InvalidEvent(
            f"the kind of a pattern reads [a-z0-9][a-z0-9-]*, not {pattern.kind!r:.80}", path="redact"
        )
    if not check_hints(pattern):
        raise InvalidEvent(
            f"the hints of pattern {pattern.kind!r} are two or more plain ASCII characters each",
            path="redact",
        )
    if not pattern.linear:
        from chatsnapshot.redaction.timed import timed

        return timed(pattern)
    try:
        return compiled(pattern)
    except re.error as error:
        failure = str(error)
    raise InvalidEvent(
        f"the expression of pattern {pattern.kind!r} is no regular expression: {failure}", path="redact"
    )


def _named(payload_json: bytes, blobs: Mapping[bytes, Blob]) -> tuple[Blob, ...]:
    """The blobs that a payload names, of those that there are."""
    if not blobs:
        return ()
    return tuple(blobs[digest] for digest in blob_digests(payload_json) if digest in blobs)


def _as_blob(payload_json: bytes, blobs: tuple[Blob, ...]) -> tuple[bytes, tuple[Blob, ...]]:
    """The payload as one JSON blob, as ``jsonvalue.encode`` makes it of what is too large."""
    whole = make_blob(payload_json, JSON)
    ref = blob_ref(whole)
    if blobs:
        ref["holds"] = sorted(digest_text(blob.digest) for blob in blobs)
    return msgspec.json.encode(ref), (*blobs, whole)


def _says_twice(payload_json: bytes, tree: object) -> bool:
    """Whether foreign JSON names a key twice: only the last one was looked at."""
    if msgspec.json.encode(tree) == payload_json:
        return False
    twice = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        made = dict(pairs)
        twice = twice or len(made) != len(pairs)
        return made

    json.loads(payload_json, object_pairs_hook=members)
    return twice


def _class_name(error: BaseException) -> str:
    return type(error).__name__[:80]
