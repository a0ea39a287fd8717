"""A real stream on a real server, and the command that ingests from it."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot


class Stream:
    """One stream with subjects ``NAME.>``; every call makes a connection of its own."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"s{uuid.uuid4().hex[:12]}"
        self.url = f"{server.url}/{self.name}"
        self.do(lambda js: js.add_stream(name=self.name, subjects=[f"{self.name}.>"]))

    def do(self, work: Callable[[Any], Any]) -> Any:
        async def run() -> Any:
            import nats

            client = await nats.connect(self.server.url)
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(run())

    def publish(self, *messages: Any, subject: str = "a", headers: dict[str, str] | None = None) -> None:
        """Publish bytes as they are, anything else as JSON."""

        async def work(js: Any) -> None:
            for one in messages:
                data = one if isinstance(one, bytes) else json.dumps(one).encode()
                await js.publish(f"{self.name}.{subject}", data, headers=headers)

        self.do(work)

    def consumer(self, name: str) -> Any:
        return self.do(lambda js: js.consumer_info(self.name, name))

    def consumers(self) -> list[Any]:
        found: list[Any] = self.do(lambda js: js.consumers_info(self.name))
        return found


@pytest.fixture
def stream(servers: Callable[[str], Any], require: Callable[[object, str], None]) -> Stream:
    """A new stream."""
    server = servers("nats")
    require(not isinstance(server, Exception), f"a NATS server ({server})")
    return Stream(server)


class Entries:
    """One stream of Redis in database 0; ``do`` gives the answer to a command as it came."""

    def __init__(self, server: Any, name: str = "", password: str | None = None) -> None:
        self.server = server
        self.name = name or f"s:{uuid.uuid4().hex[:12]}"
        self.url = f"{server.url}?stream={self.name}"
        self._password = password

    def do(self, *commands: tuple[Any, ...]) -> list[Any]:
        async def run() -> list[Any]:
            from redis.asyncio import Connection

            connection = Connection(
                host="127.0.0.1", port=self.server.port, password=self._password, protocol=2
            )
            await connection.connect()
            try:
                for command in commands:
                    await connection.send_command(*command)
                return [await connection.read_response() for _ in commands]
            finally:
                await connection.disconnect()

        return asyncio.run(run())

    def add(self, *entries: Any) -> None:
        """Add mappings of fields as they are, anything else as JSON in the field ``data``; bytes as they are."""
        commands = []
        for one in entries:
            fields = one if isinstance(one, dict) and "event_type" not in one else {"data": one}
            flat = [
                piece if isinstance(piece, (bytes, str)) else json.dumps(piece)
                for pair in fields.items()
                for piece in pair
            ]
            commands.append(("XADD", self.name, "*", *flat))
        self.do(*commands)

    def pending(self, group: str = "one") -> int:
        return int(self.do(("XPENDING", self.name, group))[0][0])

    def left(self, group: str = "one") -> int:
        """How many entries the group has not acknowledged, or not been given."""
        lag = self.do(("XREADGROUP", "GROUP", group, "looking", "COUNT", "1", "STREAMS", self.name, ">"))[0]
        return self.pending(group) + (0 if lag is None else 1)


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[list[Any]]:
    """The server that tests share, or the reason why there is none; any test may kill it and start it again."""
    from chatsnapshot.testing.servers.redis import RedisServer

    with RedisServer() if not RedisServer.missing() else nullcontext(RedisServer.missing()) as server:
        yield [server]


@pytest.fixture
def entries_of(require: Callable[[object, str], None]) -> Callable[..., Entries]:
    """``entries_of(server)``: a new stream of a Redis server of the test's own; its first entry makes it."""
    from chatsnapshot.testing.servers.redis import RedisServer

    require(not RedisServer.missing(), f"a Redis server ({RedisServer.missing()})")
    return Entries


@pytest.fixture
def entries(redis_servers: list[Any], entries_of: Callable[..., Entries]) -> Entries:
    """A new stream of the Redis server that tests share; its first entry makes it."""
    return entries_of(redis_servers[0])


