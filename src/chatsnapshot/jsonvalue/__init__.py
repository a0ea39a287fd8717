"""Python values to strict JSON and back: one written rule for each kind (docs/values.md)."""

from chatsnapshot.jsonvalue.blobs import Blob, BlobRef, blob_digests
from chatsnapshot.jsonvalue.decode import decode
from chatsnapshot.jsonvalue.display import plain
from chatsnapshot.jsonvalue.encode import Encoded, encode
from chatsnapshot.jsonvalue.nesting import nested_deeper

__all__ = ["Blob", "BlobRef", "Encoded", "blob_digests", "decode", "encode", "nested_deeper", "plain"]
