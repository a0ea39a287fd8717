"""Compares the stream and the vault with the local index: what is missing, was changed, or is configured otherwise."""

from __future__ import annotations

from chatsnapshot.errors import Corrupt, LedgerError
from chatsnapshot.stores.base import LEAF, PAYLOAD, POSITION, SALT, Finding
from chatsnapshot.stores.nats.connection import Got
from chatsnapshot.stores.nats.engine import Engine
from chatsnapshot.stores.nats.index import row_at
from chatsnapshot.stores.nats.messages import read_message, subject_token
from chatsnapshot.stores.nats.streams import find_streams

__all__ = ["examine"]

_READ_MESSAGES = 500
_READ_BYTES = 8 * 1024 * 1024
_FINDINGS_MAX = 100


async def examine(engine: Engine) -> list[Finding]:
    """Every fault, at most 100: the stream is read whole once more. Raises what a connection raises."""
    findings: list[Finding] = []
    size = await engine.follow()
    try:
        found = await engine.patiently(lambda: find_streams(engine.connection, engine.address))
        if found != engine.ledger_id:
            findings.append(Finding(None, "the id of the ledger was changed", engine.ledger_id, found))
    except LedgerError as error:
        findings.append(Finding(None, "the configuration of a stream", "as it was made", str(error)))
    at = 0
    while at < size and len(findings) < _FINDINGS_MAX:
        body: dict[str, object] = {"seq": at + 1, "batch": _READ_MESSAGES, "max_bytes": _READ_BYTES}
        got = await engine.patiently(lambda body=body: engine.connection.direct(engine.address.stream, body))  # type: ignore[misc]
        if not got:
            findings.append(
                Finding(
                    at + 1,
                    "entries are missing in the stream",
                    f"entries up to {size}",
                    f"none after {at}",
                )
            )
            break
        for one in got:
            if one.seq > size:
                break
            findings += _compared(engine, one, at + 1)
            at = one.seq
    return findings[:_FINDINGS_MAX]


def _compared(engine: Engine, got: Got, expected: int) -> list[Finding]:
    if got.seq != expected:
        return [
            Finding(
                expected,
                "an entry was removed from the stream",
                f"position {expected}",
                f"position {got.seq}",
            )
        ]
    try:
        row = read_message(got.data, got.seq).row
    except Corrupt as error:
        return [Finding(expected, "a message of the stream is no entry", "an entry", str(error))]
    with engine.index.looking() as db:
        known = row_at(db, got.seq)
    if known is None:
        return [Finding(expected, "an entry is missing in the index", "an entry", "none")]
    faults: list[Finding] = []
    subject = f"{engine.address.subjects}.ev.{subject_token(row[7])}."
    if not got.subject.startswith(subject):
        faults.append(Finding(expected, "an entry has another subject", subject + "…", got.subject))
    if row[LEAF] != known[LEAF]:
        faults.append(
            Finding(
                row[POSITION],
                "the stream and the index differ in an entry",
                known[LEAF].hex(),
                row[LEAF].hex(),
            )
        )
    elif known[PAYLOAD] is not None and (row[PAYLOAD], row[SALT]) != (known[PAYLOAD], known[SALT]):
        faults.append(
            Finding(
                row[POSITION],
                "the stream and the index differ in a sealed payload",
                "the same bytes",
                "other bytes",
            )
        )
    return faults