class Topic:
    """One topic of a broker that speaks Kafka's protocol; made with so many partitions, or with none not made."""

    def __init__(self, server: Any, partitions: int = 1) -> None:
        self.server = server
        self.name = f"t-{uuid.uuid4().hex[:12]}"
        # A group of the broker forms sooner, and gives up a dead member sooner, than with the usual times.
        self.url = f"{server.url}?topic={self.name}&session.timeout.ms=1000&heartbeat.interval.ms=100"
        self._client = {"bootstrap.servers": server.servers, "log_level": 0}
        self._producer: Any = None
        self.partitions = partitions
        if partitions:
            self.make()

    def of(self, group: str = "one") -> str:
        """The URL with a group of this topic alone."""
        return f"{self.url}&group={self.name}-{group}"

    def make(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self._added = 0
        new = NewTopic(self.name, num_partitions=max(1, self.partitions), replication_factor=1)
        admin = AdminClient(self._client)
        for made in admin.create_topics([new]).values():
            made.result()

    def add(self, *values: Any, partition: int = 0, key: Any = None, headers: Any = None) -> None:
        """Add bytes and ``None`` as they are, anything else as JSON."""
        from confluent_kafka import Producer

        self._producer = self._producer or Producer(self._client)
        for one in values:
            data = one if one is None or isinstance(one, bytes) else json.dumps(one).encode()
            self._producer.produce(self.name, data, key=key, headers=headers, partition=partition)
        assert self._producer.flush(20) == 0
        self._added += len(values)

    def left(self, group: str = "one") -> int:
        """How many records the group has not committed; a group with its whole name, or as in :meth:`of`."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self._client, "group.id": group if "-" in group else f"{self.name}-{group}"})
        try:
            places = [TopicPartition(self.name, number) for number in range(max(1, self.partitions))]
            found = consumer.committed(places, timeout=10)
        finally:
            consumer.close()
        return self._added - sum(max(0, one.offset) for one in found)


@pytest.fixture(scope="session")
def kafka_servers() -> Iterator[list[Any]]:
    """The broker that tests share, or the reason why there is none; no test may kill it: it keeps nothing."""
    from chatsnapshot.testing.servers.kafka import KafkaServer

    with KafkaServer() if not KafkaServer.missing() else nullcontext(KafkaServer.missing()) as server:
        yield [server]


@pytest.fixture
def topic_of(require: Callable[[object, str], None]) -> Callable[..., Topic]:
    """``topic_of(server, partitions)``: a new topic of a broker of the test's own."""
    from chatsnapshot.testing.servers.kafka import KafkaServer

    require(not KafkaServer.missing(), f"a broker that speaks Kafka's protocol ({KafkaServer.missing()})")
    return Topic


@pytest.fixture
def topic(kafka_servers: list[Any], topic_of: Callable[..., Topic]) -> Topic:
    """A new topic of one partition of the broker that tests share."""
    return topic_of(kafka_servers[0])


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that no system trusts, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return cert, private


class Command:
    """``chatsnapshot ingest`` in a process of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running: list[subprocess.Popen[str]] = []

    def start(self, url: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "chatsnapshot", "ingest", url, *arguments, "--ledger", str(self.path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.running.append(process)
        return process

    def __call__(self, url: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Run it until there is no more; gives the exit code, the report and standard error."""
        process = self.start(url, "--until-idle", "--json", *arguments)
        out, err = process.communicate(timeout=90)
        return process.returncode, json.loads(out) if out else {}, err

    def events(self) -> list[Any]:
        with chatsnapshot.open(self.path, read_only=True) as ledger:
            assert ledger.verify().ok
            return [entry.event for entry in ledger.read()]

    def stored(self) -> int:
        """How many events there are by now; the ledger may be in the making."""
        try:
            with chatsnapshot.open(self.path, read_only=True) as ledger:
                return ledger.head
        except chatsnapshot.LedgerError:
            return 0

    def numbers(self, events: Iterable[Any] | None = None) -> list[int]:
        return [event.payload["n"] for event in (self.events() if events is None else events)]


@pytest.fixture
def ingest(tmp_path: Path) -> Iterator[Command]:
    """``ingest(url, ...)``, into ``runs.db`` of the test's folder."""
    command = Command(tmp_path / "runs.db")
    yield command
    for process in command.running:
        if process.poll() is None:
            process.kill()
        process.communicate()
