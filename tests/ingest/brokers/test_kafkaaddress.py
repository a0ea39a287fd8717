"""The URL of a topic on Kafka: what it says, what it lacks, and that it shows no password."""

from __future__ import annotations

import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.kafkaaddress import read_topic


def test_what_is_not_said_is_as_usual() -> None:
    source = read_topic("kafka://kafka1?topic=orders")
    assert (source.servers, source.topic, source.name, source.group, source.batch) == (
        "kafka1:9092",
        "orders",
        "orders",
        None,
        256,
    )
    assert source.connect_options() == {"bootstrap.servers": "kafka1:9092", "session.timeout.ms": "10000"}


def test_everything_can_be_said_with_the_names_of_the_client() -> None:
    source = read_topic(
        "kafka://me:p%40s%2Fs@k1:9093,k2,[::1]:7000/?topic=a.b_c-D&group=g%201&batch=9&name=n&session.timeout.ms=6000"
        "&sasl.mechanism=SCRAM-SHA-512&auto.offset.reset=latest"
    )
    assert source.servers == "k1:9093,k2:9092,[::1]:7000"
    assert (source.topic, source.group, source.batch, source.name) == ("a.b_c-D", "g 1", 9, "n")
    assert source.options == {
        "session.timeout.ms": "6000",
        "sasl.mechanism": "SCRAM-SHA-512",
        "auto.offset.reset": "latest",
        "sasl.username": "me",
        "sasl.password": "p@s/s",
        "security.protocol": "SASL_SSL",
    }
    assert "p@s" not in repr(source) and "p%40s" not in repr(source) and "me:***@k1" in source.url


def test_a_password_goes_over_tls_unless_it_is_said_otherwise() -> None:
    options = read_topic("kafka://me:secret@h/?topic=t").options
    assert (options["security.protocol"], options["sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    options = read_topic("kafka://h/?topic=t&sasl.mechanisms=OAUTHBEARER").options
    assert options["security.protocol"] == "SASL_SSL" and "sasl.mechanism" not in options
    assert read_topic("kafka://h/?topic=t&ssl.ca.location=probe").options["security.protocol"] == "SSL"
    options = read_topic("kafka://me:secret@h/?topic=t&security.protocol=SASL_PLAINTEXT").options
    assert options["security.protocol"] == "SASL_PLAINTEXT"


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem"]
)
def test_what_is_secret_in_an_option_is_not_shown(name: str) -> None:
    try:
        shown = read_topic(f"kafka://h/?topic=t&{name}=hunter2").url
    except LedgerError as error:
        shown = str(error)
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("kafka://h/", "names no topic"),
        ("kafka://h/?topic=", "names no topic"),
        ("kafka://h/orders", "has a path; name the topic with .topic="),
        ("kafka://h/?topic=a,b", "name of one topic"),
        ("kafka://h/?topic=..", "name of one topic"),
        ("kafka://h/?topic=t&ledger=x", "--ledger"),
        ("kafka://h/?topic=t&batch=0", "batch"),
        ("kafka://h/?topic=t&batch=1001", "batch"),
        ("kafka://h/?topic=t&group=", "group"),
        ("kafka://h/?topic=t&group=a%0Ab", "group"),
        ("kafka://h/?topic=t&enable.auto.commit=true", "no option"),
        ("kafka://h/?topic=t&topic=u", "twice"),
        ("kafka://h/?topic=t#u", "after #"),
        ("kafka://h:x/?topic=t", "no servers that can be read"),
        ("kafka://h:70000/?topic=t", "no servers that can be read"),
        ("kafka://a,,b/?topic=t", "no servers that can be read"),
        ("kafka://[::1/?topic=t", "cannot be read"),
        ("kafka://hunter2@h/?topic=t", "a user without a password"),
        ("kafka://me:hunter2@h/?topic=t&sasl.username=me", "twice"),
        ("kafka://h/?topic=t&ssl.key.pem=hunter2", "give the path of a file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(url: str, said: str) -> None:
    with pytest.raises(LedgerError, match=said) as caught:
        read_topic(url)
    assert "hunter2" not in str(caught.value)


def test_files_that_cannot_be_read_are_told() -> None:
    with pytest.raises(LedgerError, match=r"ssl\.ca\.location of .* cannot be read"):
        read_topic("kafka://h/?topic=t&ssl.ca.location=/no/such/file").connect_options()
