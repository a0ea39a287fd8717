"""One connection to NATS: requests whose outcome is known, or known to be unknown, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.errors import MissingExtra, StoreUnavailable
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.answers import ApiError, Away, Denied, Unanswered, Unsent, plain
from chatsnapshot.stores.nats.dialing import dialed, hang_up
from chatsnapshot.stores.nats.messages import framed

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

__all__ = ["LOOK_SECONDS", "Connection", "Got"]

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""How long a question after the head waits: it is asked again, and while there is no leader nobody answers."""
_SEND_MESSAGES = 64
_HINT_SECONDS = 0.003
_COMMIT_SECONDS = 2.0
_COMMIT_BYTES_A_SECOND = 4_000_000
_REFUSED_SECONDS = 1.5
_LOOK_SECONDS = 0.02
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]+)\"", re.IGNORECASE)
_REFUSED = ("authorization", "authentication", "user authentication", "nkey", "jwt")
_RESET = "reset by peer"


class Got(msgspec.Struct, frozen=True, gc=False):
    """A stored message."""

    seq: int
    subject: str
    data: bytes


class _Wait:
    """Somebody who waits for answers on one reply subject."""

    __slots__ = ("future", "many", "subject")

    def __init__(self, subject: str, many: Callable[[Msg], bool] | None) -> None:
        self.subject = subject
        self.many = many
        self.future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()


