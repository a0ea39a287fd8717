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
from typing import Any

import apsw
import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, FormatTooNew, InvalidEvent, LedgerError, NotFound, StoreUnavailable

__all__ = ["SCOPES", "USED_AGAIN_SECONDS", "Key", "Keys"]

SCOPES = ("ingest", "read", "admin")

_FORM = re.compile(r"csk_([a-z0-9]{8})_([A-Za-z0-9_-]{43})", re.ASCII)
_LEDGER = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_APPLICATION_ID = 0x63736B31
_FORMAT = 1
_WRITE_MILLISECONDS = 5_000
_READ_MILLISECONDS = 100
"""Reads go beside writes (WAL) and wait for hardly anything; the event loop may do them."""
USED_AGAIN_SECONDS = 3_600
"""``last_used`` is not written more often."""
_NOBODY = bytes(32)

_SCHEMA = """
CREATE TABLE keys(
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    ledgers TEXT,
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    revoked_by TEXT,
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
    created_by: str
    expires_at: str | None = None
    revoked_at: str | None = None
    revoked_by: str | None = None
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
        self._file, self._db = self._open()

    def __repr__(self) -> str:
        return f"Keys({self.path!r})"

    def _open(self) -> tuple[tuple[int, int], apsw.Connection]:
        """A connection for reading, and which file it is on."""
        file = self._there()
        _check_rights(self.path)
        with self._told():
            db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                db.set_busy_timeout(_READ_MILLISECONDS)
                if db.pragma("application_id") != _APPLICATION_ID:
                    raise LedgerError(f"{self.path} is no file of keys; name another with --keys")
                if db.pragma("user_version") > _FORMAT:
                    raise FormatTooNew(
                        f"{self.path} was written by a newer version of ChatSnapshot; upgrade to read it"
                    )
            except BaseException:
                db.close()
                raise
        return file, db

    def _there(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            raise NotFound(f"there are no keys at {self.path}; make the first with chatsnapshot keys create")
        return found.st_dev, found.st_ino

    def _current(self) -> apsw.Connection:
        """The connection, on the file that now has the name: one that was put in its place counts from then on."""
        if self._there() != self._file:
            file, db = self._open()
            self._db.close()
            self._file, self._db = file, db
        return self._db

    def _make(self) -> None:
        """The file, readable by its owner only, when it is not there."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be made: {error.strerror}") from None
        with self._told():
            db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                db.set_busy_timeout(_WRITE_MILLISECONDS)
                if not _is_new(db):
                    return
                db.pragma("journal_mode", "wal")
                with _immediate(db):
                    if _is_new(db):  # another process may have been faster
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
        by: str = "",
    ) -> tuple[Key, str]:
        """Make a key, for ``by``; gives it and its text ``csk_<id>_<secret>``, which is never to be had again."""
        given = set(scopes)
        wanted = tuple(scope for scope in SCOPES if scope in given)
        unknown = given - set(SCOPES)
        if unknown or not wanted:
            raise InvalidEvent(
                f"scopes are of {', '.join(SCOPES)}, not {', '.join(sorted(unknown)) or 'none'}"
            )
        names = None if ledgers is None else tuple(dict.fromkeys(ledgers))
        if names == ():
            raise InvalidEvent("name the ledgers of the key, or none for a key of all ledgers")
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
            created_by=by,
            expires_at=None if expires_seconds is None else time_text(now + int(expires_seconds * 1e9)),
        )
        secret = secrets.token_urlsafe(32)
        with self._writing() as db:
            db.execute(
                "INSERT INTO keys VALUES(?,?,?,?,?,?,?,?,NULL,NULL,NULL)",
                (
                    key.id,
                    _digest(secret),
                    key.name,
                    ",".join(wanted),
                    None if names is None else ",".join(names),
                    key.created_at,
                    key.created_by,
                    key.expires_at,
                ),
            )
        return key, f"csk_{key.id}_{secret}"

    def revoke(self, key_id: str, *, by: str = "") -> Key:
        """Let a key be refused from now on; a second time changes nothing. Raises :class:`NotFound`."""
        with self._writing() as db:
            db.execute(
                "UPDATE keys SET revoked_at=?, revoked_by=? WHERE id=? AND revoked_at IS NULL",
                (time_text(time.time_ns()), by, key_id),
            )
            found = _found(db, key_id)
        if found is None:
            raise NotFound(f"there is no key {key_id[:40]!r}; chatsnapshot keys list shows those there are")
        return _key(found)

    def list(self) -> list[Key]:
        """All keys, in the order in which they were made."""
        with self._lock, self._told():
            return [_key(row) for row in self._current().execute(f"{_SELECT} ORDER BY created_at, id")]

    def version(self) -> tuple[int, int, int]:
        """Another value once anything in the file was changed, by whatever process."""
        with self._lock, self._told():
            db = self._current()
            return *self._file, int(db.pragma("data_version"))

    # --- what a request does ---

    def look_up(self, text: str) -> Key | None:
        """The key of this text when it is one that may be used now; the same work whatever is wrong with it."""
        match = _FORM.fullmatch(text)
        with self._lock, self._told():
            found = _found(self._current(), match.group(1) if match else "")
        kept = _NOBODY if found is None else found[1]
        right = hmac.compare_digest(_digest(match.group(2) if match else text), kept)
        if found is None or not right:
            return None
        key = _key(found)
        return key if key.status(time_text(time.time_ns())) == "active" else None

    def holds(self, key_id: str) -> bool:
        """Whether a key that was looked up before may be used still."""
        with self._lock, self._told():
            found = _found(self._current(), key_id)
        return found is not None and _key(found).status(time_text(time.time_ns())) == "active"

    def used(self, key_id: str) -> None:
        """Note that a key was used, at most once an hour; fails quietly: nothing depends on it."""
        now = time.time_ns()
        late = time_text(now - USED_AGAIN_SECONDS * 10**9)
        try:
            with self._writing() as db:
                db.execute(
                    "UPDATE keys SET last_used_at=? WHERE id=? AND (last_used_at IS NULL OR last_used_at<?)",
                    (time_text(now), key_id, late),
                )
        except LedgerError:
            pass

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """A transaction on a connection of its own, durable at its end."""
        self._there()
        with self._told():
            db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                db.set_busy_timeout(_WRITE_MILLISECONDS)
                db.pragma("synchronous", "FULL")
                with _immediate(db):
                    yield db
            finally:
                db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The driver's errors as ours."""
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError):
            raise Corrupt(f"{self.path} is damaged, or no file of keys; restore it from a copy") from None
        except apsw.Error as error:
            raise StoreUnavailable(f"the keys at {self.path} cannot be used now: {error}") from None


