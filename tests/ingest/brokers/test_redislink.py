"""A connection to Redis: TLS that is verified, and answers that pass told from those that stay."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.ingest.brokers.redisaddress import read_stream
from chatsnapshot.ingest.brokers.redislink import Link, Lost, Refusal, sentence, told


def test_a_certificate_is_verified_and_one_of_ones_own_is_named(
    entries: Any, certificate: tuple[Path, Path]
) -> None:
    """The server of the tests knows no TLS: it is spoken in front of it."""
    cert, private = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, private)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_connection("127.0.0.1", entries.server.port)
        await asyncio.gather(pump(reader, theirs[1]), pump(theirs[0], writer))

    async def run() -> Any:
        async with await asyncio.start_server(speak, "127.0.0.1", 0, ssl=context) as server:
            url = f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}?stream=s"
            with pytest.raises(Lost, match=r"(?i)certificate.verify.failed"):
                await Link(read_stream(url)).open()
            with pytest.raises(Lost, match=r"(?i)certificate.verify.failed"):
                await Link(read_stream(f"{url.replace('127.0.0.1', 'localhost')}&tls_ca={cert}")).open()
            link = Link(read_stream(f"{url}&tls_ca={cert}"))
            await link.open()
            answer = await link.call("ECHO", "hello")
            await link.close()
            return answer

    assert asyncio.run(run()) == b"hello"


@pytest.mark.parametrize(
    "said",
    [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOREPLICAS Not enough good replicas to write.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "BUSY Valkey is busy running a script.",
    ],
)  # fmt: skip
def test_what_passes_is_waited_for(said: str) -> None:
    lost = told(theirs(said))
    assert isinstance(lost, Lost) and lost.answered and said.partition(" ")[0] in str(lost)


@pytest.mark.parametrize(
    ("said", "sentence_has"),
    [
        ("NOAUTH Authentication required.", "refuses the user or the password"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "refuses the user or the password"),
        ("NOPERM User x has no permissions to run the 'xack' command", "does not allow this user"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", "holds no stream"),
        ("MOVED 3999 127.0.0.1:6381", "node of a Redis Cluster, and the stream is on another"),
        ("ERR unknown command 'XAUTOCLAIM', with args beginning with: 's'", "takes Redis 6.2 or newer"),
        ("ERR syntax error", "refuses: syntax error"),
        ("NEWCODE something", "refuses: NEWCODE something"),
    ],
)
def test_what_stays_is_one_sentence(said: str, sentence_has: str) -> None:
    refusal = told(theirs(said))
    assert isinstance(refusal, Refusal)
    text = str(sentence(refusal, read_stream("redis://u:hunter2@h?stream=s")))
    assert sentence_has in text and "hunter2" not in text and "\n" not in text


def theirs(said: str) -> Exception:
    """The error that redis-py makes of what a server said."""
    from redis._parsers.base import BaseParser

    error = BaseParser.parse_error(said)
    assert isinstance(error, Exception)
    return error
