"""API keys in a file of their own: made, listed, revoked, looked up. Secrets are kept as hashes only."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import apsw
import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, FormatTooNew, InvalidEvent, LedgerError, NotFound, StoreUnavailable

__all__ = ["SCOPES", "Key", "Keys"]

SCOPES = ("ingest", "read", "admin")

_FORM = re.compile(r"csk_([a-z0-9]{8})_([A-Za-z0-9_-]{43})", re.ASCII)
_LEDGER = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_APPLICATION_ID = 0x63736B31
_FORMAT = 1
_BUSY_MILLISECONDS = 5_000
_USED_AGAIN_SECONDS = 3_600
"""``last_used`` is not written more often: a look-up is no write."""
_NOBODY = bytes(32)

_SCHEMA = """
CREATE TABLE keys(
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    ledgers TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    last_used_at TEXT
) STRICT, WITHOUT ROWID
"""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key; its secret is not. ``ledgers`` ``None``: all. Times are UTC text."""

    id: str
    name: str
    scopes: tuple[str, ...]
    ledgers: tuple[str, ...] | None
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None

    def status(self, now: str) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


class Keys:
    """The keys of a service. Several processes may use the file at once: what one revokes is refused by all at once."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        """Open the file; raises :class:`NotFound`, :class:`StoreUnavailable` and :class:`Corrupt`."""
        self.path = os.path.abspath(path)
        self._lock = threading.Lock()
        if create:
            self._make()
        if not os.path.isfile(self.path):
            raise NotFound(f"there are no keys at {self.path}; make the first with chatsnapshot keys create")
        _check_rights(self.path)
        self._db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        self._db.set_busy_timeout(_BUSY_MILLISECONDS)
        with self._told():
            if self._db.pragma("application_id") != _APPLICATION_ID:
                self._db.close()
                raise LedgerError(f"{self.path} is no file of keys; name another with --keys")
            if self._db.pragma("user_version") > _FORMAT:
                raise FormatTooNew(
                    f"{self.path} was written by a newer version of ChatSnapshot; upgrade to read it"
                )

    def _make(self) -> None:
        """The file, readable by its owner only, when it is not there."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if os.path.getsize(self.path):
                return
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be made: {error.strerror}") from None
        db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        try:
            with self._told(), db:
                if db.pragma("application_id") != _APPLICATION_ID:
                    db.execute(_SCHEMA)
                    db.pragma("user_version", _FORMAT)
                    db.pragma("application_id", _APPLICATION_ID)
        finally:
            db.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # --- what an administrator does ---

    def create(
        self,
        scopes: Iterable[str],
        *,
        name: str = "",
        ledgers: Iterable[str] | None = None,
        expires_seconds: float | None = None,
    ) -> tuple[Key, str]:
        """Make a key; gives it and its text ``csk_<id>_<secret>``, which is never to be had again."""
        wanted = tuple(scope for scope in SCOPES if scope in set(scopes))
        unknown = set(scopes) - set(SCOPES)
        if unknown or not wanted:
            raise InvalidEvent(
                f"scopes are of {', '.join(SCOPES)}, not {', '.join(sorted(unknown)) or 'none'}"
            )
        names = None if ledgers is None else tuple(dict.fromkeys(ledgers))
        for one in names or ():
            if not _LEDGER.fullmatch(one):
                raise InvalidEvent(f"a ledger's name is 1 to 63 of a-z, 0-9 and -, not {one!r:.80}")
        if expires_seconds is not None and not 0 < expires_seconds < 3.2e9:
            raise InvalidEvent("a key expires after more than 0 seconds, and within a hundred years")
        if len(name) > 100 or not name.isprintable():
            raise InvalidEvent("the name of a key is up to 100 characters that can be printed")
        now = time.time_ns()
        key = Key(
            id="".join(secrets.choice(_ID_LETTERS) for _ in range(8)),
            name=name,
            scopes=wanted,
            ledgers=names,
            created_at=time_text(now),
            expires_at=None if expires_seconds is None else time_text(now + int(expires_seconds * 1e9)),
        )
        secret = secrets.token_urlsafe(32)
        with self._lock, self._told(), self._db:
            self._db.execute(
                "INSERT INTO keys VALUES(?,?,?,?,?,?,?,NULL,NULL)",
                (
                    key.id,
                    _digest(secret),
                    key.name,
                    ",".join(wanted),
                    None if names is None else ",".join(names),
                    key.created_at,
                    key.expires_at,
                ),
            )
        return key, f"csk_{key.id}_{secret}"

    def revoke(self, key_id: str) -> Key:
        """Let a key be refused from now on; a second time changes nothing. Raises :class:`NotFound`."""
        with self._lock, self._told(), self._db:
            self._db.execute(
                "UPDATE keys SET revoked_at=? WHERE id=? AND revoked_at IS NULL",
                (time_text(time.time_ns()), key_id),
            )
            found = self._found(key_id)
        if found is None:
            raise NotFound(f"there is no key {key_id[:40]!r}; chatsnapshot keys list shows those there are")
        return found[0]

    def list(self) -> list[Key]:
        """All keys, in the order in which they were made."""
        with self._lock, self._told():
            return [_key(row) for row in self._db.execute(f"{_SELECT} ORDER BY created_at, id")]

    # --- what a request does ---

    def look_up(self, text: str) -> Key | None:
        """The key of this text when it is one that may be used now; the same work whatever is wrong with it."""
        match = _FORM.fullmatch(text)
        with self._lock, self._told():
            found = self._found(match.group(1) if match else "")
        kept = _NOBODY if found is None else found[1]
        right = hmac.compare_digest(_digest(match.group(2) if match else text), kept)
        if found is None or not right:
            return None
        now = time.time_ns()
        key = found[0]
        if key.status(time_text(now)) != "active":
            return None
        if key.last_used_at is None or key.last_used_at < time_text(now - _USED_AGAIN_SECONDS * 10**9):
            self._used(key.id, time_text(now))
        return key

    def _found(self, key_id: str) -> tuple[Key, bytes] | None:
        for row in self._db.execute(f"{_SELECT} WHERE id=?", (key_id,)):
            return _key(row), row[1]
        return None

    def _used(self, key_id: str, now: str) -> None:
        """A look-up does not fail because this cannot be noted."""
        try:
            with self._lock, self._db:
                self._db.execute("UPDATE keys SET last_used_at=? WHERE id=?", (now, key_id))
        except apsw.Error:
            pass

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The driver's errors as ours."""
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError):
            raise Corrupt(f"{self.path} is damaged, or no file of keys; restore it from a copy") from None
        except apsw.Error as error:
            raise StoreUnavailable(f"the keys at {self.path} cannot be used now: {error}") from None


_SELECT = "SELECT id, hash, name, scopes, ledgers, created_at, expires_at, revoked_at, last_used_at FROM keys"


def _digest(secret: str) -> bytes:
    """256 random bits need no slow hash: there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _key(row: tuple[object, ...]) -> Key:
    key_id, _, name, scopes, ledgers, created_at, expires_at, revoked_at, last_used_at = row
    return Key(
        id=str(key_id),
        name=str(name),
        scopes=tuple(str(scopes).split(",")),
        ledgers=None if ledgers is None else tuple(one for one in str(ledgers).split(",") if one),
        created_at=str(created_at),
        expires_at=expires_at,  # type: ignore[arg-type]
        revoked_at=revoked_at,  # type: ignore[arg-type]
        last_used_at=last_used_at,  # type: ignore[arg-type]
    )


def _check_rights(path: str) -> None:
    """Refuse a file that others can read or write."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise StoreUnavailable(f"{path} can be read by others (mode {mode:04o}); run: chmod 600 {path}")