_SELECT = (
    "SELECT id, hash, name, scopes, ledgers, created_at, created_by, expires_at, revoked_at, revoked_by, last_used_at"
    " FROM keys"
)


def _is_new(db: apsw.Connection) -> bool:
    """Whether nothing at all is in the file."""
    return not db.pragma("application_id") and not db.execute("SELECT count(*) FROM sqlite_master").get


@contextmanager
def _immediate(db: apsw.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _found(db: apsw.Connection, key_id: str) -> tuple[Any, ...] | None:
    return db.execute(f"{_SELECT} WHERE id=?", (key_id,)).fetchone()


def _digest(secret: str) -> bytes:
    """256 random bits need no slow hash: there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _key(row: tuple[Any, ...]) -> Key:
    key_id, _, name, scopes, ledgers, created_at, created_by, expires_at, revoked_at, revoked_by, used = row
    return Key(
        id=key_id,
        name=name,
        scopes=tuple(scopes.split(",")),
        ledgers=None if ledgers is None else tuple(ledgers.split(",")),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        revoked_at=revoked_at,
        revoked_by=revoked_by,
        last_used_at=used,
    )


def _check_rights(path: str) -> None:
    """Refuse a file that others can read or write."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise StoreUnavailable(f"{path} can be read by others (mode {mode:04o}); run: chmod 600 {path}")
