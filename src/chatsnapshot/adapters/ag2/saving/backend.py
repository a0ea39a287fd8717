"""Where saved chats are kept: a ``StorageBackend`` and its configuration as a ledger, opened when it is needed."""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from chatsnapshot.errors import InvalidEvent, LedgerClosed, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.opening import open as open_ledger
from chatsnapshot.stores.open import locate
from chatsnapshot.stores.serverurls import SCHEMES

__all__ = ["DEFAULT_FOLDER", "DEFAULT_MONGODB", "Place", "StorageBackend"]

DEFAULT_FOLDER = "./chat_snapshots"
DEFAULT_MONGODB = "mongodb://localhost:27017/chatsnapshot?ledger=chats"


class StorageBackend(str, enum.Enum):
    """The kinds of place for saved chats; each is a ledger, so all tools for ledgers work on it."""

    JSON = "json"
    """Lines that people read: ``./chat_snapshots/chats.jsonl``."""
    SQLITE = "sqlite"
    """One database file: ``./chat_snapshots/chats.db``."""
    MEMORY = "memory"
    """Gone with the process; for tests."""
    MONGODB = "mongodb"
    """A MongoDB replica set: ``mongodb://localhost:27017/chatsnapshot?ledger=chats``, or a URL of yours."""


_FILES = {StorageBackend.JSON: ("jsonl", "chats.jsonl"), StorageBackend.SQLITE: ("sqlite", "chats.db")}
_PATHLESS = {StorageBackend.MEMORY: "memory:", StorageBackend.MONGODB: DEFAULT_MONGODB}
_KEYS = ("path", "url", "ledger")
_SERVERS = tuple(f"{scheme}://" for scheme in SCHEMES)


class Place:
    """The ledger of saved chats. Nothing is made on disk before the first save; a ledger that was given stays open."""

    def __init__(self, backend: StorageBackend | str, config: Mapping[str, Any] | None = None) -> None:
        self.backend = _backend(backend)
        given = {key: value for key, value in dict(config or {}).items() if value is not None}
        unknown = sorted(str(key) for key in given if key not in _KEYS)
        if unknown:
            raise InvalidEvent(
                f"storage_config knows {', '.join(_KEYS)}, not {unknown[0]!r}", path="storage_config"
            )
        if len(given) > 1:
            raise InvalidEvent(
                f"storage_config takes one of {', '.join(_KEYS)}, not {' and '.join(sorted(given))}",
                path="storage_config",
            )
        ledger = given.get("ledger")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidEvent(
                f'storage_config["ledger"] is an open Ledger, not {type(ledger).__name__}; give a "path" or "url"',
                path="storage_config",
            )
        self._given = ledger is not None
        self._ledger: Ledger | None = ledger
        self._lock = threading.Lock()
        self._closed = False
        self._path, self._address = ("", ledger.url) if ledger is not None else self._location(given)
        # The address may hold a password; what is shown does not.
        shown = ledger is None and self._address.startswith(_SERVERS)
        self.url = locate(self._address).url if shown else self._address

    def _location(self, given: Mapping[str, Any]) -> tuple[str, str]:
        if "url" in given:
            return "", os.fspath(given["url"])
        if self.backend in _PATHLESS:
            if "path" in given:
                raise InvalidEvent(
                    f"the {self.backend.value} backend has no path; use JSON or SQLITE", path="storage_config"
                )
            return "", _PATHLESS[self.backend]
        kind, name = _FILES[self.backend]
        path = os.path.abspath(os.fspath(given.get("path") or os.path.join(DEFAULT_FOLDER, name)))
        return path, f"{kind}:{quote(path)}"

    def writable(self) -> Ledger:
        """The ledger, made with its folder when it is not there."""
        with self._lock:
            if self._ledger is None:
                self._check_open()
                if self._path:
                    os.makedirs(os.path.dirname(self._path), exist_ok=True)
                self._ledger = open_ledger(self._address)
            return self._ledger

    def readable(self) -> Ledger | None:
        """The ledger, or ``None`` when nothing was saved there yet."""
        with self._lock:
            if self._ledger is None:
                self._check_open()
                if self._address == "memory:":
                    return None
                try:
                    self._ledger = open_ledger(self._address, create=False)
                except NotFound:
                    return None
            return self._ledger

    def close(self) -> None:
        """Close what was opened here; a ledger that was given is left open. A second close does nothing."""
        with self._lock:
            self._closed = True
            ledger, self._ledger = self._ledger, None
            if ledger is not None and not self._given:
                ledger.close()

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerClosed("this AG2ChatPersistence was closed; make a new one")


def _backend(backend: StorageBackend | str) -> StorageBackend:
    try:
        return StorageBackend(backend.lower() if isinstance(backend, str) else backend)
    except ValueError:
        known = ", ".join(f"StorageBackend.{one.name}" for one in StorageBackend)
        raise InvalidEvent(
            f"storage_backend is one of {known}, not {backend!r:.80}", path="storage_backend"
        ) from None
