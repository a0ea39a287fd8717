"""Takes messages into a ledger: committed when it returns, what cannot be an event set aside in the ledger itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.clock import foreign_uuid, uuid_bytes, uuid_text
from chatsnapshot.envelope import EventEnvelope, Source, check_event_type
from chatsnapshot.errors import InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.ingest.brokers.message import Message, event_of
from chatsnapshot.ingest.cloudevents.mapping import Mapper
from chatsnapshot.ingesting import BadLine, Dated, Ingest
from chatsnapshot.limits import KIB
from chatsnapshot.stores.draft import LEDGER_CORRELATION

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["REFUSED_KEPT", "BrokerReport", "Refused", "Taker"]

REFUSED_KEPT = 100
REJECTED = "ledger.rejected"
_DATA_BYTES_MAX = 256 * KIB
"""What is kept of the data of a message that was set aside."""
_HEADERS_CHARACTERS_MAX = 64 * KIB
"""And of its headers, which are fields of any length at some brokers."""


class Refused(msgspec.Struct, frozen=True):
    """A message that is no event: where it stands in its stream, and why."""

    message: str
    reason: str


class BrokerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the messages of a stream so far.

    ``stored`` events are new in the ledger, ``known`` ones were there. ``refused`` holds the first 100 messages that were
    set aside, ``refused_count`` counts all; each is an event ``ledger.rejected`` too. ``last_position`` is the highest
    position of an event of this input (0: none).
    """

    stored: int = 0
    known: int = 0
    refused: tuple[Refused, ...] = ()
    refused_count: int = 0
    last_position: int = 0


class Taker:
    """What is common to all brokers. ``report`` says at any time what is settled. For one thread at a time."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        correlation_id: object = None,
        event_type: str | None = None,
        source: Source | Mapping[str, Any] | None = None,
        redact: object = "secrets",
        on_refused: Callable[[Refused], None] | None = None,
    ) -> None:
        if event_type is not None:
            check_event_type(event_type)
        self.ledger = ledger
        self._options: dict[str, Any] = {"correlation_id": correlation_id, "source": source, "redact": redact}
        self._event_type = event_type
        self._mapper = Mapper(ledger, correlation_id=correlation_id)
        self._on_refused = on_refused
        self.report = BrokerReport()
        with closing(Ingest(ledger, **self._options)):
            pass  # what is wrong with the options is told before anything is fetched

    def take(self, messages: Sequence[Message]) -> frozenset[int]:
        """Commit them; gives the indexes of those that were set aside. The same messages again change nothing.

        Raises what the ledger raises when it takes nothing: then they are not to be acknowledged.
        """
        bad: list[BadLine] = []
        stored, known, position = self._commit(self._events(messages), bad)
        refused = []
        if bad:
            refused = [Refused(messages[one.number - 1].place, one.reason) for one in bad]
            set_aside = [self._rejection(messages[one.number - 1], one.reason) for one in bad]
            not_aside: list[BadLine] = []
            _, _, last = self._commit(iter(set_aside), not_aside)
            self._check_known([set_aside[one.number - 1]["event_id"] for one in not_aside], not_aside)
            position = max(position, last)
        old = self.report
        self.report = BrokerReport(
            stored=old.stored + stored,
            known=old.known + known,
            refused=(*old.refused, *refused)[:REFUSED_KEPT],
            refused_count=old.refused_count + len(refused),
            last_position=max(old.last_position, position),
        )
        if self._on_refused is not None:
            for one in refused:
                self._on_refused(one)
        return frozenset(one.number - 1 for one in bad)

    def _check_known(self, event_ids: list[str], why: list[BadLine]) -> None:
        """What was set aside before, in other words, is there; what is not must stay with the broker."""
        wanted = [uuid_bytes(one) for one in dict.fromkeys(event_ids)]
        known = self.ledger._store.get(wanted) if wanted else {}
        if len(known) < len(wanted):
            raise LedgerError(f"a message can be neither stored nor set aside: {why[0].reason}")

    def _commit(self, items: Iterator[Any], bad: list[BadLine]) -> tuple[int, int, int]:
        with closing(Ingest(self.ledger, skip_bad=True, on_bad=bad.append, **self._options)) as work:
            report = work.take(items)
        return report.stored, report.known, report.last_position

    def _events(self, messages: Sequence[Message]) -> Iterator[EventEnvelope | Dated | Exception]:
        depth = self.ledger.limits.json_depth_max
        for message in messages:
            try:
                yield event_of(message, self._mapper, self._event_type, depth)
            except (InvalidEvent, LimitExceeded) as error:
                yield error

    def _rejection(self, message: Message, reason: str) -> dict[str, Any]:
        """The record of a message that was set aside, with its content as far as that is text."""
        native: dict[str, Any] = {
            "message": message.place,
            "at": message.at or None,
            "headers": dict(_first(message.headers)),
            "bytes": len(message.data),
            "sha256": sha256(message.data).hexdigest(),
        }
        if len(message.data) <= _DATA_BYTES_MAX:
            # As text, so that what is secret in it is found and taken out.
            native["data"] = message.data.decode("utf-8", "replace")
        key = uuid_text(foreign_uuid("refused message", message.key))
        return {
            "event_id": key,
            "event_type": REJECTED,
            "correlation_id": LEDGER_CORRELATION,
            "timestamp": message.at or None,
            "source": {"origin": "integration", "runtime": "none"},
            "payload": {"event_id": key, "reason": reason, "native": native},
        }


def _first(headers: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    left = _HEADERS_CHARACTERS_MAX
    for name, value in headers:
        left -= len(name) + len(value)
        if left >= 0:
            yield name, value
