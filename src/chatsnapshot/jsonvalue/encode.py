"""Owns ``encode``: a payload as strict JSON bytes and the blobs beside it."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue.blobs import JSON, Blob, blob_digests, blob_ref, digest_text, make_blob
from chatsnapshot.jsonvalue.fast import VALUES_MAX, has_dollar_key, text_size, values_left
from chatsnapshot.jsonvalue.walk import Walk
from chatsnapshot.limits import DEFAULTS, Limits

__all__ = ["Encoded", "encode"]

_FEW_VALUES = 256
_DOLLAR = ord("$")
_MEMBER_BYTES_KEPT = 64 * 1024

_json = msgspec.json.Encoder().encode


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A payload as it is stored: ``json`` is strict UTF-8 JSON of one object, ``blobs`` are put aside."""

    json: bytes
    blobs: tuple[Blob, ...] = ()


def encode(value: Any, *, limits: Limits = DEFAULTS, strict: bool = False) -> Encoded:
    """The value as strict JSON, by the rules of ``docs/values.md``; the same value gives the same bytes.

    A value that is no mapping becomes ``{"value": …}``. Nothing of the caller is held or changed. Whatever
    the value is, this raises no ``Exception``: what cannot be kept is marked ``"lossy": true`` in its place.

    With ``strict=True`` it raises :class:`InvalidEvent`, with a JSON path, for what strict JSON cannot hold
    as given.
    """
    if type(value) is dict:
        try:
            # A few values first: the JSON is at most the size of what the caller holds.
            if values_left(value, limits.depth_max, _FEW_VALUES) >= 0:
                json = _json(value)
                small = _SMALL if limits is DEFAULTS else _small_bytes(limits)
                if len(json) <= small and (_DOLLAR not in json or not has_dollar_key(value)):
                    return Encoded(json)
            larger = _plain_json(value, limits)
            if larger is not None:
                return Encoded(larger)
        except Exception:
            pass  # lone surrogates, or changed by another thread meanwhile: the walk has a rule for it
    return _encode_any(value, limits, strict)


def _small_bytes(limits: Limits) -> int:
    """JSON of this size holds no string that has to become a blob."""
    return min(limits.binary_inline_bytes_max, limits.string_inline_bytes_max, limits.payload_bytes_max)


_SMALL = _small_bytes(DEFAULTS)


def _plain_json(value: dict[Any, Any], limits: Limits) -> bytes | None:
    """JSON of a larger payload that is plain already; ``None`` when it takes the walk."""
    if values_left(value, limits.depth_max, VALUES_MAX) < 0:
        return None
    text_max = min(
        limits.binary_inline_bytes_max, limits.string_inline_bytes_max // 4
    )  # a character has up to 4
    if not 0 <= text_size(value, text_max) <= limits.payload_bytes_max:
        return None
    json = _json(value)
    return json if len(json) <= limits.payload_bytes_max else None


def _encode_any(value: Any, limits: Limits, strict: bool) -> Encoded:
    try:
        walk = Walk(limits, strict)
        tree = walk.run(value)
        if type(tree) is not dict or ("$type" in tree and tree["$type"] != "map") or "$blob" in tree:
            tree = {"value": tree}
        # Below the deepest value a tag may hold pairs in a list; around all there may be ``value``.
        if walk.deepest + 4 > limits.depth_max:
            _fold(tree, limits.depth_max, strict)
        json = _json(tree)
        if len(json) > limits.payload_bytes_max:
            return _whole_blob(tree, json, list(walk.blobs.values()), limits)
        return Encoded(json, tuple(walk.blobs.values()))
    except InvalidEvent as error:
        if strict:
            raise error.with_traceback(None) from None
        return Encoded(_json(_beyond(error)))
    except Exception as error:  # no stack or memory left where the caller stands
        if strict:
            raise InvalidEvent(f"the payload cannot be encoded: {type(error).__name__}", path="$") from None
        return Encoded(_json(_beyond(error)))


def _beyond(error: Exception) -> dict[str, Any]:
    return {"value": {"$type": "cut", "kind": type(error).__name__, "lossy": True}}


def _fold(tree: dict[str, Any], depth_max: int, strict: bool) -> None:
    """Put what lies deeper than ``depth_max`` into ``$json`` strings, in place."""
    level: list[tuple[Any, Any, Any]] = [(None, None, tree)]
    for _ in range(max(depth_max, 2) - 1):  # the payload itself stays an object
        level = [child for _, _, box in level for child in _boxes(box)]
    for holder, slot, box in level:
        if next(_boxes(box), None) is not None:
            if strict:
                raise InvalidEvent(
                    f"the payload is nested deeper than depth_max = {depth_max}; "
                    "flatten it or record it with strict=False",
                    path="$",
                )
            try:
                holder[slot] = {"$json": _json(box).decode()}
            except RecursionError:  # the caller stands deep in the stack itself
                holder[slot] = {"$type": "cut", "kind": "depth", "lossy": True}


def _boxes(box: Any) -> Any:
    pairs = box.items() if type(box) is dict else enumerate(box)
    return ((box, slot, value) for slot, value in pairs if type(value) in (dict, list))


def _whole_blob(tree: dict[str, Any], json: bytes, blobs: list[Blob], limits: Limits) -> Encoded:
    """The payload as one JSON blob; above the blob limit its large members are cut, or all of it."""
    if len(json) > limits.blob_bytes_max:
        json = _json({key: _small(member) for key, member in tree.items()})
        if len(json) > limits.payload_bytes_max:
            return Encoded(_json({"value": _cut(json)}))
        named = set(blob_digests(json))
        return Encoded(json, tuple(blob for blob in blobs if blob.digest in named))
    whole = make_blob(json, JSON)
    ref = blob_ref(whole)
    if blobs:  # named here too, so that no reader has to open the blob to know them
        ref["holds"] = sorted(digest_text(blob.digest) for blob in blobs)
    return Encoded(_json(ref), (*blobs, whole))


def _small(member: Any) -> Any:
    json = _json(member)
    return member if len(json) <= _MEMBER_BYTES_KEPT else _cut(json)


def _cut(json: bytes) -> dict[str, Any]:
    digest = digest_text(make_blob(json, JSON).digest)
    return {"$type": "cut", "kind": "json", "bytes": len(json), "digest": digest, "lossy": True}
