"""Owns blobs: content-addressed bytes beside a payload, and the references to them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

__all__ = ["Blob", "BlobRef", "blob_digests", "blob_ref", "digest_text", "read_blob", "split_data_uri"]

OCTETS = "application/octet-stream"
TEXT = "text/plain;charset=utf-8"
JSON = "application/json"

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_DATA_URI = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+(?:;[\w.+-]+=[\w.+-]+)*);base64,", re.ASCII)


class Blob(msgspec.Struct, frozen=True):
    """Bytes that stand beside a payload: stored once for each ledger under their SHA-256.

    ``digest`` is 32 bytes, ``data`` the whole content, ``media_type`` what it is.
    """

    digest: bytes
    data: bytes
    media_type: str


class BlobRef(msgspec.Struct, frozen=True):
    """A blob that was not fetched: what :func:`~chatsnapshot.jsonvalue.decode` leaves where it has no bytes.

    ``ref`` is the stored reference (``$blob``, ``bytes``, ``media_type``).
    """

    ref: dict[str, Any]

    @property
    def digest(self) -> str:
        """``sha256:`` and 64 hexadecimal digits."""
        return str(self.ref["$blob"])

    @property
    def bytes(self) -> int:
        """Size of the content in bytes; 0 when the reference does not tell."""
        size = self.ref.get("bytes")
        return size if type(size) is int else 0

    @property
    def media_type(self) -> str:
        """What the content is; ``application/octet-stream`` when the reference does not tell."""
        return str(self.ref.get("media_type", OCTETS))


def digest_text(digest: bytes) -> str:
    """The digest as it is written in a reference."""
    return f"sha256:{digest.hex()}"


def blob_ref(blob: Blob) -> dict[str, Any]:
    """The reference that stands in the payload for this blob."""
    return {"$blob": digest_text(blob.digest), "bytes": len(blob.data), "media_type": blob.media_type}


def make_blob(data: bytes, media_type: str) -> Blob:
    """A blob with its digest."""
    return Blob(sha256(data).digest(), data, media_type)


def is_ref(node: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a well-formed blob reference."""
    digest = node.get("$blob")
    return type(digest) is str and _DIGEST.match(digest) is not None


def split_data_uri(text: str) -> tuple[str, bytes] | None:
    """Media type and content of a base64 data URI (RFC 2397); ``None`` when it would not read back."""
    head = _DATA_URI.match(text)
    if head is None:
        return None
    body = text[head.end() :]
    try:
        data = binascii.a2b_base64(body)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode("ascii") != body:
        return None
    return head[1], data


def read_blob(ref: Mapping[str, Any], data: bytes) -> Any:
    """The value that a reference stands for: bytes, text, or the text of a data URI."""
    if ref.get("as") == "data-uri":
        return f"data:{ref.get('media_type')};base64,{base64.b64encode(data).decode('ascii')}"
    if ref.get("media_type") == TEXT:
        return str(data, "utf-8")
    return data


def blob_digests(payload: bytes) -> tuple[bytes, ...]:
    """The digests (32 bytes each) of all blobs that a stored payload names, sorted.

    Blobs named inside a ``$json`` string or a whole-payload blob are among them.
    Gives ``()`` for bytes that are not JSON.
    """
    if b"$blob" not in payload:
        return ()
    found: set[bytes] = set()
    pending: list[Any] = [payload]
    while pending:
        node = pending.pop()
        if type(node) is bytes or type(node) is str:
            try:
                node = msgspec.json.decode(node)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
        if type(node) is dict:
            if is_ref(node):
                found.add(bytes.fromhex(node["$blob"][7:]))
                for digest in node.get("holds") or ():
                    if type(digest) is str and _DIGEST.match(digest):
                        found.add(bytes.fromhex(digest[7:]))
                continue
            if type(node.get("$json")) is str:
                pending.append(node["$json"])
            pending.extend(child for child in node.values() if type(child) in (dict, list))
        elif type(node) is list:
            pending.extend(child for child in node if type(child) in (dict, list))
    return tuple(sorted(found))
