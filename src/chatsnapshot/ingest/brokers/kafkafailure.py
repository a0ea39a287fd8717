"""What an error of the Kafka client means: passing, final, or that a partition is another member's now."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.kafkaaddress import KafkaTopic

__all__ = ["MOVED", "NO_TOPIC", "Lost", "Refusal", "sentence", "told"]

NO_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
MOVED = frozenset(
    {
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "STALE_MEMBER_EPOCH",
        "_ASSIGNMENT_LOST",
        "_NO_OFFSET",
        "_STATE",
        *NO_TOPIC,
    }
)
"""What a broker says to an offset of a partition that is no longer ours: it comes again, to whom it is now."""
_PASSING = frozenset(
    {
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_SSL",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_WAIT_COORD",
        "_WAIT_CACHE",
        "_DESTROY_BROKER",
        "_MAX_POLL_EXCEEDED",
        "LEADER_NOT_AVAILABLE",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
    }
)
_REFUSED = frozenset(
    {
        "_AUTHENTICATION",
        "_AUTO_OFFSET_RESET",
        "_FATAL",
        "_INVALID_ARG",
        "_UNSUPPORTED_FEATURE",
        "CLUSTER_AUTHORIZATION_FAILED",
        "FENCED_INSTANCE_ID",
        "GROUP_AUTHORIZATION_FAILED",
        "GROUP_MAX_SIZE_REACHED",
        "INCONSISTENT_GROUP_PROTOCOL",
        "INVALID_GROUP_ID",
        "INVALID_SESSION_TIMEOUT",
        "SASL_AUTHENTICATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "UNSUPPORTED_VERSION",
    }
)


class Lost(Exception):
    """No broker is there, or it takes nothing at the moment; the client goes on trying by itself."""


class Refusal(Exception):
    """The broker or the client refuses, and will again; ``code`` is the client's name of the error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def told(error: Any) -> Lost | Refusal | None:
    """What a ``KafkaError`` means; ``None`` for one that is worth no more than a line, as the client goes on."""
    name, text = str(error.name()), str(error.str())
    if error.fatal():
        return Refusal("_FATAL", text)
    if name in _REFUSED:
        return Refusal(name, text)
    return Lost(text) if name in _PASSING or error.retriable() else None


def sentence(refusal: Refusal, source: KafkaTopic, group: str) -> LedgerError:
    """A refusal as one sentence that says what to do."""
    said = " ".join(str(refusal).split())[:300]
    where, code = source.url, refusal.code
    if code in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"):
        return LedgerError(
            f"{where} refuses the user, the password or the mechanism ({said}); write kafka://USER:PASSWORD@host with "
            "sasl.mechanism=… and security.protocol=… as the broker has them"
        )
    if code.endswith("_AUTHORIZATION_FAILED"):
        return LedgerError(
            f"{where} does not allow this user what is needed ({said}); it is READ and DESCRIBE on the topic "
            f"{source.topic!r}, and READ on the group {group!r}"
        )
    if code == "INCONSISTENT_GROUP_PROTOCOL":
        return LedgerError(
            f"the group {group!r} at {where} has members that share partitions in another way; give "
            "partition.assignment.strategy=… as they have it, or group=NAME of another one"
        )
    if code == "INVALID_SESSION_TIMEOUT":
        return LedgerError(
            f"{where} does not take session.timeout.ms={source.options.get('session.timeout.ms')}; give another that is "
            "between its group.min.session.timeout.ms and group.max.session.timeout.ms"
        )
    if code == "_AUTO_OFFSET_RESET":
        return LedgerError(
            f"{where} no longer has what the group {group!r} would take next, or has no offset of it ({said}); "
            "auto.offset.reset=earliest goes on with what there is"
        )
    if code == "_INVALID_ARG":
        return LedgerError(f"the Kafka client does not take an option of {where}: {said}")
    return LedgerError(f"{where} refuses: {said}")
