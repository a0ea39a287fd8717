"""Asks a service: one operation of the wire a call, with the errors that a Store raises and what a lost answer means."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.errors import CommitUncertain, LedgerClosed, LedgerError, StoreUnavailable
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.address import Address
from chatsnapshot.stores.http.connection import Answer, Connections, Lost, Silent, Unreached
from chatsnapshot.stores.http.errors import Unclear, error_of, problem_of

__all__ = ["Asking"]

_HEADERS = {"Accept": wire.MEDIA_TYPE, wire.VERSION_HEADER: wire.VERSION}
_WRITE_FACTOR = 2
"""A write may take so many times the seconds of a read: the server syncs its disk for it."""


class Asking:
    """The operations of one ledger on one service."""

    def __init__(self, address: Address, url: str) -> None:
        self.address = address
        self.url = url
        self.connections = Connections(address)
        self._closed = False

    def read(self, operation: str, request: Any = None, seconds: float = 0.0, type: Any = Any) -> Any:
        """Ask for something that changes nothing; once more where a connection was lost.

        Raises :class:`StoreUnavailable` when nobody answers, and what the service answers with.
        """
        body = wire.encode(request)
        try:
            answer = self._ask(operation, body, seconds or self.address.seconds)
        except Silent as error:
            raise self._away(error) from None
        except Lost:
            try:
                answer = self._ask(operation, body, seconds or self.address.seconds)
            except Lost as error:
                raise self._away(error) from None
        try:
            return self.value(answer, type)
        except Unclear as error:
            raise StoreUnavailable(str(error)) from None

    def write(
        self,
        operation: str,
        request: Any,
        type: Any = Any,
        *,
        again: bool,
        settled: Callable[[], Any] | None = None,
        seconds: float = 0.0,
    ) -> Any:
        """Ask for a change. ``again``: it may be asked for twice without being done twice, so a lost answer is asked for
        once more; ``settled`` looks whether a lost change was made, and gives its answer or ``None``.

        Raises :class:`StoreUnavailable` when nothing was sent, :class:`CommitUncertain` when it is open what became of
        it, and what the service answers with.
        """
        body = request if isinstance(request, bytes) else wire.encode(request)
        seconds = seconds or self.address.seconds * _WRITE_FACTOR
        try:
            return self.value(self._ask(operation, body, seconds), type)
        except Silent as error:
            raise self.uncertain(error) from None
        except Unclear as error:
            raise self.uncertain(error) from None
        except Lost as error:
            first = error
        if settled is not None:
            try:
                found = settled()
            except LedgerError:
                found = None
            if found is not None:
                return found
        if not again:
            raise self.uncertain(first) from None
        try:
            return self.value(self._ask(operation, body, seconds), type)
        except (Lost, Unclear, StoreUnavailable) as error:
            # What became of the first request stays open, whatever is said of the second.
            raise self.uncertain(error) from None

    def _ask(self, operation: str, body: bytes, seconds: float) -> Answer:
        return self.call("POST", f"/store/{operation}", body, seconds)

    def call(
        self,
        method: str,
        path: str,
        body: bytes,
        seconds: float,
        started: Callable[[socket.socket], None] | None = None,
        media_type: str = wire.MEDIA_TYPE,
    ) -> Answer:
        """One request below the ledger's path; raises :class:`StoreUnavailable` when no connection can be made."""
        if self._closed:
            raise LedgerClosed(f"the ledger {self.url} was closed; open it again to use it")
        try:
            return self.connections.call(
                method, path, body, {**_HEADERS, "Content-Type": media_type}, seconds, started
            )
        except Unreached as error:
            raise StoreUnavailable(
                f"{self.url} cannot be reached ({error}); nothing was stored, check host and port in the URL, and that "
                "the service is running"
            ) from None

    def value(self, answer: Answer, type: Any) -> Any:
        """What an answer holds; raises what it says is wrong, :class:`Unclear` when it cannot be read."""
        if answer.status != 200:
            raise error_of(problem_of(answer), self.url)
        if answer.headers.get(wire.VERSION_HEADER.lower()) != wire.VERSION:
            raise StoreUnavailable(
                f"what answers at {self.url} is no ChatSnapshot service of wire version {wire.VERSION}; check the URL"
            )
        try:
            return wire.decode(answer.body, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unclear(f"the answer of {self.url} cannot be read: {error}") from None

    def _away(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"{self.url} does not answer ({error}); try again")

    def uncertain(self, error: Exception) -> CommitUncertain:
        """The error for a commit of which nothing certain is known."""
        return CommitUncertain(
            f"the answer of {self.url} to a commit was lost ({error}), so it is open whether these events are stored; "
            "retry with record_many(error.events)"
        )

    def after_fork(self) -> None:
        """In a forked child."""
        self.connections.after_fork()

    def close(self) -> None:
        """Ask nothing more."""
        self._closed = True
        self.connections.close()
