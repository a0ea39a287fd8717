"""One connection to Redis: a command and its answer as it came, and what may be tried again told from what may not."""

from __future__ import annotations

import ssl
from typing import Any

from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.ingest.brokers.redisaddress import RedisStream

__all__ = ["Link", "Lost", "Refusal", "sentence"]

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
"""A server that says nothing for so long is taken to be gone."""

_CLASSES = {
    "AuthenticationError": "NOAUTH",
    "AuthorizationError": "NOAUTH",
    "NoPermissionError": "NOPERM",
    "BusyLoadingError": "LOADING",
    "ReadOnlyError": "READONLY",
    "OutOfMemoryError": "OOM",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
    "AskError": "MOVED",
}
"""Errors that redis-py has classes for, without the code that the server gave them."""
_PASSING = frozenset(
    {
        "LOADING",
        "READONLY",
        "OOM",
        "CLUSTERDOWN",
        "MASTERDOWN",
        "TRYAGAIN",
        "UNBLOCKED",
        "MISCONF",
        "NOREPLICAS",
        "BUSY",
    }
)
"""What a server says that starts, fails over, has no room or no disk: it is asked again."""


class Lost(Exception):
    """The server is away, or takes nothing at the moment. ``answered``: it is there, and said so itself."""

    def __init__(self, why: str, *, answered: bool = False) -> None:
        super().__init__(why)
        self.answered = answered


class Refusal(Exception):
    """The server refuses a command, and will again; ``code`` is the first word of its answer, such as ``WRONGTYPE``."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Link:
    """Commands one after the other, never two at once. Raises :class:`Lost` and :class:`Refusal`, and nothing else."""

    def __init__(self, source: RedisStream) -> None:
        self._source = source
        self._connection: Any = None

    async def open(self) -> None:
        """Connect; raises :class:`MissingExtra` without redis-py, :class:`LedgerError` for files that cannot be read."""
        try:
            from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
        except ImportError:
            raise MissingExtra("ingesting from Redis", "redis") from None
        kind: Any = Connection
        if self._source.socket:
            kind = UnixDomainSocketConnection
        elif self._source.tls:
            kind = SSLConnection
        connection = kind(
            **self._source.connect_options(),
            protocol=2,  # its answers are the same with every version
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
        )
        try:
            await connection.connect()
        except Exception as error:
            await _hang_up(connection)
            raise told(error) from None
        except BaseException:
            await _hang_up(connection)
            raise
        self._connection = connection
        try:
            await self.call("CLIENT", "SETNAME", "chatsnapshot-ingest")
        except Refusal:
            pass  # a user that may not; it only shows who is there

    async def call(self, *words: str | int) -> Any:
        """The answer to a command: bytes, numbers, lists of these, or ``None``."""
        connection = self._connection
        if connection is None:
            raise Lost("not connected")
        try:
            await connection.send_command(*words)
            return await connection.read_response()
        except Exception as error:
            failure = told(error)
            if isinstance(failure, Lost):
                await self.close()
            raise failure from None

    async def close(self) -> None:
        """Hang up; never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _hang_up(connection)


async def _hang_up(connection: Any) -> None:
    try:
        await connection.disconnect()
    except Exception:
        pass


def told(error: BaseException) -> Lost | Refusal | Exception:
    """What an error of redis-py means; what is none of its errors comes back."""
    import redis.exceptions as theirs

    inner = error.__cause__ or (error.args[0] if error.args else None)
    if isinstance(error, theirs.ConnectionError) and isinstance(inner, theirs.RedisError):
        error = inner  # that of a handshake over a socket is wrapped
    # Older versions of redis-py say of a certificate no more than a number.
    refused = error.__context__ if isinstance(error.__context__, ssl.SSLError) else error
    text = str(refused) or type(error).__name__
    if isinstance(error, theirs.InvalidResponse):
        return Refusal("PROTOCOL", text)
    code = next((_CLASSES[one.__name__] for one in type(error).__mro__ if one.__name__ in _CLASSES), "")
    if not code and isinstance(error, theirs.ResponseError):
        code = text.partition(" ")[0]
        code = code if code.isupper() and code.isalpha() else "ERR"
    if code in _PASSING:
        return Lost(f"{code} {text.removeprefix(code).strip()}", answered=True)
    if code:
        return Refusal(code, text)
    if isinstance(error, (theirs.ConnectionError, theirs.TimeoutError, OSError, EOFError, ssl.SSLError)):
        return Lost(text)
    return error if isinstance(error, Exception) else Lost(text)


def sentence(refusal: Refusal, source: RedisStream) -> LedgerError:
    """A refusal as one sentence that says what to do."""
    said = " ".join(str(refusal).split())[:200]
    where = source.url
    if refusal.code == "NOAUTH":
        return LedgerError(
            f"{where} refuses the user or the password ({said}); write redis://USER:PASSWORD@host, or "
            "redis://:PASSWORD@host where there are no users"
        )
    if refusal.code == "NOPERM":
        return LedgerError(
            f"{where} does not allow this user what is needed ({said}); it is XREADGROUP, XACK, XCLAIM, XAUTOCLAIM "
            "and XPENDING on the stream, and XGROUP CREATE where the group is to be made"
        )
    if refusal.code == "WRONGTYPE":
        return LedgerError(
            f"the key {source.stream!r} of {where} holds no stream; name another with stream=KEY"
        )
    if refusal.code == "MOVED":
        return LedgerError(
            f"{where} is a node of a Redis Cluster, and the stream is on another ({said}); give the address of that one"
        )
    if refusal.code == "PROTOCOL":
        return LedgerError(
            f"what answers at {where} does not speak Redis' protocol ({said}); check host and port"
        )
    if "unknown command" in said.lower() or "unknown subcommand" in said.lower():
        return LedgerError(f"{where} is too old ({said}); it takes Redis 6.2 or newer, or Valkey")
    return LedgerError(f"{where} refuses: {said}")
