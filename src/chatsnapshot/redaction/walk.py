"""Owns the walk over one stored payload: rules, names and patterns applied in place, without recursion."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from chatsnapshot.jsonvalue import Blob, blob_digests
from chatsnapshot.jsonvalue.blobs import JSON, digest_text, is_ref, make_blob, split_data_uri
from chatsnapshot.redaction.assignments import kept_scheme
from chatsnapshot.redaction.hints import Hints, Look
from chatsnapshot.redaction.marks import hashed, is_mark, masked
from chatsnapshot.redaction.names import Named, looks_random, named, placeholder
from chatsnapshot.redaction.rules import Rules, States
from chatsnapshot.redaction.text import Found, redacted_text

__all__ = ["At", "Place", "Walk"]

At = tuple[str | int, ...]
"""Keys and list positions that lead to a place."""

_PAYLOAD: At = ("payload",)
TEXT_CHARS_LEAST = 6
"""Shorter texts hold nothing that a pattern finds."""

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_NO_LOOK = Look((), False)
_HEADERS = frozenset({"authorization", "cookie", "api-key", "token"})


class Place(NamedTuple):
    """A secret that was found, and where."""

    at: At
    kind: str
    shown: str


class _Task(NamedTuple):
    """A value still to be looked at: where it stands, the key above it, and the rules that are under way."""

    holder: Any
    slot: Any
    key: str | None
    states: States
    kept: bool
    at: At


class Walk:
    """One payload on its way through; ``blobs`` are those that it names, ``places`` collects what is found."""

    def __init__(
        self,
        look: Look,
        hints: Hints,
        rules: Rules,
        hash_key: bytes | None,
        deadline: float,
        blobs: Mapping[bytes, Blob],
        places: list[Place] | None = None,
    ) -> None:
        self.look = look
        self.hints = hints
        self.rules = rules
        self.hash_key = hash_key
        self.deadline = deadline
        self.blobs = dict(blobs)
        self.places = places
        self.changed = False
        self._top: list[Any] = []
        self._stack: list[_Task] = []
        self._finishers: list[Callable[[], None]] = []

    def run(self, tree: dict[str, Any]) -> dict[str, Any]:
        """The payload (decoded JSON that is the walk's own) without what must not be stored."""
        top = self._top = [tree]
        begin = self.rules.begin()
        action = self.rules.action(begin)
        if action in ("mask", "hash"):  # a rule for all of the payload
            return {"value": self._act(action, tree, _PAYLOAD)}
        self._stack.append(_Task(top, 0, None, begin, action == "keep", _PAYLOAD))
        while self._stack:
            self._visit(self._stack.pop())
        for finish in reversed(self._finishers):  # what is inside was begun later and is finished first
            finish()
        out: dict[str, Any] = top[0]
        return out

    def text(self, text: str, at: At, names: bool | None = None) -> str:
        """A text without its secrets."""
        if len(text) < TEXT_CHARS_LEAST:
            return text
        found: list[Found] | None = None if self.places is None else []
        look = self.look
        out = redacted_text(text, look.finders, look.names if names is None else names, self.deadline, found)
        if out is not text:
            self.changed = True
            if self.places is not None and found:
                self.places.extend(Place(at, one.kind, one.shown) for one in found)
        return out

    def named_text(self, text: str, key: str, at: At) -> str:
        """A text that stands under a key: all of it when the key is the name of a secret."""
        meaning = named(key) if self.look.names else None
        if meaning is not None:
            begin = kept_scheme(text) if meaning.kind == "authorization" else 0
            if _is_secret(text[begin:], meaning):
                self._note(at, meaning.kind)
                return text[:begin] + masked(meaning.kind)
        return self.text(text, at)

    def field(self, value: Any, key: str, action: str | None, at: At) -> Any:
        """A value beside the payload, with the action that a rule names for it."""
        if action == "keep":
            return value
        if action is not None:
            return self._act(action, value, at)
        return self.named_text(value, key, at) if type(value) is str and self.look else value

    def _note(self, at: At, kind: str) -> None:
        self.changed = True
        if self.places is not None:
            self.places.append(Place(at, kind, ""))

    def _act(self, action: str, value: Any, at: At) -> Any:
        """What a rule leaves of a value."""
        if value is None or value == "" or is_mark(value):
            return value
        self._note(at, "rule")
        return masked("rule") if action == "mask" else hashed(value, self.hash_key)

    # --- one value ---

    def _visit(self, task: _Task) -> None:
        value = task.holder[task.slot]
        kind = type(value)
        if kind is str:
            if not task.kept and self.look:
                key = task.key
                out = self.text(value, task.at) if key is None else self.named_text(value, key, task.at)
                if out[:5] == "data:":
                    out = self._data_uri(out, task.at)
                task.holder[task.slot] = out
        elif kind is list:
            self._list(value, task)
        elif kind is dict:
            if "$blob" in value and is_ref(value):
                self._blob(value, task)
            elif len(value) == 1 and type(value.get("$json")) is str:
                self._inner_json(value, task)
            else:
                self._object(value, task)

    def _push(self, holder: Any, slot: Any, key: str | None, states: States, kept: bool, at: At) -> None:
        self._stack.append(_Task(holder, slot, key, states, kept, at))

    def _list(self, items: list[Any], task: _Task) -> None:
        self._arguments(items, task)
        for slot, item in enumerate(items):
            if type(item) in (str, list, dict):
                key = task.key if type(item) is str else None
                self._push(items, slot, key, task.states, task.kept, (*task.at, slot))

    def _arguments(self, items: list[Any], task: _Task) -> None:
        """``["--password", "x"]``, and headers as ``["Authorization", "Bearer x"]``."""
        if task.kept or not self.look.names:
            return
        for slot in range(1, len(items)):
            name, value = items[slot - 1], items[slot]
            if type(name) is not str or type(value) is not str:
                continue
            meaning = named(name.lstrip("-"))
            if meaning is None or named(value) is not None:
                continue
            option = name.startswith("--") and not value.startswith("-")
            header = len(items) == 2 and slot == 1 and meaning.kind in _HEADERS
            if option or header:
                items[slot] = self.named_text(value, name.lstrip("-"), (*task.at, slot))

    def _object(self, node: dict[str, Any], task: _Task) -> None:
        tag = node.get("$type")
        if tag == "bytes" and type(node.get("value")) is str:
            if not task.kept:
                node["value"] = self._base64(node["value"], (*task.at, "value"))
            return
        if tag == "map" and type(node.get("value")) is list:
            self._pairs(node["value"], task)
            return
        if tag == "str" and type(node.get("value")) is str and not task.kept and self.look:
            out = self.named_text(node["value"], task.key or "", task.at)
            if out is not node["value"]:
                task.holder[task.slot] = out  # the places of its surrogates are no longer true
            return
        if self.look.finders and not task.kept:
            self._keys(node, task.at)
        if self.look.names and not task.kept:
            self._name_and_value(node, task.at)
        for key, value in node.items():
            if tag is not None and key[:1] == "$":
                continue
            if tag is not None and key == "value":  # what stands in a tag stands in the tag's own place
                self._push(node, key, task.key, task.states, task.kept, task.at)
            else:
                self._child(node, key, value, key[1:] if key[:2] == "$$" else key, task)

    def _child(self, holder: Any, slot: Any, value: Any, key: str, task: _Task) -> None:
        at, kept, states = (*task.at, key), task.kept, task.states
        if states:
            states = self.rules.step(states, key)
            action = self.rules.action(states)
            if action == "keep":
                kept = True
            elif action is not None:
                holder[slot] = self._act(action, value, at)
                return
        if type(value) in (str, list, dict) and not (kept and not states):
            self._push(holder, slot, key, states, kept, at)

    def _pairs(self, pairs: list[Any], task: _Task) -> None:
        """A mapping whose keys are no plain text."""
        for pair in pairs:
            if type(pair) is not list or len(pair) != 2:
                continue
            key, value = pair
            self._child(pair, 1, value, key if type(key) is str else "", task)
            if type(key) in (str, list, dict):
                self._push(pair, 0, None, frozenset(), task.kept, task.at)

    def _keys(self, node: dict[str, Any], at: At) -> None:
        """Keys that hold secrets; the object keeps its order and all of its members."""
        renamed = {key: new for key in node if (new := self.text(key, at, names=False)) is not key}
        if not renamed:
            return
        members = list(node.items())
        node.clear()
        for key, value in members:
            new, number = renamed.get(key, key), 1
            while new in node:
                number += 1
                new = f"{renamed.get(key, key)} ({number})"
            node[new] = value

    def _name_and_value(self, node: dict[str, Any], at: At) -> None:
        """``{"name": "DB_PASSWORD", "value": "x"}``."""
        value = node.get("value")
        if type(value) is str:
            for key in ("name", "key"):
                name = node.get(key)
                if type(name) is str and named(name) is not None:
                    node["value"] = self.named_text(value, name, (*at, "value"))
                    return

    # --- what is JSON, text or binary inside of something else ---

    def _inner_json(self, node: dict[str, Any], task: _Task) -> None:
        try:
            inner = [_decode(node["$json"])]
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if not task.kept:
                node["$json"] = self.text(node["$json"], task.at)
            return
        self._push(inner, 0, task.key, task.states, task.kept, task.at)

        def finish() -> None:
            if self.changed:
                node["$json"] = _encode(inner[0]).decode()

        self._finishers.append(finish)

    def _base64(self, text: str, at: At) -> str:
        try:
            data = binascii.a2b_base64(text)
        except (binascii.Error, ValueError):
            return text
        out = self._content(data, at)
        return text if out is data else base64.b64encode(out).decode()

    def _data_uri(self, uri: str, at: At) -> str:
        split = split_data_uri(uri)
        if split is None or not _is_text(split[0]):
            return uri
        out = self._content(split[1], at)
        if out is split[1]:
            return uri
        return f"data:{split[0]};base64,{base64.b64encode(out).decode()}"

    def _content(self, data: bytes, at: At) -> bytes:
        """Bytes that are UTF-8 are read as text; others as binary data."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._binary(data, at)
        out = self._sized(data, text, at)
        return data if out is text else out.encode()

    def _sized(self, data: bytes, text: str, at: At) -> str:
        """A text that the first look at the event did not see."""
        outer, self.look = self.look, self.hints.look(data)
        try:
            return self.text(text, at)
        finally:
            self.look = outer

    def _binary(self, data: bytes, at: At) -> bytes:
        """Binary data with stars over each secret, so that everything else stays where it is."""
        finders = self.hints.binary(data)
        if not finders:
            return data
        text, out = data.decode("latin-1"), bytearray(data)
        for finder in finders:
            for start, end, kind in finder.hits(text, self.deadline):
                out[start:end] = b"*" * (end - start)
                self._note(at, kind)
        return data if out == data else bytes(out)

    def _blob(self, ref: dict[str, Any], task: _Task) -> None:
        blob = self.blobs.get(bytes.fromhex(ref["$blob"][7:]))
        media_type = str(ref.get("media_type", ""))
        if blob is None:
            return
        if task.holder is self._top and media_type == JSON:
            self._whole(ref, blob, task)
            return
        if task.kept:
            return
        meaning = named(task.key) if task.key and self.look.names else None
        if meaning is not None and meaning.any_value:
            self._note(task.at, meaning.kind)
            task.holder[task.slot] = masked(meaning.kind)
            return
        data = self._content(blob.data, task.at) if _is_text(media_type) else self._octets(blob.data, task.at)
        if data is not blob.data:
            self._replace(ref, make_blob(data, blob.media_type))

    def _octets(self, data: bytes, at: At) -> bytes:
        """Bytes of an unknown kind: text when they are short enough to be tried and are UTF-8."""
        return self._content(data, at) if b"\0" not in data[:4_096] else self._binary(data, at)

    def _whole(self, ref: dict[str, Any], blob: Blob, task: _Task) -> None:
        """A payload that was too large to stand inline."""
        inner = [_decode(blob.data)]
        self.look = self.hints.look(blob.data) if not task.kept else _NO_LOOK
        self._push(inner, 0, None, task.states, task.kept, task.at)

        def finish() -> None:
            if not self.changed:
                return
            json = _encode(inner[0])
            self._replace(ref, make_blob(json, blob.media_type))
            named_inside = sorted(map(digest_text, blob_digests(json)))
            ref.pop("holds", None)
            if named_inside:
                ref["holds"] = named_inside

        self._finishers.append(finish)

    def _replace(self, ref: dict[str, Any], blob: Blob) -> None:
        self.changed = True
        self.blobs[blob.digest] = blob
        ref["$blob"] = digest_text(blob.digest)
        if "bytes" in ref:
            ref["bytes"] = len(blob.data)


def _is_secret(text: str, meaning: Named) -> bool:
    if not text or is_mark(text) or placeholder(text):
        return False
    return meaning.any_value or looks_random(text)


def _is_text(media_type: str) -> bool:
    return media_type.startswith(("text/", "application/json", "application/xml", "application/yaml"))
