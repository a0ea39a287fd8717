"""Blobs on their way: too large for one request, they are sent in parts ahead of it; they come back bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chatsnapshot.errors import NotFound, StoreUnavailable
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.asking import Asking
from chatsnapshot.stores.http.connection import Lost
from chatsnapshot.stores.http.errors import BlobMissing, Unclear, error_of, kind_of, problem_of

__all__ = ["LEAST_BYTES", "PART_BYTES", "after", "fetched", "size_of", "taken_out"]

PART_BYTES = 8 * 1024 * 1024
LEAST_BYTES = 64 * 1024
"""A smaller blob stays where it is."""
_TRIES = 3

_T = TypeVar("_T")


def size_of(request: wire.Append) -> int:
    """Bytes of the payloads and blobs of a request."""
    return sum(
        len(draft.payload) + sum(len(data) for _, _, data in draft.blobs)
        for group in request.groups
        for draft in group.drafts
    )


def taken_out(request: wire.Append) -> dict[bytes, bytes]:
    """The large blobs of a request, which then only names them."""
    found: dict[bytes, bytes] = {}
    for group in request.groups:
        for draft in group.drafts:
            large = {digest: data for digest, _, data in draft.blobs if len(data) >= LEAST_BYTES}
            if large:
                found.update(large)
                draft.blobs = [
                    (digest, media_type, b"" if digest in large else data)
                    for digest, media_type, data in draft.blobs
                ]
    return found


def after(asking: Asking, blobs: Mapping[bytes, bytes], act: Callable[[], _T]) -> _T:
    """Send blobs, and then do what needs them; once more where the service has lost them meanwhile."""
    if not blobs:
        return act()
    for digest, data in blobs.items():
        _send(asking, digest, data)
    try:
        return act()
    except BlobMissing:
        for digest, data in blobs.items():
            _send(asking, digest, data)
        return act()


def _send(asking: Asking, digest: bytes, data: bytes) -> None:
    """Send one, from where the service has it: what came before a connection broke is not sent again."""
    view, held, stops = memoryview(data), 0, 0
    while held < len(data):
        part = wire.Part(digest, len(data), held, bytes(view[held : held + PART_BYTES]))
        now = _held(asking, part)
        stops += now <= held
        if stops >= _TRIES:
            raise StoreUnavailable(
                f"{asking.url} does not get the blob sha256:{digest.hex()} whole; nothing was stored, try again"
            )
        held = now


def _held(asking: Asking, part: wire.Part) -> int:
    answer: Any = asking.read(
        "part", part, type=int
    )  # may be asked for twice: a part that is there is not added again
    return int(answer)


def fetched(asking: Asking, digest: bytes) -> bytes | None:
    """The bytes of a blob; ``None`` where the ledger has none of that name."""
    path, seconds = f"/blobs/sha256:{digest.hex()}", asking.address.seconds
    try:
        answer = asking.call("GET", path, b"", seconds)
    except Lost:
        try:
            answer = asking.call("GET", path, b"", seconds)
        except Lost as error:
            raise StoreUnavailable(f"{asking.url} does not answer ({error}); try again") from None
    if answer.status != 200:
        problem = problem_of(answer)
        wrong = error_of(problem, asking.url)
        if isinstance(wrong, NotFound) and kind_of(problem) == "not-found":
            return None
        raise StoreUnavailable(str(wrong)) if isinstance(wrong, Unclear) else wrong
    return answer.body