class Connection:
    """A NATS client with one subscription for all answers; used on its loop only."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: Client | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, _Wait] = {}
        self._inbox = ""
        self._trouble: list[str] = []
        self._refused = 0
        self._closing = False
        self._hint: tuple[str, bytes] | None = None
        self._hint_due = False
        self._hinting: asyncio.Future[None] | None = None
        self._up = asyncio.Event()
        self._denied_inbox = ""

    # --- coming and going ---

    async def open(self) -> None:
        """Connect; raises :class:`StoreUnavailable`, which says what the servers answered."""
        try:
            import nats.aio.client  # noqa: F401 - told apart from nkeys, which is missing below
        except ImportError:
            raise MissingExtra("a ledger on NATS", "nats") from None
        options = self.address.connect_options()
        self._trouble.clear()
        try:
            self._client = await dialed(
                min(CONNECT_SECONDS, self.address.timeout),
                self._tried_enough,
                **options,
                error_cb=self._error,
                disconnected_cb=self._disconnected,
                reconnected_cb=self._reconnected,
            )
        except ImportError:
            raise StoreUnavailable(
                "credentials= and nkey= need the package nkeys; install nats-py with its extra nkeys"
            ) from None
        except Exception as error:
            self._trouble.append(str(error) or type(error).__name__)
        if self._client is None:
            raise self._unreachable()
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)
        self._up.set()

    def _tried_enough(self) -> bool:
        """A server that refuses the credentials may close before its reason was read: then it is asked again."""
        tries = 2 * len(self.address.servers)
        told = [one for one in self._trouble if _RESET not in one.lower()]
        return len(told) >= tries or len(self._trouble) >= 4 * tries

    def _unreachable(self) -> StoreUnavailable:
        refused = [one for one in self._trouble if any(word in one.lower() for word in _REFUSED)]
        said = refused[-1] if refused else self._trouble[-1] if self._trouble else "no answer"
        if refused:
            return StoreUnavailable(
                f"{self.address.url} refuses the credentials; check user and password, token or credentials= in the URL"
            )
        return StoreUnavailable(
            f"{self.address.url} cannot be reached ({plain(said)}); check that nats-server runs there, host and port"
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._send_hint()
        self._closing = True
        client, self._client = self._client, None
        if client is not None:
            await hang_up(client)
        self._fail_all(Unanswered("the connection was closed"))

    async def ready(self, within: float) -> None:
        """Wait for the connection to be up, and not for long while every server refuses it; raises :class:`Away`."""
        begun = time.monotonic()
        while not self._up.is_set():
            now = time.monotonic()
            refused = self._refused >= 2 * len(self.address.servers)
            if self._closing or now - begun > within or (refused and now - begun > _REFUSED_SECONDS):
                raise Away(plain(self._trouble[-1]) if self._trouble else "disconnected")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        found = _DENIED.search(text)
        if isinstance(error, ConnectionRefusedError):
            self._refused += 1
        if found is None:
            self._trouble = [*self._trouble[-20:], text]
            return
        kind, subject = found.group(1).lower(), found.group(2)
        if kind == "subscription":
            if subject.lower().startswith(self._inbox.lower()):
                self._denied_inbox = f"{self._inbox.partition('.')[0]}.>"
                self._fail_all(Denied("subscribe to", self._denied_inbox))
            return
        for key, wait in list(self._waiting.items()):
            if wait.subject.lower() == subject.lower():  # some versions of the client write it small
                self._fail(key, Denied("publish to", wait.subject))

    async def _disconnected(self) -> None:
        self._up.clear()
        self._fail_all(Unanswered("the connection was lost"))

    async def _reconnected(self) -> None:
        self._trouble.clear()
        self._refused = 0
        self._up.set()

    def _fail_all(self, error: Exception) -> None:
        for key in list(self._waiting):
            self._fail(key, error)

    def _fail(self, key: str, error: Exception) -> None:
        wait = self._waiting.pop(key, None)
        if wait is not None and not wait.future.done():
            wait.future.set_exception(error)

    # --- facts about the server ---

    @property
    def client(self) -> Client:
        """The client; there is one once :meth:`open` has returned."""
        assert self._client is not None
        return self._client

    @property
    def max_payload(self) -> int:
        """Bytes that the server takes in one message."""
        return int(self.client.max_payload)

    def server(self) -> dict[str, Any]:
        """What the server says of itself."""
        return dict(self.client._server_info)

    # --- requests ---

    async def _answered(self, message: Msg) -> None:
        key = message.subject.rpartition(".")[2]
        wait = self._waiting.get(key)
        if wait is None or (wait.many is not None and not wait.many(message)):
            return
        del self._waiting[key]
        if not wait.future.done():
            wait.future.set_result(message)

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        many: Callable[[Msg], bool] | None = None,
        timeout: float = REQUEST_SECONDS,
    ) -> Msg:
        """Send a request and wait for its answer, with ``many`` for the answer to which it says true.

        Raises :class:`Unsent` when nobody got it, :class:`Unanswered` when that is open, :class:`Denied`.
        """
        if not self._up.is_set() or self._client is None:
            raise Unsent(plain(self._trouble[-1]) if self._trouble else "disconnected")
        if self._denied_inbox:
            raise Denied("subscribe to", self._denied_inbox)
        key = str(next(self._numbers))
        wait = _Wait(subject, many)
        self._waiting[key] = wait
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout, self._fail, key, Unanswered(f"no answer within {timeout:g} s"))
        try:
            await self._client.publish(subject, data, reply=f"{self._inbox}.{key}", headers=headers)
            message = await wait.future
        except (Unanswered, Denied):
            raise
        except (Exception, asyncio.CancelledError) as error:
            raise self._broken(error) from None
        finally:
            timer.cancel()
            self._waiting.pop(key, None)
        if not message.data and message.headers and message.headers.get("Status") == "503":
            raise Unsent("nobody serves this subject: there is no JetStream, or no leader at the moment")
        return message

    def _broken(self, error: BaseException) -> BaseException:
        """What it means that sending failed; the client also cancels what waits for its own buffers."""
        if isinstance(error, asyncio.CancelledError) and self._closing:
            return error
        return Unanswered(plain(str(error) or "the connection was lost"))

    async def api(self, call: str, body: object = None, timeout: float = REQUEST_SECONDS) -> dict[str, Any]:
        """A call of the JetStream API; raises :class:`ApiError` and what :meth:`ask` raises."""
        data = b"" if body is None else msgspec.json.encode(body)
        message = await self.ask(f"{self.address.api}.{call}", data, timeout=timeout)
        answer: dict[str, Any] = msgspec.json.decode(message.data)
        error = answer.get("error")
        if error:
            raise ApiError.of(error)
        return answer

    def hint(self, subject: str, data: bytes) -> None:
        """Publish soon, without an answer, where its loss does no harm; with the next commit if that comes first."""
        if not self._hint_due:  # one timer for all: each wakes the loop
            self._hint_due = True
            asyncio.get_running_loop().call_later(_HINT_SECONDS, self._hint_now)
        self._hint = (subject, data)

    def _hint_now(self) -> None:
        self._hint_due = False
        if self._hint is not None and not self._closing:
            self._hinting = asyncio.ensure_future(self._send_hint())

    async def _send_hint(self) -> None:
        hint, self._hint = self._hint, None
        if hint is not None and self._up.is_set() and self._client is not None:
            try:
                await self._client.publish(*hint)
            except (Exception, asyncio.CancelledError):
                pass  # a hint

    async def listen(self, subject: str, heard: Callable[[], None]) -> None:
        """Call ``heard`` for each message on a subject from now on."""

        async def hear(_: Msg) -> None:
            heard()

        try:
            await self.client.subscribe(subject, cb=hear)
        except Exception:
            pass  # a hint

    async def store(
        self,
        messages: Iterable[tuple[str, bytes]],
        condition: tuple[str, str] | None = None,
        count: int = 1,
        size: int = 0,
    ) -> int:
        """Store messages in one stream, all or none; gives the sequence of the last.

        ``condition`` is a header of the first; ``count`` and ``size`` say how many there are, with how many bytes. Raises
        :class:`ApiError` when the server refuses.
        """
        await self._send_hint()
        headers = dict([condition]) if condition else {}
        timeout = _COMMIT_SECONDS + size / _COMMIT_BYTES_A_SECOND
        each = iter(messages)
        if count == 1:
            subject, data = next(each)
            answer = await self.ask(subject, data, headers or None, timeout=timeout)
        else:
            batch = os.urandom(12).hex()
            client = self.client
            if not self._up.is_set():
                raise Unsent("disconnected")
            # What publish() ends in. Its checks of each header and subject cost more than all else that a message costs.
            send = getattr(client, "_send_command", None)
            first = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            try:
                for number in range(1, count):
                    subject, data = next(each)  # made while the server takes those in front of it
                    if send is not None and number % _SEND_MESSAGES:
                        lines = f"{first}Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {number}\r\n"
                        await send(framed(subject, data, lines))
                        first, headers = "", {}
                        continue
                    headers["Nats-Batch-Id"] = batch
                    headers["Nats-Batch-Sequence"] = str(number)
                    await client.publish(subject, data, headers=headers)
                    first, headers = "", {}
                    if not number % _SEND_MESSAGES:
                        # The client sends while it is waited for, and the server takes it.
                        await asyncio.sleep(0)
            except (Exception, asyncio.CancelledError) as error:
                raise self._broken(error) from None
            subject, data = next(each)
            commit = {
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(count),
                "Nats-Batch-Commit": "1",
            }
            answer = await self.ask(subject, data, commit, timeout=timeout)
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        if found.get("error"):
            raise ApiError.of(found["error"])
        return int(found["seq"])

    async def direct(self, stream: str, body: dict[str, object]) -> list[Got]:
        """Messages of a stream, many at a time, from whichever server has them; that one may be behind."""
        found: list[Got] = []

        def take(message: Msg) -> bool:
            headers = message.headers or {}
            if "Nats-Sequence" not in headers:
                return True
            found.append(Got(int(headers["Nats-Sequence"]), headers["Nats-Subject"], message.data))
            return False

        end = await self.ask(
            f"{self.address.api}.DIRECT.GET.{stream}",
            msgspec.json.encode(body),
            many=take,
            timeout=2 * REQUEST_SECONDS,
        )
        status = (end.headers or {}).get("Status")
        if status not in ("204", "404"):
            raise ApiError(int(status or 500), 0, str((end.headers or {}).get("Description", "no such read")))
        return found

    async def message(self, stream: str, body: dict[str, object]) -> Got | None:
        """One message of a stream, from its leader; ``None`` when there is none."""
        from base64 import b64decode

        try:
            answer = await self.api(f"STREAM.MSG.GET.{stream}", body)
        except ApiError as error:
            if error.err_code == 10037:
                return None
            raise
        found = answer["message"]
        return Got(int(found["seq"]), found["subject"], b64decode(found.get("data", "")))
