"""What the Kafka client says: what passes told from what stays, and that in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.ingest.brokers.kafkaaddress import read_topic
from chatsnapshot.ingest.brokers.kafkafailure import MOVED, Lost, Refusal, sentence, told


@pytest.mark.parametrize(
    "code",
    [
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT",
        "_WAIT_COORD",
        "_MAX_POLL_EXCEEDED",
        "LEADER_NOT_AVAILABLE",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
    ],
)
def test_what_passes_is_waited_for(code: str) -> None:
    assert isinstance(told(theirs(code)), Lost)


@pytest.mark.parametrize(
    ("code", "sentence_has"),
    [
        ("_AUTHENTICATION", "refuses the user, the password or the mechanism"),
        ("SASL_AUTHENTICATION_FAILED", "refuses the user, the password or the mechanism"),
        ("TOPIC_AUTHORIZATION_FAILED", "READ and DESCRIBE on the topic 't', and READ on the group 'g'"),
        ("GROUP_AUTHORIZATION_FAILED", "READ and DESCRIBE on the topic 't', and READ on the group 'g'"),
        ("INCONSISTENT_GROUP_PROTOCOL", "share partitions in another way"),
        ("INVALID_SESSION_TIMEOUT", "does not take session.timeout.ms=5;"),
        ("_AUTO_OFFSET_RESET", "auto.offset.reset=earliest goes on"),
        ("_FATAL", "refuses: said"),
        ("UNSUPPORTED_VERSION", "refuses: said"),
    ],
)
def test_what_stays_is_one_sentence(code: str, sentence_has: str) -> None:
    refusal = told(theirs(code))
    assert isinstance(refusal, Refusal)
    source = read_topic("kafka://me:hunter2@h/?topic=t&session.timeout.ms=5")
    text = str(sentence(refusal, source, "g"))
    assert sentence_has in text and "hunter2" not in text and "\n" not in text


def test_the_names_of_errors_are_those_of_the_client() -> None:
    for name in MOVED:
        assert theirs(name).name() == name


def theirs(name: str) -> Any:
    """An error of the client's, by its name."""
    from confluent_kafka import KafkaError

    return KafkaError(getattr(KafkaError, name), "said\nso")
