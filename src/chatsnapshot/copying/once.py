"""Copies a ledger as it is now to another store, or what a copy lacks of it, and verifies what is there then."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from chatsnapshot.copying.places import Place, both_ends
from chatsnapshot.copying.transfer import Transfer
from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.standby import Standing
from chatsnapshot.verify import verify as verify_store

__all__ = ["Copied", "Progress", "copy"]

Progress = Callable[[str, int, int], None]
"""Told how far it is: ``"copying"`` or ``"verifying"``, position, last position."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that is up to date with its source as that was at the end of the call.

    ``entries`` and ``bytes`` are what this call has taken over, ``head`` and ``root`` (hex) those of the copy. ``erased``
    is the number of erased payloads in it, ``None`` when it was not verified. ``waits``: it takes entries from its source
    alone until it is promoted; not so a ledger that was there before and was no copy.
    """

    source: str
    target: str
    ledger_id: str
    head: int
    root: str
    entries: int
    bytes: int
    erased: int | None
    verified: bool
    waits: bool
    seconds: float


def copy(
    source: Place,
    target: Place,
    *,
    verify: bool = True,
    progress: Progress | None = None,
    limits: Limits = DEFAULTS,
) -> Copied:
    """Copy whole entries, with blobs and erasures, until ``target`` has all that ``source`` held at the call.

    Both are paths or URLs of any store, or open ledgers. The target is made as a copy, which takes entries from its
    source alone until :func:`~chatsnapshot.copying.promote`; one that is there must be the beginning of the source's
    history, and only what it lacks is copied: a copy that was killed goes on with the next call. Entries, leaves and root
    are the source's, which is opened read-only and may be written to meanwhile. In the end the roots are compared, and
    unless ``verify`` is false everything in the target is derived anew.

    Raises :class:`NotFound` when there is no source, :class:`LedgerError` when the target holds another history, was
    promoted or is the source, :class:`Corrupt` when source or copy is damaged, :class:`StoreFull`,
    :class:`StoreUnavailable`, :class:`CommitUncertain`.
    """
    begun = time.monotonic()
    tell = progress or (lambda stage, done, whole: None)
    with both_ends(source, target, limits) as (taken, given):
        transfer = Transfer(taken, given, lambda done, whole: tell("copying", done, whole))
        transfer.match()
        head = taken.head().size
        transfer.up_to(head)
        # A payload that was erased meanwhile came without the record of it, which stands further on.
        while not transfer.settled() and (now := taken.head().size) > transfer.position:
            transfer.up_to(now)
        transfer.match()
        erased = None
        if verify:
            report = verify_store(given, limits, lambda done, whole: tell("verifying", done, whole))
            erased = report.erased
            if not report.ok:
                raise Corrupt(
                    f"the copy {given.url} does not verify ({report.summary}); chatsnapshot verify lists what is wrong",
                    position=report.problems[0].position,
                )
        return Copied(
            source=taken.url,
            target=given.url,
            ledger_id=Standing(given).ledger_id,
            head=transfer.position,
            root=transfer.root.hex(),
            entries=transfer.entries,
            bytes=transfer.bytes,
            erased=erased,
            verified=verify,
            waits=Standing(given).waits,
            seconds=time.monotonic() - begun,
        )
