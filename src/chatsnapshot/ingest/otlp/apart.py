"""A process that makes drafts for a service: it reads requests from its input and ends with it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.validation import Validator
from chatsnapshot.ingest.otlp.making import LOGS, TRACES, Made, made_of, records_of
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.intake import Intake
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import seal_groups

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["HEAD_BYTES", "Answer", "Request", "run"]

HEAD_BYTES = 4
"""In front of each message, how many bytes it has: little endian."""
_LEDGERS_MAX = 100
_PIPE_BYTES = 1024 * 1024
"""An answer that goes through in one piece wakes the service once."""


class Request(msgspec.Struct, array_like=True):
    """One request of a ledger: what it holds, the time for what says none, and messages that were stored meanwhile."""

    ledger: str
    body: bytes
    json: bool
    logs: bool
    redact: str | None
    now: str
    told: list[bytes]
    asked: dict[str, dict[str, bytes]] | None = None
    """What was remembered before, with the first request of a ledger."""


class Answer(msgspec.Struct, array_like=True):
    """What was made; ``None`` where it could not be: ``wrong`` says why when that is the fault of the body."""

    made: Made | None
    wrong: str = ""


def run(source: BinaryIO, target: BinaryIO) -> None:
    """Answer requests in their order until there are no more."""
    for pipe in (source, target):
        with suppress(
            OSError, AttributeError, ValueError
        ):  # Linux only, and up to what an administrator allows
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    intake = Intake(_no_clock, DEFAULTS, None, lambda digest: None)
    validator = Validator()
    validator.ready()
    memories: dict[str, Memory] = {}
    decoder, encoder = msgspec.msgpack.Decoder(Request), msgspec.msgpack.Encoder()
    while len(head := source.read(HEAD_BYTES)) == HEAD_BYTES:
        answer = encoder.encode(
            _answer(decoder.decode(source.read(int.from_bytes(head, "little"))), intake, validator, memories)
        )
        target.write(len(answer).to_bytes(HEAD_BYTES, "little") + answer)
        target.flush()


def _answer(request: Request, intake: Intake, validator: Validator, memories: dict[str, Memory]) -> Answer:
    memory = memories.get(request.ledger)
    if memory is None or request.asked is not None:
        if len(memories) >= _LEDGERS_MAX:
            del memories[next(iter(memories))]
        memory = memories[request.ledger] = Memory(request.asked)
    for key in request.told:
        memory.tell(key)
    what = LOGS if request.logs else TRACES
    try:
        records = records_of(request.body, request.json, what)
        made = made_of(records, what.events_of, memory, intake, request.now, request.redact)
    except InvalidEvent as error:
        return Answer(None, str(error))
    except Exception:  # the service reads it by itself, and says what is wrong
        return Answer(None)
    made.unfit = [
        place
        for place, draft in enumerate(made.drafts)
        if not validator.fits(draft.columns[1], draft.columns[6] or b"")
    ]
    seal_groups([Group(made.drafts)], os.urandom)
    return Answer(made)


def _no_clock() -> int:
    raise RuntimeError("every request brings its time")
