"""The blobs of a JSONL ledger: files named by their SHA-256, durable before the entry that names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from chatsnapshot.stores.jsonl_file import FileIO, folder_of, replace_file

__all__ = ["BlobFolder"]

_NAME = re.compile(r"[0-9a-f]{64}\Z")


class BlobFolder:
    """The folder ``runs.jsonl.blobs``. It is changed under the ledger's lock only."""

    def __init__(self, path: str, files: FileIO, part_bytes: int) -> None:
        self.path = path
        self._files = files
        self._part_bytes = part_bytes

    def _file(self, digest: bytes) -> str:
        return os.path.join(self.path, digest.hex())

    def put(self, digest: bytes, data: bytes) -> None:
        """Keep a blob; durable when it returns. Raises ``OSError``."""
        files, path = self._files, self._file(digest)
        if not os.path.isdir(self.path):
            files.make_folder(self.path)
            files.sync_folder(folder_of(self.path))
        known = files.stamp(path)
        if known is not None and known.bytes == len(data):
            files.sync_folder(self.path)  # its writer may have been lost before it did
            return
        step = self._part_bytes
        replace_file(files, path, (data[at : at + step] for at in range(0, len(data), step)))

    def parts(self, digest: bytes) -> Iterable[bytes] | None:
        """The bytes of a blob in parts, or ``None``."""
        path = self._file(digest)
        stamp = self._files.stamp(path)
        if stamp is None:
            return None
        try:
            descriptor = self._files.open_to_read(path)
        except FileNotFoundError:
            return None
        try:
            return list(self._files.chunks(descriptor, 0, stamp.bytes, self._part_bytes)) or [b""]
        finally:
            self._files.close(descriptor)

    def all(self) -> Iterator[tuple[bytes, int]]:
        """Digest and bytes of every blob that is there."""
        for name in self._files.names(self.path):
            if _NAME.match(name):
                stamp = self._files.stamp(os.path.join(self.path, name))
                if stamp is not None:
                    yield bytes.fromhex(name), stamp.bytes

    def remove(self, digests: Iterable[bytes]) -> int:
        """Remove blobs; gives how many there were. Raises ``OSError``."""
        return self._remove(digest.hex() for digest in digests)

    def sweep(self, used: Iterable[bytes]) -> int:
        """Remove everything that is not used, also what a lost process left half written."""
        kept = {digest.hex() for digest in used}
        return self._remove(name for name in self._files.names(self.path) if name not in kept)

    def _remove(self, names: Iterable[str]) -> int:
        gone = 0
        for name in names:
            try:
                self._files.remove(os.path.join(self.path, name))
                gone += 1
            except FileNotFoundError:
                pass
        if gone:
            self._files.sync_folder(self.path)
        return gone
